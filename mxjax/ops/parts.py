"""Parts of arrays at basic indices by NumPy, from the key and the shape alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.interpret.direct import Direct, Rules
from .keys import resolve

#: An index of NumPy's by the numbers of the places that are operands.
_Index = Callable[[Sequence[Any]], tuple[Any, ...]]


def _index(
    key: tuple[Any, ...], dims: tuple[int, ...], places: int
) -> tuple[_Index, tuple[int, ...]]:
    """What NumPy's own index is, and the shape of the part; operands are clamped as programs do it."""
    entries = resolve(key, dims, iter([None] * places))
    shape = tuple(e.window.count for e in entries if e.kind != "int")
    made: list[Any] = []
    open_: list[
        tuple[int, bool, int, int, int]
    ] = []  # where, an int, its axis's length, span, step
    axes = iter(dims)
    for e in entries:
        if e.kind == "new":
            made.append(None)
            continue
        n, w = next(axes), e.window
        if w.low is None:
            open_.append((len(made), e.kind == "int", n, w.span, w.step))
        made.append(w.low if e.kind == "int" else _slice(w.low or 0, w.span, w.step))
    fixed = (*made, ...)  # an array, never a number of NumPy's
    if not open_:
        return lambda numbers: fixed, shape

    def at(numbers: Sequence[Any]) -> tuple[Any, ...]:
        here = list(fixed)
        for (k, single, n, span, step), number in zip(open_, numbers, strict=True):
            low = int(number)
            low = max(0, min(low + n if low < 0 else low, n - span))
            here[k] = low if single else _slice(low, span, step)
        return tuple(here)

    return at, shape


@functools.lru_cache(maxsize=4096)
def index_of(key: tuple[Any, ...], dims: tuple[int, ...], places: int) -> _Index:
    """NumPy's own index for a key of arrays of this shape, by the numbers of so many places that are operands."""
    return _index(key, dims, places)[0]


def _slice(low: int, span: int, step: int) -> slice:
    if step > 0:
        return slice(low, low + span, step)
    return slice(low + span - 1, low - 1 if low else None, step)


def _equations(key: tuple[Any, ...], places: int) -> int:
    return 3 + 6 * places


def part(avals: Sequence[Any], *, key: tuple[Any, ...]) -> Direct | None:
    """``x[key]``."""
    x, places = avals[0], len(avals) - 1
    index, shape = _index(key, x.shape, places)

    def fn(x: np.ndarray, *numbers: Any) -> np.ndarray:
        return x[index(numbers)].copy()

    return Direct(shape, x.dtype, fn, _equations(key, places))


def of_part(avals: Sequence[Any], *, key: tuple[Any, ...]) -> Direct | None:
    """Zeros with the cotangent at the key; of floats."""
    x, places, given = avals[0], len(avals) - 2, avals[-1]
    index, shape = _index(key, x.shape, places)
    if not _is_float(x.dtype) or given.shape != shape or given.dtype != x.dtype:
        return None

    def fn(x: np.ndarray, *rest: Any) -> np.ndarray:
        made = np.zeros(x.shape, x.dtype)
        made[index(rest[:-1])] = rest[-1]
        return made

    return Direct(x.shape, x.dtype, fn, _equations(key, places), many=True)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def assigned(avals: Sequence[Any], *, key: tuple[Any, ...]) -> Direct | None:
    """A copy with a value of the same dtype at the key."""
    x, value, places = avals[0], avals[1], len(avals) - 2
    index, shape = _index(key, x.shape, places)
    if type(value) is str:
        if x.dtype not in (np.float32, np.float64):
            return None
        given: tuple[int, ...] = ()
    else:
        given = value.shape
        while len(given) > len(shape) and given[0] == 1:
            given = given[1:]
        if value.dtype != x.dtype or not _fits(given, shape):
            return None

    def fn(x: np.ndarray, value: Any, *numbers: Any) -> np.ndarray:
        made = x.copy()
        made[index(numbers)] = np.reshape(value, given)
        return made

    return Direct(x.shape, x.dtype, fn, 2 * _equations(key, places))


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a value is broadcast to a shape."""
    return len(given) <= len(shape) and all(
        a in (1, b) for a, b in zip(given[::-1], shape[::-1], strict=False)
    )


def no_gradient(avals: Sequence[Any], **attrs: Any) -> Direct | None:
    """A trace does it."""
    return None


PART = Rules(part, of_part)
ASSIGNED = Rules(assigned, no_gradient)
