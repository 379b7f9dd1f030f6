"""The parts of MXNet's own data loader that code of its users imports: batchify functions, pools, iterators over them.

`DataLoader` does not use them. Where MXNet forks, workers here are started anew (loky) or are threads: a process in
which JAX runs must not be forked.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.pool
import multiprocessing.queues
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import numpy as np

from mxjax.errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTimeoutError,
    optional_import,
)

from ._host import is_array, to_legacy_array, to_np_array
from .batchify import Append, Pad, StackTuples
from .dataset import Dataset
from .sampler import make_batch_sampler

__all__ = [
    "DataLoaderV1", "Queue", "SimpleQueue", "default_batchify_fn", "default_mp_batchify_fn", "fetcher_loop_v1",
    "worker_loop_v1", "worker_pool",
]  # fmt: skip

#: Stacks samples, those that are tuples part by part.
default_batchify_fn = StackTuples()
#: The same, as worker processes use it.
default_mp_batchify_fn = StackTuples(use_shared_mem=True)


class Queue(multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """A queue between processes; arrays travel by their values."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class SimpleQueue(multiprocessing.queues.SimpleQueue):  # type: ignore[type-arg]
    """A queue between processes without a thread of its own; arrays travel by their values."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class ConnectionWrapper:
    """A connection between processes; arrays travel by their values. What it does not define is the connection's."""

    def __init__(self, conn: Any):
        self._conn = conn

    def send(self, obj: Any) -> None:
        """Send an object."""
        self._conn.send_bytes(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))

    def recv(self) -> Any:
        """The next object."""
        return pickle.loads(self._conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_conn"], name)


def rebuild_ndarray(data: np.ndarray) -> Any:
    """An array of mx.nd from what `reduce_ndarray` gave."""
    return to_legacy_array(data)


def reduce_ndarray(data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How an array of mx.nd goes to another process, as `pickle` takes it: by its values."""
    return rebuild_ndarray, (data.asnumpy(),)


def rebuild_np_ndarray(data: np.ndarray) -> Any:
    """An array of mx.np from what `reduce_np_ndarray` gave."""
    return to_np_array(data)


def reduce_np_ndarray(data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How an array of mx.np goes to another process, as `pickle` takes it: by its values."""
    return rebuild_np_ndarray, (data.asnumpy(),)


def _as_in_context(data: Any, ctx: Any) -> Any:
    """Arrays in nested lists on another device; tuples become lists."""
    if is_array(data):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data


def _append_arrs(
    arrs: Sequence[Any], use_shared_mem: bool = False, expand: bool = False, batch_axis: int = 0
) -> Any:
    """Samples as a list of arrays, with an axis for the batch if `expand`."""
    return Append(expand, batch_axis, use_shared_mem)(arrs)


def _pad_arrs_to_max_length(
    arrs: Sequence[Any],
    pad_val: float,
    use_shared_mem: bool,
    dtype: Any,
    round_to: int | None = None,
) -> Any:
    """Samples filled up to the largest and stacked."""
    return Pad(pad_val, dtype, round_to, use_shared_mem)(arrs)


# ---- datasets ------------------------------------------------------------------------------------------


class _DownloadedDataset(Dataset):
    """The base of datasets whose samples are rows of two arrays: `_get_data` sets `_data` and `_label`.

    Args:
      root: the folder of its files, which is made where there is none.
      transform: called with data and label of each sample, or None.
    """

    def __init__(self, root: str, transform: Callable[[Any, Any], Any] | None):
        self._transform = transform
        self._data: Any = None
        self._label: Any = None
        self._root = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx], self._label[idx]
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> None:
        """Set `_data` and `_label`; to be defined.

        Raises:
          NotImplementedError: the dataset does not define it.
        """
        raise MXNetNotImplementedError(f"{type(self).__name__} does not define _get_data()")


class _FilteredDataset(Dataset):
    """The samples of a dataset that a function wants."""

    def __init__(self, dataset: Any, fn: Callable[[Any], Any]):
        self._dataset = dataset
        self._indices = [i for i, sample in enumerate(dataset) if fn(sample)]

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]


# ---- pools and what runs in them -----------------------------------------------------------------------

_worker_dataset: Any = None


def _worker_initializer(
    dataset: Any, active_shape: bool = False, active_array: bool = False
) -> None:
    """Keep the dataset in a worker process, and set its modes."""
    global _worker_dataset
    _worker_dataset = dataset
    _thread_worker_initializer(active_shape, active_array)


def _thread_worker_initializer(active_shape: bool, active_array: bool) -> None:
    from mxjax.util import set_np

    set_np(shape=active_shape, array=active_array)


