"""The iterators that MXNet has in C++: batches are made on the host, in NumPy, ahead of their use."""

from __future__ import annotations

import ctypes
import math
import queue
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import nd
from ..array.creation import from_numpy as np_from_numpy
from ..array.sparse.host import HostSparse
from ..core import default_device
from ..errors import MXNetValueError, did_you_mean
from ..modes import is_np_array
from .io import DataBatch, DataDesc, DataIter
from .position import as_position, in_range

__all__ = ["MXDataIter"]

#: What one batch is on the host: data and label (NumPy arrays, or `HostSparse`), how many samples only fill it, the
#: samples' numbers.
HostBatch = tuple[Any, Any, int, np.ndarray]

#: Arguments of MXNet that say how its library works inside; here they change nothing.
WITHOUT_EFFECT = frozenset("ctx device_id dlpack prefer_nvjpeg silent verbose".split())


def take(given: dict[str, Any], owner: str, **known: Any) -> dict[str, Any]:
    """The arguments of an iterator, by name: `known` has the defaults.

    One that the iterator does not have is warned of, with the nearest one that it has, and changes nothing: so it is in
    MXNet, without the warning.
    """
    for name in given:
        if name not in known and name not in WITHOUT_EFFECT:
            near = did_you_mean(name, known)
            warnings.warn(
                f"{owner} has no argument {name!r}{near}; it changes nothing",
                UserWarning,
                stacklevel=4,
            )
    return {name: given.get(name, default) for name, default in known.items()}


