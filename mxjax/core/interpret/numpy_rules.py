"""What NumPy makes of one of JAX's primitives: the form of the table's rows.

A rule looks at an equation once and gives an :class:`Op`: a function of the operands' NumPy arrays and of those
dimensions that are known only as it runs. ``numpy_primitives.TABLE`` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class NotHere(Exception):
    """This is left to a program: NumPy does not compute it, or not as XLA would."""


class Op(NamedTuple):
    """``fn(*operands, *dims)``: one array, or with ``many`` a sequence of them.

    ``dims`` are dimensions, or nests of tuples of them; they may be symbolic, and arrive as numbers. ``spreads``: an
    operand may have lengths of 1 where another one is longer (`numpy.add` broadcasts). ``same``: the
    result is the operand itself.
    """

    fn: Callable[..., Any]
    dims: tuple[Any, ...] = ()
    many: bool = False
    spreads: bool = False
    same: bool = False


Rule = Callable[[Any], Op]


def dtype_in(eqn: Any, k: int = 0) -> Any:
    return eqn.invars[k].aval.dtype


def dtype_out(eqn: Any, k: int = 0) -> Any:
    return eqn.outvars[k].aval.dtype


def is_float(dtype: Any) -> bool:
    """Also of those that NumPy does not know by itself, like bfloat16."""
    return bool(dtype.kind == "f" or dtype.name == "bfloat16")


def is_half(dtype: Any) -> bool:
    """Floats of 16 bits: XLA computes with them in 32."""
    return bool(dtype.name in ("bfloat16", "float16"))


def plain(fn: Callable[..., Any]) -> Rule:
    """The rule of a primitive that a function of arrays of any dtypes computes, element by element."""
    made = Op(fn, spreads=True)
    return lambda eqn: made


def through_single(fn: Callable[..., Any], eqn: Any) -> Callable[..., Any]:
    """The function itself, or for floats of 16 bits computed in 32 and rounded."""
    dtype = dtype_out(eqn)
    if not is_half(dtype_in(eqn)):
        return fn

    def halved(*xs: Any) -> Any:
        return fn(*[np.asarray(x, np.float32) for x in xs]).astype(dtype)

    return halved


def single(fn: Callable[..., Any]) -> Rule:
    """As :func:`plain`, with floats of 16 bits computed in 32 and rounded once."""
    return lambda eqn: Op(through_single(fn, eqn), spreads=True)


def spread(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array of its own with this shape, repeated where its lengths are 1."""
    made = np.empty(shape, x.dtype)
    made[...] = x
    return made


def least(dtype: Any) -> Any:
    """The smallest value: of floats minus infinity."""
    if is_float(dtype):
        return dtype.type(-np.inf)
    return dtype.type(False) if dtype.kind == "b" else np.iinfo(dtype).min


def largest(dtype: Any) -> Any:
    if is_float(dtype):
        return dtype.type(np.inf)
    return dtype.type(True) if dtype.kind == "b" else np.iinfo(dtype).max


def axes_of(axes: Sequence[Any]) -> tuple[int, ...]:
    return tuple([int(a) for a in axes])