def _worker_fn(
    samples: Sequence[Any], batchify_fn: Callable[[list[Any]], Any], dataset: Any = None
) -> bytes:
    """A batch of the dataset that `_worker_initializer` kept, pickled; `dataset` is not used."""
    return pickle.dumps(batchify_fn([_worker_dataset[i] for i in samples]), pickle.HIGHEST_PROTOCOL)


def _thread_worker_fn(
    samples: Sequence[Any], batchify_fn: Callable[[list[Any]], Any], dataset: Any
) -> Any:
    """A batch of the dataset."""
    return batchify_fn([dataset[i] for i in samples])


class _Result:
    """What `apply_async` gives."""

    def __init__(self, future: Any):
        self._future = future

    def get(self, timeout: float | None = None) -> Any:
        try:
            return self._future.result(timeout)
        except FutureTimeoutError:
            raise multiprocessing.TimeoutError from None

    def ready(self) -> bool:
        return bool(self._future.done())


class _Processes:
    """Worker processes with the interface of `multiprocessing.Pool` that loaders use."""

    def __init__(self, workers: int, dataset: Any):
        from mxjax.modes import is_np_array
        from mxjax.util import is_np_shape

        from ._pools import _worker_environment

        self._executor = optional_import("loky", "data").ProcessPoolExecutor(
            workers, initializer=_worker_initializer, initargs=(dataset, is_np_shape(), is_np_array()),
            env=_worker_environment(),
        )  # fmt: skip

    def apply_async(
        self, func: Callable[..., Any], args: Sequence[Any] = (), kwds: Any = None
    ) -> _Result:
        return _Result(self._executor.submit(func, *args, **(kwds or {})))

    def terminate(self) -> None:
        self._executor.shutdown(wait=False, kill_workers=True)

    close = terminate

    def join(self) -> None:
        """Nothing to wait for: they are ended."""

    def __del__(self) -> None:
        if "_executor" in self.__dict__:
            self.terminate()


def worker_pool(dataset: Any, workers: int, threads: bool) -> Any:
    """Threads, or processes that hold the dataset, as `_MultiWorkerIter` takes them."""
    if not threads:
        return _Processes(workers, dataset)
    from mxjax.modes import is_np_array
    from mxjax.util import is_np_shape

    return multiprocessing.pool.ThreadPool(
        workers, initializer=_thread_worker_initializer, initargs=(is_np_shape(), is_np_array())
    )


class _MultiWorkerIter(Iterator[Any]):
    """The batches that the workers of a pool make, in order.

    Args:
      worker_pool: its `apply_async` runs a function in a worker.
      batchify_fn, batch_sampler: what makes a batch of samples, and the lists of their indices.
      pin_memory, pin_device_id: move batches to page-locked memory.
      worker_fn: called as ``worker_fn(indices, batchify_fn, dataset)``; without a dataset it gives a pickle.
      prefetch: how many batches are asked for at once.
      dataset: handed to `worker_fn`.
      data_loader: kept, so that it lives as long as this.
      timeout: seconds to wait for a batch.
    """

    def __init__(
        self, worker_pool: Any, batchify_fn: Any, batch_sampler: Any, pin_memory: bool = False, pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = _worker_fn, prefetch: int = 0, dataset: Any = None, data_loader: Any = None,
        timeout: float = 120,
    ):  # fmt: skip
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        self._worker_fn = worker_fn
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._dataset = dataset
        self._data_loader = data_loader
        self._timeout = timeout
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _push_next(self) -> None:
        """Ask a worker for the next batch, if there is one."""
        indices = next(self._iter, None)
        if indices is not None:
            arguments = (indices, self._batchify_fn, self._dataset)
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
                self._worker_fn, arguments
            )
            self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        asked = self._data_buffer.pop(self._rcvd_idx)
        try:
            batch = asked.get(self._timeout)
        except multiprocessing.TimeoutError as error:
            raise MXNetTimeoutError(
                f"Worker timed out after {self._timeout} seconds: a transform is slow or stuck; give timeout= more "
                "seconds"
            ) from error
        except Exception:
            self._worker_pool.terminate()
            raise
        self._rcvd_idx += 1
        batch = pickle.loads(batch) if self._dataset is None else batch
        return _pinned(batch, self._pin_device_id) if self._pin_memory else batch

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()


def _pinned(batch: Any, device: int) -> Any:
    from mxjax import cpu_pinned

    return _as_in_context(batch, cpu_pinned(device))


# ---- MXNet's first loader ------------------------------------------------------------------------------


def worker_loop_v1(
    dataset: Any, key_queue: Any, data_queue: Any, batchify_fn: Callable[[list[Any]], Any]
) -> None:
    """Make the batches that a queue asks for, until it says None."""
    while (task := key_queue.get())[0] is not None:
        number, samples = task
        data_queue.put((number, batchify_fn([dataset[i] for i in samples])))


