"""DataLoader: the batches of a dataset, made here, by threads or by worker processes."""

from __future__ import annotations

import hashlib
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np

from mxjax.display.reprs import Shown
from mxjax.errors import (
    MXNetAssertionError,
    MXNetError,
    MXNetImportError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from mxjax.settings import get as setting

from ._host import is_array, map_tree, packed
from ._pools import ProcessPool, ThreadPool
from ._position import Epoch, position_of, resumed
from ._samples import sample_by_sample
from ._whole import whole_batches
from .batchify import Stack, StackTuples
from .sampler import make_batch_sampler

__all__ = ["DataLoader"]


class DataLoader(Shown):
    """Iterates over the batches of a dataset, in the order of its sampler.

    Args:
      dataset: anything with `len()` and `[]`; an array serves as one.
      batch_size: samples per batch.
      shuffle: draw the order anew each epoch, from NumPy's global generator.
      sampler: gives the order instead; not together with `shuffle`.
      last_batch: 'keep' (default), 'discard' or 'rollover', see `BatchSampler`.
      batch_sampler: gives lists of indices, instead of the four above.
      batchify_fn: makes a batch of a list of samples; `batchify.Stack()` if None (where MXNet 1 is
        stood for `batchify.StackTuples()`: a sample that is a list is a row there).
      num_workers: how many workers make batches; 0 makes them here, when they are asked for.
      pin_memory: put batches into page-locked memory, for faster copies to a GPU.
      pin_device_id: the device whose copies shall be fast.
      prefetch: batches made ahead of the one in use; `2 * num_workers` if None.
      thread_pool: workers are threads of this process, which suits files and NumPy; otherwise they
        are processes, which also run Python in parallel.
      timeout: seconds that a batch may keep the loop waiting.
      try_nopython: whether batches may be made as a whole, see below; None: where possible, False:
        never, True: it is an error if that is not possible (with workers, as in MXNet).
      auto_reload: begin the next epoch whenever one has ended, and the first one now (MXNet 1.9).

    Where samples are rows of arrays (an `ArrayDataset`, MNIST, ...), perhaps transformed by
    transforms that treat a batch image by image (`ToTensor`, `Normalize`, `Resize`, ...), and the
    batchify function is `Stack`, a batch is made as a whole: one gather of rows instead of Python
    for every sample.  Workers are threads of this process then.

    Worker processes see the dataset as it was when the first loop began.  They need no
    `if __name__ == '__main__'` in the script, hold no JAX unless the dataset uses it, and seed
    NumPy's, Python's and mxjax's random numbers for each batch, so that augmentation depends on
    `numpy.random.seed` alone, whatever the number of workers.  They need the package loky
    (`pip install 'mxjax[data]'`); without it threads serve instead, after a warning.

    Raises:
      MXNetValueError: arguments that contradict each other.
      MXNetTimeoutError: a batch took longer than `timeout`.
      MXNetError: a worker process died.  Errors of the dataset are raised as they are, with the
        worker's traceback.

    >>> from mxjax.gluon.data import ArrayDataset
    >>> dataset = ArrayDataset(np.arange(6.0).reshape(3, 2), np.arange(3))
    >>> for data, label in DataLoader(dataset, batch_size=2):
    ...     print(data.shape, label.shape)
    (2, 2) (2,)
    (1, 2) (1,)
    """

    _unshown = frozenset(
        ("batchify_fn", "prefetch", "pin_memory", "pin_device_id", "timeout", "try_nopython")
    )

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        try_nopython: bool | None = None,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise MXNetAssertionError(f"timeout must be positive, got {timeout}")
        if batchify_fn is not None and not callable(batchify_fn):
            raise MXNetTypeError(f"batchify_fn must be callable, got {batchify_fn!r}")
        self._dataset = dataset
        self._batch_sampler = make_batch_sampler(
            dataset, batch_size, shuffle, sampler, last_batch, batch_sampler
        )
        self._batchify_fn: Any = _default_batchify() if batchify_fn is None else batchify_fn
        self._num_workers = max(0, int(num_workers))
        ahead = 2 * self._num_workers if setting("data.prefetch") else 0
        self._prefetch = max(0, ahead if prefetch is None else int(prefetch))
        self._pack = setting("data.pack_below")
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._thread_pool = thread_pool
        self._timeout = timeout
        self._try_nopython = try_nopython
        # No method: threads call it, and must not keep this loader alive.
        self._load: Callable[[list[Any]], Any] | None = None
        self._whole = False
        self._pool_of_older_code: Any = None
        self._pool: ThreadPool | ProcessPool | None = None
        self._begun: Iterator[Any] | None = None
        if try_nopython and self._num_workers:
            self._choose()
        self._epoch = 0
        self._now: weakref.ref[Epoch] | None = (
            None  # the epoch that is being read, as long as somebody reads it
        )
        self._resumed: dict[str, Any] | None = None
        self._last_state = b""
        self._repeats = 0
        self._feed, self._mesh = self._shared_out()
        self.auto_reload = auto_reload
        if auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._feed is not None:
            return self._feed.epoch(self._own() if self._feed.loads else None)
        if self._mesh is not None:
            return map(self._cut, self._own())
        return self._reloaded() if self.auto_reload else self._own()

    def _reloaded(self) -> Iterator[Any]:
        yield from self._own()
        if self._begun is None:
            self.refresh()

    @property
    def _worker_pool(self) -> Any:
        """A pool for code that is written for MXNet's own loader (`older.worker_pool`); None without workers."""
        if self._num_workers and self._pool_of_older_code is None:
            from .older import worker_pool

            self._pool_of_older_code = worker_pool(
                self._dataset, self._num_workers, self._thread_pool
            )
        return self._pool_of_older_code

    @_worker_pool.setter
    def _worker_pool(self, pool: Any) -> None:
        self._pool_of_older_code = pool

    def _shared_out(self) -> tuple[Any, Any]:
        """The processes that one loads for, or the devices that batches are cut between, if any."""
        rank, devices = setting("data.loader_rank"), setting("data.loader_devices")
        if rank is not None:
            from ._feed import Feed

            return Feed(rank, devices, self._timeout), None
        if not devices:
            return None, None
        import jax

        from mxjax import mesh

        here = jax.local_devices()
        if max(devices) >= len(here):
            raise MXNetValueError(
                f"data.loader_devices={devices}: this process has the devices 0 to {len(here) - 1}"
            )
        return None, mesh(devices=[here[k] for k in devices])

    def _cut(self, batch: Any) -> Any:
        return map_tree(lambda leaf: self._mesh.split(leaf) if is_array(leaf) else leaf, batch)

    def state_dict(self) -> dict[str, Any]:
        """Where a loop over this loader is: plain values and NumPy arrays, for `load_state_dict` in another process.

        Samplers are taken to draw their order when an epoch begins, from NumPy's global generator, as those here do.
        `gluon.save_checkpoint` saves it with the rest of a training.

        Raises:
          NotImplementedError: one process of a job loads for all (`data.loader_rank`).

        >>> from mxjax.gluon.data import ArrayDataset
        >>> one, two = (DataLoader(ArrayDataset(np.arange(6)), batch_size=2, shuffle=True) for _ in range(2))
        >>> batches = iter(one)
        >>> first = next(batches)
        >>> two.load_state_dict(one.state_dict())
        >>> [bool((rest == other).all()) for rest, other in zip(batches, two)]
        [True, True]
        """
        if self._feed is not None:
            raise MXNetNotImplementedError(
                "state_dict() knows no position where one process of a job loads for all (data.loader_rank): save the "
                "number of batches instead"
            )
        epoch = None if self._now is None else self._now()
        if self._resumed is not None:
            return {
                **position_of(None, self._batch_sampler, self._last_state, self._repeats),
                "epoch": self._resumed,
            }
        return position_of(epoch, self._batch_sampler, self._last_state, self._repeats)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next loop go on where `state_dict` was called: with the batches of that epoch that are left.

        Raises:
          FormatError: `state` is nothing that `state_dict` gives.
        """
        self.clean()
        self._last_state, self._repeats, self._resumed = resumed(state, self._batch_sampler)
        self._now = None

    def refresh(self) -> None:
        """Begin an epoch now: workers make its first batches, and the next loop takes it."""
        self.clean()
        self._begun = self._own()

    def clean(self) -> None:
        """Forget the epoch that `refresh` began."""
        self._begun = None

    def _own(self) -> Iterator[Any]:
        """The batches that this process makes."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return begun
        if self._load is None:
            self._choose()
        saved, self._resumed = self._resumed, None
        if self._num_workers == 0:
            return self._batches_made_here(saved)
        self._epoch += 1
        epoch = Epoch(self._batch_sampler, self._seed_of_epoch, saved)
        self._now = weakref.ref(epoch)
        return _BatchesOfWorkers(self, self._running_pool(), self._epoch, epoch)

    def _choose(self) -> None:
        """How batches are made: as a whole or sample by sample."""
        whole = None
        if self._try_nopython is None or self._try_nopython:
            whole = whole_batches(self._dataset, self._batchify_fn)
        if whole is None and self._try_nopython and self._num_workers:
            raise MXNetError(
                f"try_nopython=True: batches of {type(self._dataset).__name__} by "
                f"{type(self._batchify_fn).__name__} cannot be made as a whole. That takes "
                "arrays, transforms that treat a batch image by image, and batchify.Stack; leave "
                "try_nopython out to run the dataset's Python"
            )
        self._whole = whole is not None
        load = whole or sample_by_sample(self._dataset, self._batchify_fn)
        self._load = _packing(load, self._pack) if self._pack else load

    def _batches_made_here(self, saved: dict[str, Any] | None) -> Iterator[Any]:
        assert self._load is not None
        from mxjax.core import span  # not above: worker processes import this module without JAX

        epoch = Epoch(self._batch_sampler, None, saved)
        self._now = weakref.ref(epoch)
        for indices in epoch.indices:
            with span("input", "DataLoader: load"):
                batch = self._load(indices)
            epoch.given += 1
            yield self._pinned(batch)

    def _pinned(self, batch: Any) -> Any:
        if not self._pin_memory:
            return batch
        from mxjax import cpu_pinned

        device = cpu_pinned(self._pin_device_id)
        return map_tree(lambda leaf: leaf.to_device(device) if is_array(leaf) else leaf, batch)

    def _seed_of_epoch(self) -> int:
        """A seed that follows from the state of NumPy's global generator, which stays as it is."""
        kind, keys, position, *_ = np.random.get_state()
        state = hashlib.sha256(f"{kind} {position}".encode() + np.asarray(keys).tobytes()).digest()
        # Without shuffling nothing may be drawn between two epochs; they differ all the same.
        self._repeats = self._repeats + 1 if state == self._last_state else 0
        self._last_state = state
        digest = hashlib.sha256(state + self._repeats.to_bytes(8, "little")).digest()
        return int.from_bytes(digest[:4], "little")

    def _running_pool(self) -> ThreadPool | ProcessPool:
        if self._pool is None or self._pool.closed:
            self._pool = self._new_pool()
        return self._pool

    def _new_pool(self) -> ThreadPool | ProcessPool:
        if not self._thread_pool and not self._whole:
            try:
                return ProcessPool(self._dataset, self._batchify_fn, self._num_workers)
            except MXNetImportError as error:
                warnings.warn(
                    f"DataLoader(num_workers={self._num_workers}) uses threads: {error}; "
                    "thread_pool=True says so without this warning",
                    stacklevel=4,
                )
                self._thread_pool = True
        assert self._load is not None
        return ThreadPool(self._load, self._num_workers)


def _default_batchify() -> Stack:
    if (
        setting("compat.version") == "1.9"
    ):  # not by `mxjax.modes`: worker processes load this without JAX
        return StackTuples()
    return Stack()


def _packing(load: Callable[[list[Any]], Any], below: int) -> Callable[[list[Any]], Any]:
    def packing(indices: list[Any]) -> Any:
        with packed(below):
            return load(indices)

    return packing


class _BatchesOfWorkers(Iterator[Any]):
    """One epoch: batches in order, at most `prefetch + 1` of them asked for and not yet given."""

    def __init__(
        self, loader: DataLoader, pool: ThreadPool | ProcessPool, number: int, epoch: Epoch
    ) -> None:
        self._loader = loader
        self._pool = pool
        self._epoch = number
        self._position: Epoch | None = epoch
        self._seed = epoch.seed
        self._count = epoch.given
        self._pending: deque[Future[Any]] = deque()
        self._indices = epoch.indices
        for _ in range(loader._prefetch):
            self._ask()

    def __len__(self) -> int:
        return len(self._loader)

    def _ask(self) -> None:
        indices = next(self._indices, None)
        if indices is not None:
            seed = (self._seed + self._count) % 2**32
            self._count += 1
            self._pending.append(self._pool.submit(indices, self._epoch, seed))

    def __next__(self) -> Any:
        from mxjax.core import span

        self._ask()
        if not self._pending:
            self._position = None
            raise StopIteration
        try:
            with span("input", "DataLoader: wait"), packed(self._loader._pack):
                batch = self._pool.result(self._pending.popleft(), self._loader._timeout)
        except BaseException:
            self._end()
            raise
        if self._position is not None:
            self._position.given += 1
        return self._loader._pinned(batch)

    next = __next__

    def _end(self) -> None:
        self._indices = iter(())
        self._position = None
        if self._pending:
            self._pool.drop(self._pending, self._epoch)
            self._pending.clear()

    def __del__(self) -> None:
        if "_pending" in self.__dict__:
            self._end()
