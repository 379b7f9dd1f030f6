"""The modes of MXNet 2 that code asks for by `npx.set_np()`.

mx.np's semantics (zero-dimensional and zero-size arrays) are always on, as they are in MXNet 2 by
default; what can be changed is the dtype that arrays of no given dtype get.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .array.protocol import default_dtype
from .device import gpu_memory_info
from .errors import explain_names as _explain_names

__all__ = [
    "default_array",
    "get_gpu_count",
    "get_gpu_memory",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "np_array",
    "np_default_dtype",
    "np_shape",
    "reset_np",
    "set_np",
    "set_np_default_dtype",
    "set_np_shape",
    "use_np",
    "use_np_array",
    "use_np_default_dtype",
    "use_np_shape",
]


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Use NumPy's semantics (they are always on); ``dtype=True`` makes float64 and int64 the default dtypes."""
    if array and not shape:
        raise ValueError("NumPy Shape semantics are required in using NumPy array semantics.")
    set_np_default_dtype(dtype)


def reset_np() -> None:
    """Back to the default dtypes, float32 for everything."""
    set_np_default_dtype(False)


def set_np_shape(active: bool = True) -> bool:
    """NumPy's shapes are always on; whether they were before."""
    return True


def is_np_shape() -> bool:
    """Whether zero-dimensional and zero-size shapes are what they are in NumPy: always."""
    return True


def is_np_array() -> bool:
    """Whether blocks work with mx.np arrays: always."""
    return True


def is_np_default_dtype() -> bool:
    """Whether arrays of no given dtype are float64 or int64, as in NumPy."""
    return default_dtype[0] == np.float64


def set_np_default_dtype(is_np_default_dtype: bool = True) -> bool:
    """Choose the default dtypes: NumPy's float64 and int64, or float32. Gives what was before."""
    before = default_dtype[0] == np.float64
    default_dtype[0] = np.dtype("float64" if is_np_default_dtype else "float32")
    return before


@contextmanager
def np_default_dtype(active: bool = True) -> Iterator[None]:
    """A scope with other default dtypes."""
    before = set_np_default_dtype(active)
    try:
        yield
    finally:
        set_np_default_dtype(before)


@contextmanager
def _always(active: bool = True) -> Iterator[None]:
    yield


np_shape = np_array = _always


def use_np(func: Any) -> Any:
    """A decorator of functions and classes that use NumPy's semantics: they are always on."""
    return func


use_np_shape = use_np_array = use_np


def use_np_default_dtype(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions that use NumPy's default dtypes."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with np_default_dtype(True):
            return func(*args, **kwargs)

    return wrapped


def default_array(source_array: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """``mx.np.array``."""
    from . import np as mx_np

    return mx_np.array(source_array, dtype=dtype, device=ctx)


def get_gpu_count() -> int:
    """Number of GPUs."""
    from .device import num_gpus

    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    return gpu_memory_info(gpu_dev_id)


_explain_names(__name__)
