"""Products of two matrices over their rows, as a dense layer's weight gradient is, that XLA:CPU computes faster turned.

Where the first matrix has twice as many columns as the second, and this one at most 256, XLA's product runs at 25 to 70
GFLOP/s. The product of the second with the first, turned afterwards, runs at 70 to 100. ms of one core of an EPYC
processor with AVX-512, jax 0.10.2, for rows, columns of the first and of the second:

    512, 1024, 256   4.1 and 2.9      25088, 96, 16   2.8 and 1.1      1568, 384, 64   1.2 and 0.8
    700, 5000, 200  16.6 and 14.3      6272, 192, 32  1.5 and 0.9      392, 1280, 320  3.5 and 3.4

The choice goes by the shapes alone, so that each program has the same bits.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

_BY_ROWS = (((0,), (0,)), ((), ()))
#: Turning costs a number of the result as much as some of its products: there are to be more of them.
_LEAST_ROWS = 128
_LEAST, _MOST = 8, 256


def materialize(x: Any) -> Any:
    """x in memory in row-major order: the constraint also ends XLA's fusions."""
    return with_layout_constraint(x, Layout(major_to_minor=tuple(range(x.ndim))))


def is_faster_turned(a: Any, b: Any) -> bool:
    """Whether the product of a (r, m) and b (r, n) over their rows is to be made as (n, m), and turned."""
    if a.dtype != np.float32 or b.dtype != np.float32:
        return False
    (rows, m), (_, n) = a.shape, b.shape
    return bool(rows >= _LEAST_ROWS and _LEAST <= n <= _MOST and m >= 2 * n)


def turned(a: Any, b: Any, **params: Any) -> Any:
    """The product over rows, as the transpose of the other one."""
    made = lax.dot_general(b, a, _BY_ROWS, precision=params.get("precision"))
    return materialize(jnp.transpose(materialize(made)))


def rules(mlir: Any) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` of a traced function takes for products."""
    own, as_jax = (
        mlir.lower_fun(turned, multiple_results=False),
        mlir._lowerings[lax.dot_general_p].rule,
    )

    def rule(ctx: Any, *xs: Any, **params: Any) -> Any:
        known = params["dimension_numbers"] == _BY_ROWS and all(
            a.ndim == 2 and all(isinstance(n, int) for n in a.shape) for a in ctx.avals_in
        )
        # What ends XLA's fusions would also gather what lies on several devices.
        alone = getattr(ctx.module_context.axis_context, "num_devices", None) == 1
        plain = alone and ctx.avals_out[0].dtype == np.float32
        return (own if known and plain and is_faster_turned(*ctx.avals_in) else as_jax)(
            ctx, *xs, **params
        )

    return ((lax.dot_general_p, rule),)


__all__ = ["is_faster_turned", "materialize", "rules", "turned"]
