"""Comparisons, with the tolerances that MXNet has for each dtype."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import MXNetAssertionError

Tolerance = float | Mapping[Any, float] | None

_EXACT = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _dtypes(small: Mapping[str, float]) -> dict[np.dtype, float]:
    import ml_dtypes

    table = {np.dtype(name): 0.0 for name in _EXACT}
    table[np.dtype(ml_dtypes.bfloat16)] = small["bfloat16"]
    table.update({np.dtype(name): value for name, value in small.items() if name != "bfloat16"})
    return table


def default_rtols() -> dict[np.dtype, float]:
    """The relative tolerance for each dtype."""
    return _dtypes({"bfloat16": 8e-2, "float16": 1e-2, "float32": 1e-4, "float64": 1e-5})


def default_atols() -> dict[np.dtype, float]:
    """The absolute tolerance for each dtype."""
    return _dtypes({"bfloat16": 1e-1, "float16": 1e-1, "float32": 1e-3, "float64": 1e-20})


def default_numeric_eps() -> dict[np.dtype, float]:
    """The step of finite differences for each dtype; powers of two, so that no bits are lost."""
    return {np.dtype(np.float16): 2**-6, np.dtype(np.float32): 2**-9, np.dtype(np.float64): 2**-14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype whose precision an array has: float16 for float32 where a GPU computes in TF32."""
    dtype = np.dtype(dat.dtype)
    device: Any = getattr(dat, "device", None)  # NumPy arrays have one too: "cpu"
    if dtype == np.float32 and getattr(device, "device_type", None) == "gpu":
        capability = getattr(device.jax_device, "compute_capability", "0")
        with contextlib.suppress(ValueError):
            if float(capability) >= 8.0:
                return np.dtype(np.float16)
    return dtype


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[Any, float]) -> float:
    """The tolerance for an array: `tol` if it is a number, else what it (or the default) says."""
    if isinstance(tol, int | float | np.number):
        return float(tol)
    dtype = effective_dtype(dat)
    return default_tol[dtype] if tol is None else tol.get(dtype, default_tol[dtype])


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """The tolerances for comparing two arrays: those of the less precise one."""
    x, y = (np.asarray(v) if isinstance(v, numbers.Number) else v for v in (x, y))
    return (
        max(get_tolerance(v, rtol, default_rtols()) for v in (x, y)),
        max(get_tolerance(v, atol, default_atols()) for v in (x, y)),
    )


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    """`rtol`, or the default of a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    """`atol`, or the default of a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """`etol`, the part of the elements that may differ, or 0."""
    return 0 if etol is None else etol


