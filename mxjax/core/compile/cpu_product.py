"""Products that XLA:CPU computes faster in another form.

Of float32: products of two matrices over their rows, as a dense layer's weight gradient is, turned. Where the first
matrix has twice as many columns as the second, and this one at most 256, XLA's product runs at 25 to 70 GFLOP/s. The
product of the second with the first, turned afterwards, runs at 70 to 100. ms of one core of an EPYC processor with
AVX-512, jax 0.10.2, for rows, columns of the first and of the second:

    512, 1024, 256   4.1 and 2.9      25088, 96, 16   2.8 and 1.1      1568, 384, 64   1.2 and 0.8
    700, 5000, 200  16.6 and 14.3      6272, 192, 32  1.5 and 0.9      392, 1280, 320  3.5 and 3.4

XLA's product likes its second matrix's columns to fill vectors: where those of the first one do so and those of the
second do not, as where that one is the patches of a first layer, it is turned, too, up to about the same width. Parts
of the time by what is turned, one core of a Xeon with AVX-512, jax 0.10.2 and 0.12 alike, for 2,048 rows:

    columns of the second   9    27    40    49    75   100   104   147   168   250
    of the first    32   0.36  0.57  0.72  0.70  0.88  0.99  1.06  1.04  1.19  1.27
                    64   0.20  0.35  0.43  0.48  0.63  0.72  0.82  0.81  1.00  1.02
                   128   0.15  0.29  0.36  0.40  0.52  0.59  0.69  0.68  0.84  0.84

Without AVX-512 XLA's product over rows slows down where a matrix's rows lie multiples of 512 bytes apart (128 columns).
There the first matrix is turned, and what is multiplied then is a product of its library. ms of one core of an AMD EPYC
(Zen 3, AVX2), jax 0.10.2, as it is, the other one turned afterwards, and the first matrix turned before:

    512,  256, 256   0.97, 0.96, 0.81       512,  512, 512   4.7,  4.7,  3.0      128, 512,  512   1.1, 1.2, 0.8
    512, 1024, 256   5.4,  6.2,  4.0       1024, 1024, 1024   51,   52,   25      392, 512, 4608   32,  39,  27
    512,  256, 1024  5.9,  5.4,  4.3       2048, 2048, 512    80,   95,   50      512, 800,  800   8.7, 9.3, 11.5

The choice goes by the shapes and the processor alone, so that each program has the same bits.

Of bfloat16, on processors with instructions for it (AVX512-BF16, AMX): products with sums in float32, which are rounded
at the end, of matrices that are multiplied along the first one's last axis. Otherwise XLA widens both matrices and
multiplies in float32: jax 0.10 unless the sums are the result, every version where the first one lies otherwise. ms of
one core of such an EPYC, for (n, k) by (k, m): float32, bfloat16 as XLA has it, and here:

    640, 512, 2048   12.8, 13.4 and 6.7    (k, n) by (k, m)   12.8, 13.9 and 6.8    (jax 0.10.2)
    512, 512, 512     2.5,  2.6 and 1.3                        3.1,  3.1 and 1.4
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from .compiler_options import cpu_features

_BY_ROWS = (((0,), (0,)), ((), ()))
#: Turning costs a number of the result as much as some of its products: there are to be more of them.
_LEAST_ROWS, _MANY_ROWS = 128, 1024
_LEAST, _MOST = 8, 256
#: Numbers in a vector of 512 bits.
_VECTOR = 16
#: Of how many numbers both matrices' rows are multiples where the first one is turned before, without such vectors.
_ALIKE = 128


def materialize(x: Any) -> Any:
    """x in memory in row-major order: the constraint also ends XLA's fusions."""
    return with_layout_constraint(x, Layout(major_to_minor=tuple(range(x.ndim))))


def is_faster_turned(a: Any, b: Any) -> bool:
    """Whether the product of a (r, m) and b (r, n) over their rows is to be made as (n, m), and turned."""
    if a.dtype != np.float32 or b.dtype != np.float32:
        return False
    (rows, m), (_, n) = a.shape, b.shape
    if rows < _LEAST_ROWS or not _LEAST <= n <= _MOST or is_turned_before(a, b):
        return False
    return bool(_fills_vectors(rows, m, n) or (m >= 2 * n and not _fills_vectors(rows, n, m)))


def _fills_vectors(rows: int, m: int, n: int) -> bool:
    """Whether the first matrix's columns fill vectors and the second's do not, which is not so much the wider one."""
    if m % (2 * _VECTOR) or n % (2 * _VECTOR) == 0:
        return False
    if m < 4 * _VECTOR:
        return rows >= _MANY_ROWS and 2 * n <= 3 * m
    return 5 * n <= 12 * m if n % _VECTOR and m % (4 * _VECTOR) == 0 else 2 * n <= 3 * m


