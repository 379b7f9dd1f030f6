"""Exponentials of bfloat16 numbers, and conversions, that XLA:CPU's kernel library gets wrong beside reductions.

YNNPACK (jaxlib 0.10.2), to which XLA:CPU hands reductions of 4,096 numbers and more with what makes their operands,
gives NaN, infinities or whatever lay in memory for the sum of `exp(x * c)`, `expm1(x * c)` or `erf(x * c)` where x is
bfloat16, or was until it was converted; `exp2(x)` is such a product. Their operand is a selection here, and a
conversion to float32 an operation on bits: it takes neither, and results stay what they are. A sum of a million
bfloat16 numbers, converted by itself, takes 0.14 ms for 0.06; where there is an exponential, nothing is slower.

It rounds floats that become bytes in front of a sum: they are cut off at 32 bits first. Sums of other functions, and
of two of them in a row, are right in 16 and 32 bits.

    x = jax.random.normal(key, (64, 80), "bfloat16")
    jax.jit(lambda x: jax.numpy.exp(x * 2).sum(0))(x)  # XLA's own: NaN
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

_LN2 = 0.6931471805599453
#: exp, expm1 and erf of this and of every larger number are the same, and of bfloat16's next one, too.
_ENOUGH = 1e4


def _apart(x: Any) -> Any:
    most = jnp.full_like(x, _ENOUGH)
    return lax.select((x <= most) | (x != x), x, most)


def _exp2(x: Any) -> Any:
    """Computed in 32 bits and rounded once: XLA rounds the product as well."""
    return lax.exp(_apart(x.astype(np.float32) * np.float32(_LN2))).astype(x.dtype)


def _from_bfloat16(x: Any, **_: Any) -> Any:
    """float32 by its bits: bfloat16's are the first half of them."""
    bits = lax.bitcast_convert_type(x, np.uint16).astype(np.uint32) << np.uint32(16)
    return lax.bitcast_convert_type(bits, np.float32)


def _to_bytes(x: Any, *, new_dtype: Any, **_: Any) -> Any:
    """Cut off towards zero, numbers beyond the dtype its ends, as XLA has it."""
    ends = jnp.iinfo(new_dtype)
    return (
        lax.clamp(x.dtype.type(ends.min), x, x.dtype.type(ends.max))
        .astype(np.int32)
        .astype(new_dtype)
    )


def conversion(mlir: Any) -> Any:
    """What ``lower`` takes for conversions."""
    as_jax = mlir._lowerings[lax.convert_element_type_p].rule
    widened, bytes_ = (
        mlir.lower_fun(fn, multiple_results=False) for fn in (_from_bfloat16, _to_bytes)
    )

    def convert(ctx: Any, x: Any, **params: Any) -> Any:
        old, new = ctx.avals_in[0].dtype, params["new_dtype"]
        if old == jnp.bfloat16 and new == np.float32:
            return widened(ctx, x, **params)
        to_bytes = new in (np.int8, np.uint8) and jnp.issubdtype(old, jnp.floating)
        return (bytes_ if to_bytes else as_jax)(ctx, x, **params)

    return convert


def rules(mlir: Any) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` takes for functions, of 16 bits; everything else as JAX has it."""

    def rule_of(primitive: Any, dtypes: tuple[Any, ...], fn: Any) -> tuple[Any, Any]:
        own, others = mlir.lower_fun(fn, multiple_results=False), mlir._lowerings[primitive].rule

        def rule(ctx: Any, x: Any, **params: Any) -> Any:
            return own(ctx, x) if ctx.avals_in[0].dtype in dtypes else others(ctx, x, **params)

        return primitive, rule

    def apart(fn: Any) -> Any:
        return lambda x: fn(_apart(x.astype(np.float32))).astype(x.dtype)

    return (
        rule_of(lax.exp_p, (jnp.bfloat16,), apart(lax.exp)),
        rule_of(lax.expm1_p, (jnp.bfloat16,), apart(lax.expm1)),
        rule_of(lax.erf_p, (jnp.bfloat16,), apart(lax.erf)),
        rule_of(lax.exp2_p, (jnp.bfloat16, np.float16), _exp2),
    )


__all__ = ["conversion", "rules"]
