"""The modes of MXNet 2 that code asks for by `npx.set_np()`.

mx.np's semantics (zero-dimensional and zero-size arrays) are always on, as they are in MXNet 2 by
default; what can be changed is the dtype that arrays of no given dtype get. `np_array(False)` is what
`is_np_array` tells of, for code that chooses by it; blocks and operators take both kinds of arrays anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from tempfile import TemporaryDirectory as TemporaryDirectory  # mx.util has it in MXNet
from typing import Any

import numpy as np

from . import settings
from .array.protocol import default_dtype
from .device import gpu_memory_info
from .errors import explain_names as _explain_names

__all__ = [
    "default_array",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
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
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_default_dtype",
    "use_np_shape",
]


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Use NumPy's semantics (they are always on); ``dtype=True`` makes float64 and int64 the default dtypes.

    ``array`` is what `is_np_array` tells of in this thread from then on.
    """
    if array and not shape:
        raise ValueError("NumPy Shape semantics are required in using NumPy array semantics.")
    _np_array.set(array)
    set_np_default_dtype(dtype)


def reset_np() -> None:
    """Back to the default dtypes, float32 for everything; `is_np_array` is False in this thread."""
    set_np(shape=False, array=False)


def set_np_shape(active: bool = True) -> bool:
    """NumPy's shapes are always on; whether they were before."""
    return True


def is_np_shape() -> bool:
    """Whether zero-dimensional and zero-size shapes are what they are in NumPy: always."""
    return True


_np_array: ContextVar[bool] = ContextVar("np_array", default=True)


def is_np_array() -> bool:
    """Whether code here is meant to make mx.np arrays: True unless `np_array(False)` or `reset_np` said otherwise.

    Blocks and operators work with both kinds of arrays whatever it is.
    """
    return _np_array.get()


class _NumpyArrayScope:
    """The scope that `np_array` gives."""

    def __init__(self, is_np_array: bool):
        self._is_np_array = is_np_array
        self._before: list[bool] = []

    def __enter__(self) -> _NumpyArrayScope:
        self._before.append(_np_array.get())
        _np_array.set(self._is_np_array)
        return self

    def __exit__(self, *error: object) -> None:
        _np_array.set(self._before.pop())


def np_array(active: bool = True) -> _NumpyArrayScope:
    """A scope of this thread in which `is_np_array` is ``active``.

    >>> with np_array(False):
    ...     is_np_array()
    False
    """
    return _NumpyArrayScope(active)


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
def np_shape(active: bool = True) -> Iterator[None]:
    """A scope with NumPy's shapes: they are always on."""
    yield


def use_np_shape(func: Any) -> Any:
    """A decorator of functions and classes that use NumPy's shapes: they are always on."""
    return func


def use_np(func: Any) -> Any:
    """A decorator of functions and classes that use NumPy's semantics; in a function `is_np_array` is True.

    A class is left as it is: its blocks work with mx.np arrays anyway.
    """
    if isinstance(func, type):
        return func

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with np_array(True):
            return func(*args, **kwargs)

    return wrapped


use_np_array = use_np


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


def getenv(name: str) -> str | None:
    """An environment variable; None where it is not set."""
    return settings.variable(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable, or remove it (None); settings that are read at each use follow it."""
    settings.set_variable(name, value)


_explain_names(__name__)
