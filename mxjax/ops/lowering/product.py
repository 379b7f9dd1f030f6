"""Products of arrays of several axes with a matrix."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...core import compiler

#: Dtypes of 16 bits, whose arithmetic XLA:CPU does in float32.
NARROW = ("float16", "bfloat16")


def product(a: Any, b: Any, dims: Any) -> Any:
    """`lax.dot_general`; of 16-bit arrays on CPUs its gradient keeps these.

    XLA:CPU multiplies in float32, and would keep what it has widened for the forward product until the backward ones
    need it: mixed precision then saves no memory. A checkpoint's barrier keeps the two apart.
    """

    def plain(a: Any, b: Any) -> Any:
        return lax.dot_general(a, b, dims)

    if a.dtype == b.dtype and str(a.dtype) in NARROW and compiler.platform_now() == "cpu":
        return jax.checkpoint(plain)(a, b)
    return plain(a, b)


#: So many products of two 8-bit integers add up to a whole number that float32 has.
_EXACT = 256


def of_bytes(a: Any, b: Any) -> Any:
    """a (..., n) times the transpose of b (m, n), of 8-bit integers, exactly: int32 (..., m).

    On GPUs as products of bfloat16, which has these integers, with sums in float32: XLA's own product of 8-bit integers
    gave twice the sums on an H200 (jax 0.11.2, precision "highest", without trials of kernels).
    """
    if compiler.platform_now() != "gpu":
        return lax.dot_general(
            a, b, (((a.ndim - 1,), (1,)), ((), ())), preferred_element_type=jnp.int32
        )
    a, b = a.astype("bfloat16"), b.astype("bfloat16")
    n = b.shape[1]
    total: Any = 0
    for start in range(0, max(n, 1), _EXACT):
        parts = [
            lax.slice_in_dim(x, start, min(start + _EXACT, n), axis=x.ndim - 1) for x in (a, b)
        ]
        made = lax.dot_general(
            *parts, (((a.ndim - 1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        total = total + made.astype("int32")
    return total


def of_rows(x: Any, w: Any, axis: int = 0, bias: Any = None) -> Any:
    """x (..., n) times a matrix, over its axis 0 (n, m) or 1 (m, n), and a bias (m,): (..., m).

    On CPUs the leading axes are one. The matrix's gradient is a sum over all of them, for which XLA:CPU would first
    turn both arrays around: a language model's output layer (35 x 20 words, 5,000 classes) takes 53 ms for 60.
    """
    lead = x.shape[:-1]
    if x.ndim > 2 and compiler.platform_now() == "cpu":
        x = x.reshape(prod(lead), x.shape[-1])
    out = product(x, w, (((x.ndim - 1,), (axis,)), ((), ())))
    return (out if bias is None else out + bias).reshape(*lead, w.shape[1 - axis])
