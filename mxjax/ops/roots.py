"""Logarithms and roots that are exact where C's are: at powers of 2 and 10, and at cubes.

XLA computes log2 and log10 as a logarithm by a constant, and cbrt mostly as a power: ``log2(2.0**29)`` came out as
28.999999999999996, whose floor is 28. The exponent is taken off here, as in fdlibm: what is left of a power of 2 is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: dtype: the integers of its size, the bits of the mantissa, the exponent of 1.
_LAYOUT: dict[str, tuple[Any, int, int]] = {
    "float32": (np.int32, 23, 127),
    "float64": (np.int64, 52, 1023),
}
#: log10(2) in two parts, the first with so few digits that its product with an exponent is exact.
_LOG10_2 = {
    "float32": (3.0102920532e-01, 7.9034151668e-07),
    "float64": (3.01029995663611771306e-01, 3.69423907715893078616e-13),
}


def _parts(x: Any) -> tuple[Any, Any]:
    """An exponent e and a number m with x = m * 2**e: from 1 to 2, or below 1 from 0.5 on; e is 0 of what has none."""
    kind, mantissa, one = _LAYOUT[x.dtype.name]
    bits = lax.bitcast_convert_type(x, kind)
    e = (bits >> kind(mantissa)) - kind(one)
    below = e < 0
    rest = (bits & kind((1 << mantissa) - 1)) | jnp.where(
        below, kind((one - 1) << mantissa), kind(one << mantissa)
    )
    normal = (x >= np.finfo(x.dtype).tiny) & (x < np.inf)
    e = jnp.where(below, e + kind(1), e).astype(x.dtype)
    return jnp.where(normal, e, jnp.zeros_like(x)), jnp.where(
        normal, lax.bitcast_convert_type(rest, x.dtype), x
    )


def _with_derivative(fn: Callable[[Any], Any], plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, with the derivative of that of JAX, which also takes what is neither float32 nor float64."""
    own = jax.custom_jvp(fn)

    @own.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return own(*primals), jax.jvp(plain, primals, tangents)[1]

    def applied(x: Any) -> Any:
        return own(x) if x.dtype.name in _LAYOUT else plain(x)

    return applied


def _log2(x: Any) -> Any:
    e, m = _parts(x)
    return e + jnp.where(m == 0.5, -jnp.ones_like(m), jnp.log2(m))


def _log10(x: Any) -> Any:
    e, m = _parts(x)
    high, low = (x.dtype.type(v) for v in _LOG10_2[x.dtype.name])
    return (e * low + jnp.log(m) * x.dtype.type(1 / np.log(10))) + e * high


def _cbrt(x: Any) -> Any:
    y = jnp.cbrt(x)
    better = y - (y - x / (y * y)) / 3
    return jnp.where((x == 0) | ~jnp.isfinite(better), y, better)


log2 = _with_derivative(_log2, jnp.log2)
log10 = _with_derivative(_log10, jnp.log10)
cbrt = _with_derivative(_cbrt, jnp.cbrt)

__all__ = ["cbrt", "log2", "log10"]
