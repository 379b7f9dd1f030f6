"""DLPack's kinds of devices, and makers of the functions that exchange arrays with other libraries."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from .array import lent
from .array.creation import _from_numpy, to_dlpack_for_read, to_dlpack_for_write

__all__ = [
    "DLDeviceType",
    "ndarray_from_dlpack",
    "ndarray_from_numpy",
    "ndarray_to_dlpack_for_read",
    "ndarray_to_dlpack_for_write",
]


class DLDeviceType(enum.IntEnum):
    """The numbers by which DLPack names kinds of devices."""

    DLCPU = 1
    DLGPU = 2
    DLCPUPINNED = 3
    DLOPENCL = 4
    DLVULKAN = 7
    DLMETAL = 8
    DLVPI = 9
    DLROCM = 10
    DLEXTDEV = 12


def ndarray_from_dlpack(array_cls: type) -> Callable[[Any], Any]:
    """A function that makes arrays of a class from a DLPack capsule or from an object with `__dlpack__`.

    >>> import numpy as np
    >>> from mxjax import nd
    >>> ndarray_from_dlpack(nd.NDArray)(np.ones((2,), "float32")).shape
    (2,)
    """

    def from_dlpack(dlpack: Any) -> Any:
        return lent.from_dlpack(array_cls, dlpack)

    return from_dlpack


def ndarray_to_dlpack_for_read() -> Callable[[Any], Any]:
    """A function that gives an array as a DLPack capsule to be read from."""
    return to_dlpack_for_read


def ndarray_to_dlpack_for_write() -> Callable[[Any], Any]:
    """A function that gives an array as a DLPack capsule to be written to."""
    return to_dlpack_for_write


def ndarray_from_numpy(array_cls: type, array_create_fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes arrays of a class from NumPy's, without a copy where the memory allows it.

    With `zero_copy=False` the function uses `array_create_fn`; otherwise the NumPy array is read-only from then on.
    """

    def from_numpy(ndarray: Any, zero_copy: bool = True) -> Any:
        if not zero_copy:
            return array_create_fn(ndarray, dtype=ndarray.dtype)
        return _from_numpy(array_cls, ndarray, zero_copy)

    return from_numpy