def is_turned_before(a: Any, b: Any) -> bool:
    """Whether the product of a (r, m) and b (r, n) over their rows is to be made of the transpose of a."""
    if a.dtype != np.float32 or b.dtype != np.float32 or not _has_avx2_alone():
        return False
    (rows, m), (_, n) = a.shape, b.shape
    return rows >= _LEAST_ROWS and min(m, n) >= _ALIKE and not (m % _ALIKE or n % _ALIKE)


def _has_avx2_alone() -> bool:
    return "avx2" in cpu_features() and "avx512f" not in cpu_features()


def turned_before(a: Any, b: Any, **params: Any) -> Any:
    """The product over rows, of the first matrix's transpose in memory."""
    return lax.dot(materialize(a.T), b, precision=params.get("precision"))


def turned(a: Any, b: Any, **params: Any) -> Any:
    """The product over rows, as the transpose of the other one."""
    made = lax.dot_general(b, a, _BY_ROWS, precision=params.get("precision"))
    return materialize(jnp.transpose(materialize(made)))


_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16"})
_WIDE: Any = np.dtype("float32")
_LEAST_WORK = 1 << 15  # products of two numbers


@functools.cache
def _widens() -> bool:
    """Whether this XLA multiplies bfloat16 in float32 unless the sums are the result."""
    return jaxlib.__version__.startswith("0.10.")


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for products of bfloat16 with sums in float32."""
    return bool(_INSTRUCTIONS & cpu_features())


def in_bfloat16(a: Any, b: Any, dimension_numbers: Any, **params: Any) -> bool:
    """Whether a product of bfloat16 is to be `summed_wide`."""
    if a.dtype != jnp.bfloat16 or b.dtype != jnp.bfloat16 or not multiplies_bfloat16():
        return False
    (of_a, of_b), (batch, _) = dimension_numbers
    if len(of_a) != 1 or batch != (*range(len(batch)),) or not all(a.shape) or not all(b.shape):
        return False
    others = [n for axis, n in enumerate(b.shape) if axis not in (*of_b, *batch)]
    lies_so = of_a[0] == a.ndim - 1
    return prod(a.shape) * prod(others) >= _LEAST_WORK and (
        _widens() if lies_so else min(prod(others), a.shape[-1]) >= 16
    )


def summed_wide(a: Any, b: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    """A product of bfloat16 with sums in float32, rounded at the end; the first array is laid out for it."""
    ((axis,), of_b), batch = dimension_numbers
    if axis != a.ndim - 1:
        a = materialize(jnp.moveaxis(a, axis, -1))
    dims = ((a.ndim - 1,), of_b), batch
    made = lax.dot_general(
        a, b, dims, precision=params.get("precision"), preferred_element_type=_WIDE
    )
    return made.astype(jnp.bfloat16)


def rules(mlir: Any) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` of a traced function takes for products."""
    own, before, wide, as_jax = (
        mlir.lower_fun(turned, multiple_results=False),
        mlir.lower_fun(turned_before, multiple_results=False),
        mlir.lower_fun(summed_wide, multiple_results=False),
        mlir._lowerings[lax.dot_general_p].rule,
    )

    def rule(ctx: Any, *xs: Any, **params: Any) -> Any:
        if not all(isinstance(n, int) for a in ctx.avals_in for n in a.shape):
            return as_jax(ctx, *xs, **params)
        known = params["dimension_numbers"] == _BY_ROWS and all(a.ndim == 2 for a in ctx.avals_in)
        # What ends XLA's fusions would also gather what lies on several devices.
        alone = getattr(ctx.module_context.axis_context, "num_devices", None) == 1
        plain = alone and ctx.avals_out[0].dtype == np.float32
        if (
            alone
            and ctx.avals_out[0].dtype == jnp.bfloat16
            and in_bfloat16(*ctx.avals_in, **params)
        ):
            return wide(ctx, *xs, **params)
        how = as_jax
        if known and plain and is_faster_turned(*ctx.avals_in):
            how = own
        elif known and plain and is_turned_before(*ctx.avals_in):
            how = before
        return how(ctx, *xs, **params)

    return ((lax.dot_general_p, rule),)


__all__ = [
    "in_bfloat16",
    "is_faster_turned",
    "is_turned_before",
    "materialize",
    "multiplies_bfloat16",
    "rules",
    "summed_wide",
    "turned",
    "turned_before",
]
