"""Memory for large results: it begins where XLA wants it, so that nothing is copied, and serves the next such result.

NumPy's own begins 16 bytes behind a page where it is large, and XLA copies what is not aligned. From 32 MB on the C
library gives memory back when an array goes, and each new page has to be cleared when it is first written: updates of
AlexNet's 57 million weights took 0.3 s, and 0.4 to 1.6 s more of the system's for that.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compile.compiler_options import machine_memory

#: Bytes that an array's address has to be a multiple of for XLA to take it as it is.
ALIGNED = 64
#: Bytes of a result from which on that is looked after, and from which on the memory is kept.
LARGE, KEPT = 1 << 18, 1 << 24

_free: dict[int, list[np.ndarray]] = {}
# Taken without waiting: memory may come back at any moment, also while it is held, and in a process just forked.
_lock = threading.Lock()
_held = [0]


def room(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array whose numbers are not set yet, as of ``numpy.empty``."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    memory: np.ndarray = np.asarray(_Lent(_taken(size))) if size >= KEPT else _aligned(size)
    made: np.ndarray = memory.view(dtype).reshape(shape)
    return made


def release() -> None:
    """Give back what is kept: who computes with programs needs it no more."""
    if _lock.acquire(blocking=False):
        _free.clear()
        _held[0] = 0
        _lock.release()


def held() -> int:
    """Bytes that are kept for results to come."""
    return _held[0]


class _Lent:
    """The memory of an array and its views: it is kept when the last of them goes."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: np.ndarray):
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if self._memory.nbytes <= _limit() and _lock.acquire(blocking=False):
            try:
                _keep(self._memory)
            finally:
                _lock.release()


def _keep(memory: np.ndarray) -> None:
    size = memory.nbytes
    _free[size] = [*_free.pop(size, ()), memory]
    _held[0] += size
    while _held[0] > _limit():  # the size goes that was not asked for for longest
        oldest = next(iter(_free))
        _held[0] -= oldest * len(_free.pop(oldest))


def _taken(size: int) -> np.ndarray:
    """Memory of so many bytes that is free, or new."""
    if size in _free and _lock.acquire(blocking=False):
        try:
            blocks = _free.pop(size, [])
            if blocks:
                found = blocks.pop()
                _held[0] -= size
                if blocks:
                    _free[size] = blocks
                return found
        finally:
            _lock.release()
    return _aligned(size)


class _Block(np.ndarray):
    """Memory that begins before its use.

    A view has the last array of its own type as its base: a view of the part that is used has that part, whose size
    says that nothing else lies there (`symbolic.own` copies what is smaller than its base).
    """


def _aligned(size: int) -> np.ndarray:
    whole = _Block((size + ALIGNED,), np.uint8)
    start = -whole.ctypes.data % ALIGNED
    return whole[start : start + size].view(np.ndarray)


@functools.cache
def _limit() -> int:
    """Bytes that are kept at most: a sixteenth of the machine's."""
    return machine_memory() // 16