def fetcher_loop_v1(
    data_queue: Any, data_buffer: dict[int, Any], pin_memory: bool = False, pin_device_id: int = 0,
    data_buffer_lock: Any = None,
) -> None:  # fmt: skip
    """Put batches from a queue into a dictionary by their numbers, until the queue says None."""
    from mxjax import cpu

    while (task := data_queue.get())[0] is not None:
        number, batch = task
        batch = _pinned(batch, pin_device_id) if pin_memory else _as_in_context(batch, cpu())
        with data_buffer_lock or threading.Lock():
            data_buffer[number] = batch


class _MultiWorkerIterV1(Iterator[Any]):
    """The batches of a dataset, in order, made by threads that run `worker_fn`.

    Raises:
      AssertionError: fewer than one worker, or a batch is asked for after `shutdown`.
    """

    def __init__(
        self, num_workers: int, dataset: Any, batchify_fn: Any, batch_sampler: Any, pin_memory: bool = False,
        pin_device_id: int = 0, worker_fn: Callable[..., None] = worker_loop_v1,
    ):  # fmt: skip
        self._shutdown = True
        if num_workers < 1:
            raise MXNetAssertionError(f"_MultiWorkerIter is not for {num_workers} workers")
        self._shutdown = False
        self._num_workers = num_workers
        self._dataset = dataset
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._pin_device_id = pin_device_id if pin_memory else None
        self._key_queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._data_queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        arguments = (worker_fn, dataset, self._key_queue, self._data_queue, batchify_fn)
        self._workers = [
            threading.Thread(target=_work, args=arguments, daemon=True) for _ in range(num_workers)
        ]
        for worker in self._workers:
            worker.start()
        for _ in range(2 * num_workers):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __del__(self) -> None:
        self.shutdown()

    def _push_next(self) -> None:
        """Ask for the next batch, if there is one."""
        indices = next(self._iter, None)
        if indices is not None:
            self._key_queue.put((self._sent_idx, indices))
            self._sent_idx += 1

    def __next__(self) -> Any:
        if self._shutdown:
            raise MXNetAssertionError("call __next__ after shutdown is forbidden")
        if self._rcvd_idx == self._sent_idx:
            self.shutdown()
            raise StopIteration
        while self._rcvd_idx not in self._data_buffer:
            number, batch = self._data_queue.get()
            if isinstance(batch, _Raised):
                self.shutdown()
                raise batch.error
            self._data_buffer[number] = batch
        batch = self._data_buffer.pop(self._rcvd_idx)
        self._rcvd_idx += 1
        self._push_next()
        return batch if self._pin_device_id is None else _pinned(batch, self._pin_device_id)

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()

    def shutdown(self) -> None:
        """End the workers."""
        if not self._shutdown:
            self._shutdown = True
            for _ in range(self._num_workers):
                self._key_queue.put((None, None))


class _Raised:
    """Instead of a batch: what a worker raised."""

    def __init__(self, error: BaseException):
        self.error = error


def _work(
    worker_fn: Callable[..., None], dataset: Any, keys: Any, batches: Any, batchify_fn: Any
) -> None:
    try:
        worker_fn(dataset, keys, batches, batchify_fn)
    except BaseException as error:  # for the one who waits
        batches.put((-1, _Raised(error)))


class DataLoaderV1:
    """MXNet's first loader: the batches of a dataset, made here or by threads. `DataLoader` has taken its place.

    Args:
      dataset, batch_size, shuffle, sampler, last_batch, batch_sampler, batchify_fn: as `DataLoader` takes them.
      num_workers, pin_memory, pin_device_id: likewise.

    >>> [batch.shape for batch in DataLoaderV1([1.0, 2.0, 3.0], batch_size=2, num_workers=1)]
    [(2,), (1,)]
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = None, shuffle: bool = False, sampler: Any = None,
        last_batch: str | None = None, batch_sampler: Any = None, batchify_fn: Any = None, num_workers: int = 0,
        pin_memory: bool = False, pin_device_id: int = 0,
    ):  # fmt: skip
        self._dataset = dataset
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._batch_sampler = make_batch_sampler(
            dataset, batch_size, shuffle, sampler, last_batch, batch_sampler
        )
        self._num_workers = max(0, num_workers)
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers:
            return _MultiWorkerIterV1(
                self._num_workers, self._dataset, self._batchify_fn, self._batch_sampler, self._pin_memory,
                self._pin_device_id,
            )  # fmt: skip
        return self._same_process_iter()

    def _same_process_iter(self) -> Iterator[Any]:
        for indices in self._batch_sampler:
            batch = self._batchify_fn([self._dataset[i] for i in indices])
            yield _pinned(batch, self._pin_device_id) if self._pin_memory else batch

    def __len__(self) -> int:
        return len(self._batch_sampler)