def part(count: int, part_index: int, num_parts: int, equal: bool = False) -> slice:
    """The samples of one part of several, which are of almost one size; with ``equal`` all but the last of one size."""
    if num_parts < 1 or not 0 <= part_index < num_parts:
        raise MXNetValueError(
            f"part_index must be one of 0 ... num_parts - 1, got {part_index} of {num_parts}"
        )
    if equal:
        size = -(-count // num_parts)
        return slice(size * part_index, size * (part_index + 1))
    return slice(*(-(-count * each // num_parts) for each in (part_index, part_index + 1)))


class Buffers:
    """Memory of batches: that of a batch which nobody holds any more serves a later one.

    Fresh memory for each batch takes as long as its normalisation. What is given begins where a CPU's XLA can use it
    without a copy.

    Args:
      most: how many batches' memory is kept for later.
    """

    def __init__(self, most: int):
        self._most = most
        self._free: list[bytearray] = []

    def take(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array, whose contents are whatever was there."""
        dtype = np.dtype(dtype)
        count = math.prod(shape)
        wanted = count * dtype.itemsize + _ALIGNMENT
        try:
            raw = self._free.pop()
        except IndexError:
            raw = bytearray(wanted)
        if len(raw) != wanted:
            raw = bytearray(wanted)
        lease = (ctypes.c_char * wanted).from_buffer(raw)
        weakref.finalize(lease, _returned, self._free, self._most, raw).atexit = False
        begin = -ctypes.addressof(lease) % _ALIGNMENT
        return np.frombuffer(lease, dtype, count, begin).reshape(shape)


_ALIGNMENT = 64


def _returned(free: list[bytearray], most: int, raw: bytearray) -> None:
    if len(free) < most:
        free.append(raw)


class Source:
    """What an iterator's batches are made of, on the host.

    A subclass says how many samples there are (`order`, their numbers) and what a batch of some of them is (`make`).
    """

    data_shape: tuple[int, ...]
    label_shape: tuple[int, ...]
    dtype: Any = np.float32
    label_dtype: Any = np.float32

    def __init__(self, batch_size: int, round_batch: bool, ahead: int = 0):
        if batch_size < 1:
            raise MXNetValueError(f"batch_size must be positive, got {batch_size}")
        self.batch_size = batch_size
        self.round_batch = round_batch
        self.ahead = ahead

    def order(self) -> np.ndarray:
        """The numbers of the samples of an epoch, in its order."""
        raise NotImplementedError

    def count(self) -> int:
        """How many samples an epoch has."""
        raise NotImplementedError

    def make(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Data and labels of these samples."""
        raise NotImplementedError

    def left(self, order: np.ndarray, begin: int, given: int) -> tuple[np.ndarray, int]:
        """The order, and where its samples begin that come after so many batches of an epoch that began at `begin`."""
        return order, begin + given * self.batch_size

    def position(self) -> Any:
        """What else says where the source is: plain values and NumPy arrays."""
        return None

    def go_to(self, position: Any) -> None:
        """Take over what `position` gave."""

    def batches(self, order: np.ndarray, begin: int) -> Iterator[HostBatch]:
        """The batches of an epoch.

        With `round_batch` the last one is filled from the beginning of the next; otherwise as `filler` says.
        """
        for at in range(begin, len(order), self.batch_size):
            yield self.batch(order[at : at + self.batch_size], order)

    def batch(self, numbers: np.ndarray, order: np.ndarray) -> HostBatch:
        """A batch of some samples, filled where they are too few."""
        numbers, pad = self.padded(numbers, order)
        return self.finished(*self.make(numbers), numbers, pad)

    def padded(self, numbers: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, int]:
        """The samples of a batch with those that fill it, and how many are missing without them."""
        pad = self.batch_size - len(numbers)
        return (np.concatenate([numbers, self.filler(order, pad)]) if pad else numbers), pad

    def finished(self, data: Any, label: Any, numbers: np.ndarray, pad: int) -> HostBatch:
        """A batch of what was made of samples, with zeros where they are too few."""
        if len(data) < self.batch_size:
            data, label, numbers = (
                _filled(each, self.batch_size) for each in (data, label, numbers)
            )
        return data, label, pad, self.indices(numbers)

    def filler(self, order: np.ndarray, pad: int) -> np.ndarray:
        """The samples that fill an epoch's last batch, up to `pad`; zeros stand where they are fewer."""
        return np.resize(self.following(order), pad) if self.round_batch else order[:0]

    def following(self, order: np.ndarray) -> np.ndarray:
        """The order of the epoch after the one of this order."""
        return order

    def indices(self, numbers: np.ndarray) -> np.ndarray:
        """What `getindex` gives for these samples."""
        return numbers


def _filled(data: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([data, np.zeros((count - len(data), *data.shape[1:]), data.dtype)])


def _array(made: Any) -> Any:
    """The array of what a source has made, to which nobody writes."""
    if isinstance(made, HostSparse):
        return made.array(default_device())
    return (np_from_numpy if is_np_array() else nd.from_numpy)(made)


class _Ahead:
    """The batches of an epoch, made by a thread that is at most `count` batches ahead; it ends with whoever asked."""

    def __init__(self, batches: Iterator[HostBatch], count: int):
        self._ready: queue.Queue[Any] = queue.Queue(count)
        self._stop = threading.Event()
        threading.Thread(
            target=self._work, args=(batches, self._ready, self._stop), daemon=True
        ).start()
        weakref.finalize(self, self._stop.set)

    @staticmethod
    def _work(batches: Iterator[HostBatch], ready: Any, stop: threading.Event) -> None:
        def put(what: Any) -> None:
            while not stop.is_set():
                try:
                    return ready.put(what, timeout=0.1)
                except queue.Full:
                    continue

        try:
            for each in batches:
                put(each)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:  # whoever asks for the batch gets it
            put(error)

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> HostBatch:
        found = self._ready.get()
        if found is None or isinstance(found, BaseException):
            self._ready.put(found)
            raise StopIteration if found is None else found
        return found

    def close(self) -> None:
        self._stop.set()


class MXDataIter(DataIter):
    """An iterator whose batches are made on the host; the iterators that read files are such.

    Args:
      handle: a `Source`: what the batches are made of.
      data_name, label_name: the names of data and labels.

    `debug_skip_load` lets it give its first batch again and again, to see how fast training is without reading.
    """

    def __init__(
        self, handle: Any, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any
    ):
        super().__init__(handle.batch_size)
        self.handle = handle
        self._order: np.ndarray | None = None
        self._running: Any = None
        self._begin = 0
        self._given = 0  # batches of this epoch
        self._now: HostBatch | None = None
        self._again: HostBatch | None = None
        self._debug_skip_load = False
        size = handle.batch_size
        self.provide_data = [
            DataDesc(data_name, (size, *handle.data_shape), np.dtype(handle.dtype).type)
        ]
        self.provide_label = [
            DataDesc(label_name, (size, *handle.label_shape), np.dtype(handle.label_dtype).type)
        ]

    def debug_skip_load(self) -> None:
        """From now on give the first batch only."""
        self._debug_skip_load = True

    def reset(self) -> None:
        if isinstance(self._running, _Ahead):
            self._running.close()
        self._running = None
        # An epoch whose last batch was filled has taken that from the beginning of the next one, which goes on there.
        pad = self._now[2] if self._now is not None and self.handle.round_batch else 0
        self._begin = pad if self._order is not None and pad < len(self._order) else 0
        self._order = self._now = None
        self._given = 0

    def state_dict(self) -> dict[str, Any]:
        order, begin = self._order, self._begin
        if order is not None:
            order, begin = self.handle.left(order, begin, self._given)
        pad = None if self._now is None else self._now[2]
        return {"order": order, "begin": begin, "pad": pad, "source": self.handle.position()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with as_position(self):
            order, pad = state["order"], state["pad"]
            count = self.handle.count()
            if order is not None:
                order = np.asarray(order)
                if order.ndim != 1 or order.dtype.kind not in "iu" or len(order) > count:
                    raise ValueError(f"{count} samples or fewer in an order were expected")
                if len(order) and not (0 <= order.min() and order.max() < count):
                    raise ValueError(f"samples must be from 0 to {count - 1}")
            # The last batch may have been filled from the beginning.
            begin = in_range(state["begin"], count + self.batch_size)
            pad = None if pad is None else in_range(pad, self.batch_size)
            self.handle.go_to(state["source"])
            self.reset()
            self._order, self._begin = order, begin
            self._now = None if pad is None else (None, None, pad, np.zeros(0, np.int64))

    def iter_next(self) -> bool:
        if self._debug_skip_load and self._again is not None:
            self._now = self._again
            return True
        if self._running is None:
            if self._order is None:
                self._order = self.handle.order()
            batches = self.handle.batches(self._order, self._begin)
            self._running = _Ahead(batches, self.handle.ahead) if self.handle.ahead else batches
        found = next(self._running, None)
        if found is None:
            return False
        self._now = found
        self._given += 1
        if self._again is None:
            self._again = found
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())

    def _batch(self) -> HostBatch:
        if self._now is None or self._now[0] is None:
            raise MXNetValueError(
                "there is no batch: iter_next() goes to the next one, reset() to the beginning"
            )
        return self._now

    def getdata(self) -> Any:
        """The data of this batch: one array."""
        return _array(self._batch()[0])

    def getlabel(self) -> Any:
        """The labels of this batch: one array."""
        return _array(self._batch()[1])

    def getitems(self) -> tuple[Any, Any]:
        """Data and labels of this batch."""
        return self.getdata(), self.getlabel()

    def getindex(self) -> Any:
        """The samples' numbers."""
        return np.asarray(self._batch()[3], np.uint64)

    def getpad(self) -> int:
        return self._batch()[2]

    def __len__(self) -> int:
        """Batches in an epoch, where the samples are known."""
        return -(-self.handle.count() // self.batch_size)
