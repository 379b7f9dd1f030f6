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


def refuse_options(op: Op, cls: type[NDArray], kwargs: dict[str, Any]) -> None:
    """Take NumPy's options of ufuncs out of the arguments, where they say what happens anyway; refuse others."""
    if cls is NDArray or not (
        isinstance(op.tests.ref, np.ufunc) or op.name in ("isposinf", "isneginf", "ldexp")
    ):
        return
    if getattr(op.tests.ref, "__name__", "") in _NO_OPTIONS:
        return
    for name in _OPTIONS:
        if name not in kwargs:
            continue
        value = kwargs.pop(name)
        if value is _OPTIONS[name] or (isinstance(value, str) and value == _OPTIONS[name]):
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