def _host(data: Any) -> Any:
    return data.asnumpy() if hasattr(type(data), "asnumpy") else np.asarray(data)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays have the same shape and elements."""
    return bool(np.array_equal(_host(a), _host(b)))


def same_array(array1: Any, array2: Any) -> bool:
    """Whether two mxjax arrays share their elements: a write to one is seen in the other."""
    array1[:] += 1
    shared = same(array1, array2)
    array1[:] -= 1
    return shared and same(array1, array2)


def _same_shapes(a: Any, b: Any) -> None:
    if np.shape(a) != np.shape(b):
        raise MXNetAssertionError(f"shapes differ: {np.shape(a)} and {np.shape(b)}")


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Whether all elements satisfy `|a - b| <= atol + rtol * |b|`; float64's tolerances if None."""
    if not use_broadcast:
        _same_shapes(a, b)
    return bool(
        np.allclose(
            _host(a), _host(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan
        )
    )


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise where `|a - b| <= atol + rtol * |b|` does not hold for all elements.

    Args:
      a, b: mxjax arrays, NumPy arrays or numbers.
      rtol, atol: numbers, or dicts from dtypes; None takes those of the less precise dtype.
      names: what the message calls the two.
      equal_nan: NaN equals NaN.
      use_broadcast: shapes may differ if they broadcast.
      mismatches: how many of the worst elements the message shows (the first number).

    Raises:
      MXNetAssertionError: they differ; the message shows the worst elements.

    >>> assert_almost_equal(np.float32(1), np.float32(1.0001))
    """
    if not use_broadcast:
        _same_shapes(a, b)
    rtol, atol = get_tols(
        a if hasattr(a, "dtype") else np.asarray(a),
        b if hasattr(b, "dtype") else np.asarray(b),
        rtol,
        atol,
    )
    _compare(_host(a), _host(b), rtol, atol, names, equal_nan, mismatches[0], 0.0)


def _compare(
    a: Any,
    b: Any,
    rtol: float,
    atol: float,
    names: tuple[str, str],
    equal_nan: bool,
    shown: int,
    etol: float,
) -> None:
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        raise MXNetAssertionError(
            f"shapes differ: {names[0]} has {np.shape(a)}, {names[1]} has {np.shape(b)}"
        ) from None
    close = _close(a, b, rtol, atol, equal_nan)
    wrong = int(close.size - np.count_nonzero(close))
    if wrong == 0 or wrong / close.size <= etol:
        return
    with np.errstate(all="ignore"):
        left, right = _wide(a), _wide(b)
        distance = np.where(left == right, 0, np.abs(left - right))
        excess = distance / (atol + rtol * np.abs(right) + 1e-20)
    excess = np.where(close, 0, np.where(np.isnan(excess), np.inf, excess))
    worst = np.argsort(excess, axis=None)[::-1][: max(1, min(shown, wrong))]
    lines = [
        f"  {names[0]}{_place(place)} = {a[place]}, {names[1]}{_place(place)} = {b[place]}: "
        f"{excess[place]:.4g} times the tolerance"
        for place in (np.unravel_index(flat, a.shape) for flat in worst)
    ]
    raise MXNetAssertionError(
        f"{names[0]} and {names[1]} differ in {wrong} of {close.size} elements "
        f"({100 * wrong / close.size:.3g} %) by more than rtol={rtol:g}, atol={atol:g}; the "
        "worst:\n" + "\n".join(lines)
    )


def _close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """Which elements are close; those of large arrays block by block, which takes less memory."""
    tolerances: Any = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    if a.size <= _BLOCK:
        return np.isclose(_wide(a), _wide(b), **tolerances)
    close = np.empty(a.size, bool)
    x, y = a.reshape(-1), b.reshape(-1)  # of an array in another order a copy, in its own dtype
    for at in range(0, a.size, _BLOCK):
        part = slice(at, at + _BLOCK)
        close[part] = np.isclose(_wide(x[part]), _wide(y[part]), **tolerances)
    return close.reshape(a.shape)


_BLOCK = 1 << 22


def _place(place: Sequence[Any]) -> str:
    return f"[{', '.join(str(int(number)) for number in place)}]" if len(place) else ""


def _wide(data: np.ndarray) -> np.ndarray:
    """In a dtype whose differences neither wrap nor round."""
    if data.dtype == bool or data.dtype.kind in "V" or data.dtype == np.float16:
        return data.astype(np.float64)
    if data.dtype.kind in "iu":
        return data.astype(np.float64 if data.dtype == np.uint64 else np.int64)
    return data


def assert_allclose(
    a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True
) -> None:
    """`assert_almost_equal` with NumPy's defaults."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """`assert_almost_equal` that lets a part `etol` of the elements differ."""
    rtol, atol = get_tols(a, b, rtol, atol)
    _compare(_host(a), _host(b), rtol, atol, names, equal_nan, mismatches[0], get_etol(etol))


def assert_almost_equal_ignore_nan(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """`assert_almost_equal` of the elements that are NaN in neither array."""
    a, b = np.copy(_host(a)), np.copy(_host(b))
    either = np.isnan(a) | np.isnan(b)
    a[either] = b[either] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(
    f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any
) -> None:
    """Raise unless `f(*args, **kwargs)` raises an `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise MXNetAssertionError(f"{exception_type.__name__} was not raised")


def checkShapes(a: Any, b: Any) -> None:  # noqa: N802  # MXNet's name
    """Raise unless two arrays have one shape."""
    _same_shapes(a, b)


def locationError(  # noqa: N802  # MXNet's name
    a: Any,
    b: Any,
    index: Any,
    names: Sequence[str],
    maxError: bool = False,  # noqa: N803
) -> str:
    """The words that say where two arrays differ, and what they hold there."""
    worst = "maximum " if maxError else ""
    return (
        f"Location of {worst}error: {index!s}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"
    )
