"""Iterators that give batches: one over arrays, one that repeats or cuts, one that reads ahead."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import nd
from ..array.classes import NDArray
from ..errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from ..modes import Modes, resumed, taken
from ..nd import array, tile
from .base import DataBatch, DataDesc, DataIter
from .position import as_position, in_range, permutation
from .utils import _getdata_by_idx, _init_data, _is_sparse

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]


def _require_iterator(name: str, it: Any) -> None:
    if not hasattr(it, "provide_data"):
        raise MXNetTypeError(
            f"{name} takes a DataIter, such as NDArrayIter(data, label, batch_size), got {type(it).__name__}"
        )


class ResizeIter(DataIter):
    """Another iterator, cut or repeated so that an epoch has `size` batches.

    Args:
      data_iter: the iterator.
      size: batches in an epoch.
      reset_internal: `reset` begins the iterator anew, too; otherwise it goes on where it was.

    >>> import mxjax as mx
    >>> inner = NDArrayIter(mx.nd.ones((100, 10)), batch_size=25)
    >>> len(list(ResizeIter(inner, 6)))
    6
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True):
        super().__init__()
        _require_iterator("ResizeIter", data_iter)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch: Any = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        self.batch_size = data_iter.batch_size
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def getdata(self) -> Any:
        return self.current_batch.data

    def getlabel(self) -> Any:
        return self.current_batch.label

    def getindex(self) -> Any:
        return self.current_batch.index

    def getpad(self) -> Any:
        return self.current_batch.pad

    def state_dict(self) -> dict[str, Any]:
        return {"cur": self.cur, "inner": self.data_iter.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with as_position(self):
            cur = in_range(state["cur"], self.size)
            self.data_iter.load_state_dict(state["inner"])
            self.cur = cur


def _renamed(iters: list[Any], kind: str, names: list[dict[str, str]] | None) -> list[Any]:
    found = [getattr(each, kind) for each in iters]
    if names is None:
        return sum(found, [])
    return [
        DataDesc(new[desc.name], desc.shape, desc.dtype)
        if isinstance(desc, DataDesc)
        else DataDesc(*desc)
        for new, descs in zip(names, found, strict=True)
        for desc in descs
    ]


class _Ahead:
    """A thread that has the next batch ready, and ends with whoever started it; errors are raised in `take`."""

    def __init__(self, iterator: Any):
        self._wanted: queue.SimpleQueue[Modes | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._waiting = False
        thread = threading.Thread(
            target=self._work, args=(iterator, self._wanted, self._ready), daemon=True
        )
        thread.start()
        # The thread holds the queues, not this object, so that it ends when nobody needs it any more.
        weakref.finalize(self, self._wanted.put, None)

    @staticmethod
    def _work(iterator: Any, wanted: Any, ready: Any) -> None:
        while (modes := wanted.get()) is not None:
            resumed(modes)  # those of the thread that asks
            try:
                ready.put(("batch", iterator.next()))
            except StopIteration:
                ready.put(("end", None))
            except BaseException as error:  # whoever asks for the batch gets it
                ready.put(("error", error))

    def begin(self) -> None:
        """Let the thread get a batch, unless it has one."""
        if not self._waiting:
            self._waiting = True
            self._wanted.put(taken())

    def take(self) -> Any:
        """The batch, or None at the end."""
        self.begin()
        kind, found = self._ready.get()
        self._waiting = False
        if kind == "error":
            raise found
        return found

    def drop(self) -> None:
        """Wait for the thread and forget what it got."""
        if self._waiting:
            self._ready.get()
            self._waiting = False


def _where(iterator: Any) -> Callable[[], dict[str, Any]]:
    """What says where an iterator is at this moment: its state, or why there is none."""
    try:
        state = iterator.state_dict()
    except (MXNetNotImplementedError, AttributeError):
        return DataIter.state_dict.__get__(iterator)  # type: ignore[no-any-return]
    return lambda: state  # type: ignore[no-any-return]


class PrefetchingIter(DataIter):
    """Iterators read ahead, each by a thread of its own; their batches are joined into one.

    Args:
      iters: an iterator or a list of them, which give batches of one size.
      rename_data, rename_label: for each iterator a dictionary from its names to new ones.

    Raises:
      AssertionError: the iterators are of different lengths.

    >>> import mxjax as mx
    >>> one, two = (NDArrayIter({"data": mx.nd.ones((100, 10))}, batch_size=25) for _ in range(2))
    >>> both = PrefetchingIter([one, two], rename_data=[{"data": "first"}, {"data": "second"}])
    >>> [name for name, _ in both.provide_data]
    ['first', 'second']
    """

    def __init__(
        self, iters: Any, rename_data: list[dict[str, str]] | None = None,
        rename_label: list[dict[str, str]] | None = None,
    ):  # fmt: skip
        super().__init__()
        self.iters = iters if isinstance(iters, list) else [iters]
        self.n_iter = len(self.iters)
        if not self.iters:
            raise MXNetAssertionError(
                "PrefetchingIter takes at least one iterator, got an empty list"
            )
        for each in self.iters:
            _require_iterator("PrefetchingIter", each)
        self.rename_data = rename_data
        self.rename_label = rename_label
        self.batch_size = self.provide_data[0][1][0]
        self.current_batch: Any = None
        self._ahead = [_Ahead(each) for each in self.iters]
        self._ended = False
        self._begin()

    def _begin(self) -> None:
        self._before = [_where(each) for each in self.iters]
        for each in self._ahead:
            each.begin()

    def state_dict(self) -> dict[str, Any]:
        return {"ended": self._ended, "inner": [say() for say in self._before]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with as_position(self):
            ended, inner = bool(state["ended"]), list(state["inner"])
            for each in self._ahead:
                each.drop()
            for iterator, its in zip(self.iters, inner, strict=True):
                iterator.load_state_dict(its)
            self._ended = ended
            self._begin()

    @property
    def provide_data(self) -> list[Any]:
        """Descriptions of the data of all iterators."""
        return _renamed(self.iters, "provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[Any]:
        """Descriptions of the labels of all iterators."""
        return _renamed(self.iters, "provide_label", self.rename_label)

    def reset(self) -> None:
        for each in self._ahead:
            each.drop()
        for iterator in self.iters:
            iterator.reset()
        self._ended = False
        self._begin()

    def iter_next(self) -> bool:
        if self._ended:
            return False
        found = [each.take() for each in self._ahead]
        if any(batch is None for batch in found):
            self._ended = True
            if not all(batch is None for batch in found):
                raise MXNetAssertionError(
                    "Number of entry mismatches between iterators: one of them has ended earlier"
                )
            return False
        if any(batch.pad != found[0].pad for batch in found):
            raise MXNetAssertionError(
                f"Number of entry mismatches between iterators: {[b.pad for b in found]} padded"
            )
        self.current_batch = DataBatch(
            [each for batch in found for each in batch.data],
            [each for batch in found for each in batch.label or ()],
            found[0].pad,
            found[0].index,
            found[0].bucket_key,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._begin()
        return True

    def next(self) -> DataBatch:
        if self.iter_next():
            return self.current_batch
        raise StopIteration

    def getdata(self) -> Any:
        return self.current_batch.data

    def getlabel(self) -> Any:
        return self.current_batch.label

    def getindex(self) -> Any:
        return self.current_batch.index

    def getpad(self) -> Any:
        return self.current_batch.pad


_LAST = ("pad", "discard", "roll_over")


class NDArrayIter(DataIter):
    """Batches of arrays that are in memory, or of an HDF5 file.

    Args:
      data: an array, a list of arrays, or a dictionary from names to arrays (mxjax's, NumPy's, h5py's datasets, or,
        where the last batch is discarded, sparse matrices); all have one first length. What is no array of mxjax
        becomes float32.
      label: the same, or None.
      batch_size: samples in a batch.
      shuffle: a new order at each `reset`, drawn by `numpy.random`.
      last_batch_handle: what becomes of samples that do not fill a batch: `pad` fills it with samples from the
        beginning, `discard` leaves them out, `roll_over` puts them at the beginning of the next epoch.
      data_name, label_name: the name of a single array.
      layout: what the descriptions say of the axes (MXNet 1.9); it begins with N.

    Raises:
      NotImplementedError: a sparse matrix, and the last batch is not discarded.

    >>> it = NDArrayIter(np.arange(10), batch_size=4)
    >>> [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in it][-1]
    ([8.0, 9.0, 0.0, 1.0], 2)
    """

    def __init__(
        self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
        last_batch_handle: str = "pad", data_name: str = "data", label_name: str = "softmax_label",
        layout: str = "NCHW",
    ):  # fmt: skip
        super().__init__(batch_size)
        if layout[:1] != "N":
            raise MXNetValueError(
                f"samples are along the first axis: a layout that begins with N, got {layout!r}"
            )
        self.layout = layout
        if last_batch_handle != "discard":
            given = [each for some in (data, label) for each in _each(some)]
            if any(_is_sparse(each) for each in given):
                raise MXNetNotImplementedError(
                    "`NDArrayIter` takes sparse matrices only with last_batch_handle='discard', got "
                    f"{last_batch_handle!r}"
                )
        self.data = _init_data(data, allow_empty=False, default_name=data_name)
        self.label = _init_data(label, allow_empty=True, default_name=label_name)
        self.num_data = self.data[0][1].shape[0]
        self.idx = np.arange(self.num_data)
        self._places = np.arange(
            self.num_data
        )  # where the samples stood when the iterator was made
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.cursor = -batch_size
        self._cache_data: Any = None
        self._cache_label: Any = None
        self.reset()
        self.data_list = [each for _, each in (*self.data, *self.label)]
        self.num_source = len(self.data_list)

    def _describe(self, source: list[tuple[str, Any]]) -> list[DataDesc]:
        return [
            DataDesc(name, (self.batch_size, *each.shape[1:]), each.dtype, self.layout)
            for name, each in source
        ]

    @property
    def provide_data(self) -> list[DataDesc]:
        """Name, shape and dtype of the data of a batch."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Name, shape and dtype of the labels of a batch."""
        return self._describe(self.label)

    def hard_reset(self) -> None:
        """Begin anew, without what `roll_over` kept."""
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size
        self._cache_data = self._cache_label = None

    def reset(self) -> None:
        if self.shuffle:
            self._shuffle_data()
        if (
            self.last_batch_handle == "roll_over"
            and self.num_data - self.batch_size < self.cursor < self.num_data
        ):
            self.cursor = self.cursor - self.num_data - self.batch_size
        else:
            self.cursor = -self.batch_size

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        data = self.getdata()
        label = self.getlabel()
        if data[0].shape[0] != self.batch_size:  # too few: for the next epoch, or for nobody
            self._cache_data = data
            self._cache_label = label
            raise StopIteration
        return DataBatch(data, label, self.getpad())

    def _getdata(
        self, source: list[tuple[str, Any]], start: int | None = None, end: int | None = None
    ) -> list[Any]:
        """The samples `start` to `end` of each array."""
        if start is None and end is None:
            raise MXNetValueError("should at least specify start or end")
        part = slice(start or 0, self.num_data if end is None else end)
        for name, each in source:
            if each.shape[0] < part.stop:
                raise MXNetValueError(
                    f"{name!r} has {each.shape[0]} samples and {self.data[0][0]!r} {self.num_data}: every array of "
                    "data and labels needs one row for each sample"
                )
        return [
            each[part] if isinstance(each, NDArray) else self._read(each, part)
            for _, each in source
        ]

    def _read(self, file: Any, part: slice) -> Any:
        """From a file, which takes rows in ascending order only."""
        wanted = self.idx[part]
        order = np.argsort(wanted)
        rows = np.empty((len(wanted), *file.shape[1:]), file.dtype)
        rows[order] = file[wanted[order]]
        return array(rows)

    @staticmethod
    def _concat(first: list[Any], second: list[Any]) -> list[Any]:
        if not first or not second:
            return first or second
        return [nd.concatenate(list(both)) for both in zip(first, second, strict=True)]

    def _filled(self, source: list[tuple[str, Any]]) -> list[Any]:
        """The last samples, filled with samples from the beginning."""
        missing = self.cursor + self.batch_size - self.num_data
        whole, rest = divmod(missing, self.num_data)
        filling: list[Any] = []
        if whole:
            filling = [
                tile(each, (whole, *(1,) * (len(each.shape) - 1)))
                for each in self._getdata(source, end=self.num_data)
            ]
        if rest:
            filling = self._concat(filling, self._getdata(source, end=rest))
        return self._concat(self._getdata(source, start=self.cursor), filling)

    def _batchify(self, source: list[tuple[str, Any]], kept: str) -> list[Any]:
        if self.cursor >= self.num_data:
            raise MXNetAssertionError("DataIter needs reset.")
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            before = getattr(self, kept)
            if before is None:
                raise MXNetAssertionError("next epoch should have cached data")
            setattr(self, kept, None)
            return self._concat(before, self._getdata(source, end=self.cursor + self.batch_size))
        if self.last_batch_handle == "pad" and self.cursor + self.batch_size > self.num_data:
            return self._filled(source)
        return self._getdata(source, self.cursor, min(self.cursor + self.batch_size, self.num_data))

    def getdata(self) -> list[Any]:
        return self._batchify(self.data, "_cache_data")

    def getlabel(self) -> list[Any]:
        return self._batchify(self.label, "_cache_label")

    def getpad(self) -> int:
        if self.last_batch_handle == "pad" and self.cursor + self.batch_size > self.num_data:
            return self.cursor + self.batch_size - self.num_data
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0

    def _shuffle_data(self) -> None:
        """A new order of all samples, beginning with the order they have."""
        self.idx = self.idx.copy()  # positions keep the old one
        np.random.shuffle(self.idx)
        self._reorder(self.idx)

    def _reorder(self, order: np.ndarray) -> None:
        self.data = _getdata_by_idx(self.data, order)
        self.label = _getdata_by_idx(self.label, order)
        self._places = self._places[order]

    def state_dict(self) -> dict[str, Any]:
        kept = [
            [each.asnumpy() for each in cache]
            for cache in (self._cache_data, self._cache_label)
            if cache
        ]
        return {"cursor": self.cursor, "idx": self.idx, "places": self._places, "kept": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with as_position(self):
            cursor = in_range(
                state["cursor"], self.num_data + self.batch_size, -2 * self.batch_size
            )
            idx, places = (permutation(state[name], self.num_data) for name in ("idx", "places"))
            kept = [
                [array(each, dtype=each.dtype) for each in cache] for cache in state["kept"]
            ] + [None, None]
            if (places != self._places).any():
                self._reorder(np.argsort(self._places)[places])
            self.cursor, self.idx = cursor, idx
            self._cache_data, self._cache_label = kept[:2]


def _each(given: Any) -> Iterable[Any]:
    if isinstance(given, dict):
        return given.values()
    return given if isinstance(given, list) else [given]
