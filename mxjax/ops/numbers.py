"""Python numbers that rows take beside arrays: constants of the call, or operands of it (column ``numbers``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


def is_number(v: Any) -> bool:
    """Whether an argument is a number rather than an array, be it one that comes as an operand."""
    return isinstance(v, (bool, int, float)) or bool(getattr(v, "weak_type", False))


def kind(s: Any) -> str:
    """``b``, ``i`` or ``f``, as a number is a bool, an int or a float."""
    if isinstance(s, bool):
        return "b"
    if isinstance(s, (int, float)):
        return "i" if isinstance(s, int) else "f"
    return "f" if jnp.issubdtype(s.dtype, jnp.floating) else "i"


def fitted(s: Any, dtype: Any) -> Any:
    """A number in a dtype, as C converts it: MXNet's are doubles, also where Python's is an int."""
    short = jnp.issubdtype(dtype, jnp.integer) and _beyond(np.dtype(dtype)) == _INT32
    if short and isinstance(s, int):
        s = whole(s, dtype)
    elif short and getattr(s, "dtype", None) == np.int64:
        s = jnp.where((s < -_INT32) | (s >= _INT32), -_INT32, s)
    return cast_like_c(s, dtype) if hasattr(s, "dtype") else np_cast(s, dtype)


def np_cast(s: Any, dtype: Any) -> np.ndarray:
    """A Python number (or several) in a dtype, without warnings."""
    with np.errstate(all="ignore"):
        return np.asarray(s).astype(dtype)


_INT32 = 1 << 31


def _beyond(dtype: np.dtype) -> int:
    """The first number that the integers are too short for by way of which C converts doubles to a dtype."""
    return _INT32 if dtype.itemsize < 4 or dtype == np.int32 else 1 << 63


def whole(s: float, dtype: Any) -> int:
    """The integer that C makes of a Python number on the way to a dtype of integers: NaN and what lies beyond that
    are the lowest one."""
    beyond = _beyond(np.dtype(dtype))
    return math.trunc(s) if -beyond - 1 < s < beyond else -beyond


def np_cast_like_c(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`cast_like_c` of NumPy's arrays."""
    if x.dtype.kind == "f" and dtype.kind in "iu":
        beyond = float(_beyond(dtype))
        with np.errstate(invalid="ignore"):
            x = np.where(np.abs(x) < beyond, x.astype(np.float64, copy=False), -beyond)
        x = x.astype(np.int64)
    return np_cast(x, dtype)


def half_away(x: Any) -> Any:
    """C's `round`: halves away from zero (`jnp.round` takes them to the even neighbour); integers as they are."""
    away = lax.RoundingMethod.AWAY_FROM_ZERO
    return lax.round(x, away) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def cast_like_c(x: Any, dtype: Any) -> Any:
    """C's conversion on a CPU: floats to integers towards zero, by way of int32 or, to wider ones and uint32, of int64;
    NaN and numbers beyond that are its lowest one, and what the dtype does not hold wraps."""
    if jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer):
        x = x.astype(jnp.promote_types(x.dtype, "float32"))  # 2**63 is no number of float16
        beyond = float(_beyond(np.dtype(dtype)))
        way = "int32" if beyond == _INT32 else "int64"
        x = jnp.where(jnp.abs(x) < beyond, jnp.trunc(x), -beyond).astype(way)
    return x.astype(dtype)


class Each:
    """The column ``check`` where each number is tested by itself: parameter -> test(number, name), which refuses it."""

    def __init__(self, tests: dict[str, Callable[[Any, str], None]]):
        self.tests = tests

    def __call__(self, **numbers: Any) -> None:
        for name, test in self.tests.items():
            test(numbers.get(name), name)

    def looks(self, known: dict[str, np.ndarray], shapes: Any, attrs: Any) -> None:
        """The column ``looks``: the smallest and the largest element of arrays of parameters are tested."""
        for name, test in self.tests.items():
            numbers = known.get(name)
            if numbers is not None and numbers.dtype.kind in "iuf":
                test(numbers.min().item(), name)
                test(numbers.max().item(), name)
