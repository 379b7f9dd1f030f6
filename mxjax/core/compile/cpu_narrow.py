"""Element-wise code on arrays with few numbers in a row, (n, 3) or a weight of (512, 512, 3, 3), in programs of a CPU.

jaxlib 0.10 and 0.11 give loops that read whole arrays alone, element by element, to a code generator of their own
("tiled"), which goes row by row: what is left of a row behind the last vector it takes number by number, and a row of
three numbers that way as a whole. It leaves loops that read a scalar, too, to another one, which takes the array as
one row. So the second array is multiplied by a 1 that XLA takes for any number. ms of ``x + y`` (a million numbers in
rows of so many; one core of a Xeon with AVX-512, jaxlib 0.10.2), with jaxlib 0.12 as with the scalar:

    numbers in a row    3     4     5     7     9    12    14    28    60   112  1000
    whole arrays     3.26  0.49  1.98  2.17  1.09  1.28  1.16  0.83  0.89  0.53  0.69
    with a scalar    0.53  0.49  0.49  0.56  0.51  0.53  0.56  0.50  0.55  0.49  0.55
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

import jaxlib
import numpy as np
from jax import lax

_TWO = (lax.add_p, lax.sub_p, lax.mul_p, lax.div_p, lax.max_p, lax.min_p)
_COMPARED = (lax.lt_p, lax.le_p, lax.gt_p, lax.ge_p, lax.eq_p, lax.ne_p)
_DTYPES = ("float32", "float64", "int32", "int64")
#: Longer rows gain nothing that would be worth a scalar, nor do smaller arrays.
_MOST, _LEAST = 128, 4096


@functools.cache
def goes_by_rows() -> bool:
    """Whether this XLA has that code generator, with rows of any length taken so."""
    major, minor = (int(part) for part in jaxlib.__version__.split(".")[:2])
    return (0, 10) <= (major, minor) < (0, 12)


def is_narrow(shape: tuple[int, ...]) -> bool:
    """Whether an array's rows are short, and not as long as some vector."""
    if len(shape) < 2 or not all(isinstance(n, int) for n in shape):
        return False
    row = shape[-1]
    return row < _MOST and row & (row - 1) != 0 and prod(shape) >= _LEAST


def rules(mlir: Any, others: dict[Any, Any]) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` of a traced function takes for them; ``others`` has the rules that stand already."""
    if not goes_by_rows():
        return ()
    from jaxlib.mlir.dialects import stablehlo as hlo

    def rule_of(primitive: Any) -> Callable[..., Any]:
        as_before = others.get(primitive) or mlir._lowerings[primitive].rule

        def rule(ctx: Any, x: Any, y: Any, **params: Any) -> Any:
            of, other = ctx.avals_in
            if of.dtype.name in _DTYPES and of.shape == other.shape and is_narrow(of.shape):
                one = mlir.ir_constant(np.ones((), of.dtype))
                (one,) = hlo.OptimizationBarrierOp([one]).results
                ones = hlo.broadcast_in_dim(y.type, one, mlir.dense_int_array([]))
                y = hlo.multiply(y, ones)
            return as_before(ctx, x, y, **params)

        return rule

    return tuple((p, rule_of(p)) for p in (*_TWO, *_COMPARED))


__all__ = ["goes_by_rows", "is_narrow", "rules"]
