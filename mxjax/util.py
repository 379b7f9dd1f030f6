"""What MXNet keeps in `mx.util`: the modes that code asks for by `npx.set_np()`, default dtypes, and small helpers.

`modes.py` has the modes of arrays and shapes.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory as TemporaryDirectory  # mx.util has it in MXNet
from typing import Any, TypeVar

import numpy as np

from . import modes, settings
from .array.protocol import default_dtype
from .device import gpu_memory_info
from .errors import MXNetError, MXNetNotImplementedError, MXNetTypeError, MXNetValueError
from .errors import explain_names as _explain_names
from .modes import _NumpyArrayScope as _NumpyArrayScope
from .modes import _NumpyShapeScope as _NumpyShapeScope
from .modes import is_np_array, is_np_shape, np_array, np_shape, set_np_shape

_F = TypeVar("_F", bound=Any)

__all__ = [
    "default_array",
    "dtype_from_number",
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "get_max_supported_compute_capability",
    "get_rtc_compile_opts",
    "getenv",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "np_array",
    "np_default_dtype",
    "np_shape",
    "np_ufunc_legal_option",
    "numpy_fallback",
    "reset_np",
    "set_flush_denorms",
    "set_module",
    "set_np",
    "set_np_default_dtype",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_default_dtype",
    "use_np_shape",
    "wrap_ctx_to_device_func",
    "wrap_data_api_linalg_func",
    "wrap_data_api_statical_func",
    "wrap_np_binary_func",
    "wrap_np_unary_func",
    "wrap_sort_functions",
]


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Use NumPy's shapes and arrays in this thread; ``dtype=True`` makes float64 and int64 the default dtypes.

    Args:
      shape: whether shapes are NumPy's.
      array: whether blocks make arrays of mx.np.
      dtype: whether floats are float64 by default.

    Raises:
      ValueError: arrays without shapes.
    """
    if array and not shape:
        raise MXNetValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    modes.set_arrays(array)
    set_np_shape(shape)
    set_np_default_dtype(dtype)


def reset_np() -> None:
    """Turn NumPy's arrays and shapes off in this thread, and float32 into the default dtype."""
    set_np(shape=False, array=False)


def is_np_default_dtype() -> bool:
    """Whether arrays of no given dtype are float64 or int64, as in NumPy.

    Returns:
      bool: whether floats are float64 by default.
    """
    return default_dtype[0] == np.float64


def set_np_default_dtype(is_np_default_dtype: bool = True) -> bool:
    """Choose the default dtypes: NumPy's float64 and int64, or float32. Gives what was before.

    Args:
      is_np_default_dtype: whether floats are float64 by default.

    Returns:
      bool: what it was before.
    """
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


def use_np_shape(func: Any) -> Any:
    """A decorator of functions, and of classes for all their methods, in which NumPy's shapes are on."""
    return _within(func, lambda: np_shape(True))


def use_np_array(func: Any) -> Any:
    """A decorator of functions, and of classes for all their methods, in which NumPy's arrays are on."""
    return _within(func, lambda: np_array(True))


def use_np(func: Any) -> Any:
    """A decorator of functions, and of classes for all their methods, in which NumPy's shapes and arrays are on.

    >>> @use_np
    ... def made_here():
    ...     return is_np_array(), is_np_shape()
    >>> made_here()
    (True, True)
    """
    return use_np_shape(use_np_array(func))


