"""Outcomes drawn from probabilities: one random number for each, looked up in the sums of the probabilities.

The sums are whole numbers, so that every way of adding them up gives the same outcome (a sum of floats may end on
either side of a random number).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: Probabilities are counted in 2^-30 of a power of two near the largest of their row.
_BITS = 30


def outcomes(key: Any, p: Any, shape: tuple[int, ...]) -> Any:
    """Positions along the last axis of ``p``, int32 of ``shape``, which ends with the shape of the rows of ``p``.

    Probabilities need not add up to 1; what is not above 0 never comes, unless nothing is.
    """
    rows = p.shape[:-1]
    sums = jnp.moveaxis(jnp.cumsum(_counts(p), -1), -1, 0)
    total = sums[-1].astype("float64")
    bits = jax.random.bits(key, shape, "uint32").astype("float64")
    drawn = jnp.floor(bits * (total * 2.0**-32)).astype("int64")
    sums = sums[:-1].reshape(-1, *(1,) * (len(shape) - len(rows)), *rows)
    return (drawn >= sums).sum(0, dtype="int32")


def _counts(p: Any) -> Any:
    """Rows of probabilities as whole numbers."""
    p = jax.lax.stop_gradient(p)
    p = p.astype(np.float64 if p.dtype == np.float64 else np.float32)
    p = jnp.where(p > 0, p, 0)
    largest = p.max(-1, keepdims=True)
    # The power of two of a float is its exponent's bits: divided by it nothing is rounded.
    bits, mask = ("int64", 0x7FF << 52) if p.dtype == np.float64 else ("int32", 0xFF << 23)
    power = jax.lax.bitcast_convert_type(
        jax.lax.bitcast_convert_type(largest, np.dtype(bits)) & np.asarray(mask, bits), p.dtype
    )
    return jnp.round(p / jnp.where(power > 0, power, 1) * 2.0**_BITS).astype("int64")
