"""NumPy's options of ufuncs (`where=`, `casting=`, ...) among the arguments of mx.np's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import errors
from ..ops.table import Op
from .ndarray import NDArray

# What NumPy's ufuncs take besides, and the only values of it that MXNet knows.
_OPTIONS: dict[str, Any] = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_NO_OPTIONS = ("left_shift", "right_shift")  # those that take none of it
#: Those that are NumPy's own in MXNet, and compute in any dtype.
_NUMPYS = tuple("signbit positive modf divmod_ float_power spacing heaviside frexp".split())


def refuse_options(
    op: Op, cls: type[NDArray], kwargs: dict[str, Any], args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The arguments without NumPy's options of ufuncs, where they say what happens anyway; others are refused."""
    if cls is NDArray or not (
        isinstance(op.tests.ref, np.ufunc) or op.name in ("isposinf", "isneginf", "ldexp")
    ):
        return args
    if getattr(op.tests.ref, "__name__", "") in _NO_OPTIONS:
        return args
    for name in _OPTIONS:
        if name not in kwargs:
            continue
        value = kwargs.pop(name)
        if value is _OPTIONS[name] or (isinstance(value, str) and value == _OPTIONS[name]):
            continue
        if name == "dtype" and op.name in _NUMPYS:
            args = _computed_in(op.tests.ref, value, args)
            continue
        if name == "dtype":
            try:
                known = np.dtype(value).kind in "biuf"
            except TypeError:
                known = False
        else:
            known = (
                value in _CASTINGS
                if name == "casting"
                else name != "order" or isinstance(value, str)
            )
        if known:
            raise errors.MXNetNotImplementedError(
                f"{name}={value} is not implemented for {op.name}: it takes {name}={_OPTIONS[name]!r} only"
            )
        raise errors.MXNetTypeError(f"{name}={value!r} is not understood by {op.name}")
    return args


def _computed_in(ufunc: np.ufunc, dtype: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays in the dtype that NumPy takes them in, where its function is to give this one.

    Raises:
      TypeError: the function has no such form, or the arrays do not go into it.
    """
    xs = [x if isinstance(x, NDArray | np.ndarray) else np.asarray(x, "float32") for x in args]
    given = (*[np.dtype(x.dtype) for x in xs], *[None] * ufunc.nout)
    try:
        taken = ufunc.resolve_dtypes(
            given, signature=(*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)
        )
    except TypeError as error:
        raise errors.MXNetTypeError(f"dtype={dtype!r}: {error}") from None
    return tuple([x if x.dtype == t else x.astype(t) for x, t in zip(xs, taken, strict=False)])