def _within(func: Any, scope: Callable[[], Any]) -> Any:
    if isinstance(func, type):
        # Inherited methods as well: a block's initialize() makes arrays of the kind that its class was decorated for.
        for name in dir(func):
            method = inspect.getattr_static(func, name)
            own = name in vars(func) or not name.startswith("__") or name == "__call__"
            if isinstance(method, staticmethod) and inspect.isfunction(method.__func__):
                # MXNet makes methods of all of these: code that counts on it names the object that it is handed.
                if next(iter(inspect.signature(method).parameters), "") == "self":
                    method = method.__func__
            if inspect.isfunction(method) and name != "__new__" and own:
                setattr(func, name, _within(method, scope))
            elif isinstance(method, property) and method.fget is not None and own:
                setattr(
                    func,
                    name,
                    property(_within(method.fget, scope), method.fset, method.fdel, method.__doc__),
                )
        return func
    if not callable(func):
        raise MXNetTypeError(f"a function or a class is expected, got {type(func).__name__}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return func(*args, **kwargs)

    return wrapped


def use_np_default_dtype(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions that use NumPy's default dtypes."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with np_default_dtype(True):
            return func(*args, **kwargs)

    return wrapped


def default_array(source_array: Any, device: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """``mx.np.array``, or ``mx.nd.array`` where `is_np_array` is False."""
    from . import nd
    from . import np as mx_np

    make: Any = mx_np.array if is_np_array() else nd.array
    return make(source_array, dtype=dtype, device=device if device is not None else ctx)


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


def get_cuda_compute_capability(device: Any) -> int:
    """The compute capability of a GPU: 80 for sm_80.

    Args:
      device: where the result lies; the current device if it is left out.

    Returns:
      int or None: ten times the capability, as 80.

    Raises:
      ValueError: the device is no GPU.
      RuntimeError: it is a GPU that has none.
    """
    if device.device_type != "gpu":
        raise MXNetValueError(
            f"Expecting a gpu context to get cuda compute capability, while received {device}"
        )
    found = getattr(device.jax_device, "compute_capability", None)
    major, _, minor = str(found).partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise MXNetError(f"{device} has no CUDA compute capability, but {found!r}")
    return int(major) * 10 + int(minor)


def get_max_supported_compute_capability() -> int:
    """The highest compute capability that operators can be compiled for while a program runs: that of the GPUs here.

    XLA compiles for the GPU that is there, whatever it is; 0 without one.
    """
    from .device import gpu

    return max((get_cuda_compute_capability(gpu(i)) for i in range(get_gpu_count())), default=0)


def get_rtc_compile_opts(device: Any) -> list[str]:
    """The option that tells NVIDIA's compilers of a GPU's architecture, for code that is compiled by the user."""
    capability = get_cuda_compute_capability(device)
    return [f"--gpu-architecture={'sm' if capability >= 86 else 'compute'}_{capability}"]


def set_flush_denorms(value: bool) -> bool:
    """Whether subnormal numbers were flushed to zero on CPUs: always, by XLA, which this does not change.

    What is computed before it is compiled (`engine.cold`) keeps them.
    """
    return True


def set_module(module: str | None) -> Callable[[_F], _F]:
    """A decorator that says in which module a function or class is to be found."""

    def decorate(what: _F) -> _F:
        if module is not None:
            what.__module__ = module
        return what

    return decorate


def dtype_from_number(number: Any) -> Any:
    """The dtype that a number has where no dtype is given: int64 for integers, float32 for floats.

    Integers beyond int64 are uint64. Floats beyond 2**24, those that float32 would round to a whole number, and all
    under `npx.set_np(dtype=True)`, are float64. NumPy's numbers keep their dtype.

    Raises:
      OverflowError: an integer beyond uint64.

    >>> dtype_from_number(2**63)
    <class 'numpy.uint64'>
    """
    if isinstance(number, np.generic):
        return number.dtype
    if isinstance(number, int):
        if number > np.iinfo(np.uint64).max:
            raise OverflowError(f"Integer out of bounds: {number} is beyond uint64")
        return np.uint64 if number > np.iinfo(np.int64).max else np.int64
    if not isinstance(number, float):
        raise MXNetTypeError(
            f"The input number should be either int or float, got {type(number).__name__}"
        )
    if is_np_default_dtype() or abs(number) > 2**24:
        return np.float64
    # What float32 would round to a whole number it is not: 8388608.5, 1e-50.
    rounded = (
        not math.isnan(number)
        and number != int(number)
        and float(np.float32(number)) == int(number)
    )
    return np.float64 if rounded else np.float32


#: What NumPy's ufuncs take beside arrays, with the only values that mean nothing.
_UFUNC_DEFAULTS = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}
_UFUNC_DTYPES = {
    np.dtype(name) for name in ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")
}


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether NumPy's ufuncs know an option with this value.

    >>> np_ufunc_legal_option("casting", "safe"), np_ufunc_legal_option("casting", "wild")
    (True, False)
    """
    if key == "where":
        return True
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "order":
        return isinstance(value, str)
    if key == "dtype":
        try:
            return np.dtype(value) in _UFUNC_DTYPES
        except TypeError:
            return False
    return key == "subok" and isinstance(value, bool)


def _refuse_ufunc_options(func: Callable[..., Any], options: dict[str, Any]) -> None:
    """Options of ufuncs are taken as long as they have their defaults."""
    for key, value in options.items():
        if key not in _UFUNC_DEFAULTS:
            raise MXNetTypeError(f"{key} is an invalid keyword to function '{func.__name__}'")
        if value == _UFUNC_DEFAULTS[key]:
            continue
        if np_ufunc_legal_option(key, value):
            raise MXNetNotImplementedError(
                f"{key}={value} is not implemented for operator {func.__name__}"
            )
        raise MXNetTypeError(f"{key}={value} not understood for operator {func.__name__}")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions f(x, out=None): they take the options of ufuncs, with their defaults."""

    @functools.wraps(func)
    def wrapped(x: Any, out: Any = None, **kwargs: Any) -> Any:
        _refuse_ufunc_options(func, kwargs)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions f(x1, x2, out=None): they take the options of ufuncs, with their defaults."""

    @functools.wraps(func)
    def wrapped(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        _refuse_ufunc_options(func, kwargs)
        return func(x1, x2, out=out)

    return wrapped


def _renaming(
    func: Callable[..., Any], rename: Callable[[dict[str, Any]], None]
) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        rename(kwargs)
        return func(*args, **kwargs)

    return wrapped


def _move(
    kwargs: dict[str, Any], old: str, new: str, change: Callable[[Any], Any] = lambda value: value
) -> None:
    value = kwargs.pop(old, None)
    if value is not None:
        kwargs[new] = change(value)


def wrap_data_api_statical_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions with `correction`, which then take NumPy's `ddof` as well."""
    return _renaming(func, lambda kwargs: _move(kwargs, "ddof", "correction"))


def wrap_data_api_linalg_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions with `upper` and `rtol`, which then take NumPy's `UPLO`, `rcond` and `tol` as well."""

    def rename(kwargs: dict[str, Any]) -> None:
        _move(kwargs, "UPLO", "upper", lambda value: value == "U")
        _move(kwargs, "rcond", "rtol")
        _move(kwargs, "tol", "rtol")

    return _renaming(func, rename)


def wrap_sort_functions(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions with `stable`, which then take NumPy's `kind` as well."""

    def rename(kwargs: dict[str, Any]) -> None:
        _move(kwargs, "kind", "stable", lambda value: value == "stable")
        if kwargs.pop("order", None) is not None:
            raise MXNetNotImplementedError("order not supported here")

    return _renaming(func, rename)


def wrap_ctx_to_device_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions with `device`, which then take `ctx` as well."""
    return _renaming(func, lambda kwargs: _move(kwargs, "ctx", "device"))


def numpy_fallback(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions written with NumPy: arrays of mxjax go in as NumPy's and results come back as mx.np's.

    Inside, `np` is what it is in the function's module; arrays may lie in lists, tuples and dictionaries. Results lie
    where the arrays lay, which must be one device.

    >>> @numpy_fallback
    ... def smallest(x):
    ...     return np.sort(x)[:2]
    >>> import mxjax as mx
    >>> smallest(mx.np.array([3.0, 1.0, 2.0]))
    array([1., 2.])
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places: list[Any] = []
        result = func(*_to_host(args, places), **_to_host(kwargs, places))
        if result is None:
            raise MXNetValueError(
                "Only functions with return values are allowed to use this decorator"
            )
        if any(place != places[0] for place in places):
            raise MXNetValueError(
                f"inconsistent devices: {', '.join(map(str, dict.fromkeys(places)))}"
            )
        return _from_host(result, places[0] if places else None)

    return wrapped


def _to_host(given: Any, places: list[Any]) -> Any:
    if hasattr(type(given), "asnumpy"):
        places.append(given.device)
        return given.asnumpy()
    if isinstance(given, list | tuple):
        return type(given)([_to_host(each, places) for each in given])
    if isinstance(given, dict):
        return {name: _to_host(each, places) for name, each in given.items()}
    return given


def _from_host(made: Any, device: Any) -> Any:
    from . import np as mx_np

    if isinstance(made, np.ndarray):
        return mx_np.array(made, dtype=made.dtype, device=device)
    if isinstance(made, list | tuple):
        return type(made)([_from_host(each, device) for each in made])
    if isinstance(made, dict):
        return {name: _from_host(each, device) for name, each in made.items()}
    return made


_explain_names(__name__)
