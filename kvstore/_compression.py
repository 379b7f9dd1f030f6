"""Gradient compression with error feedback, MXNet's numbers to the bit.

What a value loses by compression is kept, per key and sender, and added to the next one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mxjax import core, errors
from mxjax.core import Value, bind, concrete, place

TYPES = ("1bit", "2bit", "fp16", "bf16")
_HALF = {"fp16": "float16", "bf16": "bfloat16"}


class Settings(NamedTuple):
    """What `set_gradient_compression` was told.

    `kind` is one of 1bit, 2bit (MXNet's), fp16, bf16 (beyond); `threshold` counts for the first two.
    """

    kind: str
    threshold: float

    @classmethod
    def of(cls, params: Any) -> Settings:
        """From MXNet's dictionary; unknown keys pass, as there.

        Raises:
          MXNetError: no type or an unknown one, a threshold that is no number or not allowed.
        """
        kind = dict(params).get("type")
        if kind is None:
            raise errors.MXNetError(
                "Required parameter type of string is not presented: compression_params={'type': '2bit'}"
            )
        if kind not in TYPES:
            raise errors.MXNetError(
                f"Unknown type for gradient compression {kind}: one of {', '.join(TYPES)} is expected"
            )
        given = dict(params).get("threshold", 0.5)
        try:
            threshold = float(given)
        except (TypeError, ValueError):
            raise errors.MXNetError(
                f"Invalid Parameter format for threshold expect float but value={given!r}"
            ) from None
        if kind == "2bit" and not threshold > 0:
            raise errors.MXNetError(
                f"threshold must be greater than 0 for two bit compression, got {threshold}"
            )
        return cls(kind, threshold)


def encode(
    grad: jax.Array, residual: jax.Array, kind: str, threshold: float
) -> tuple[jax.Array, jax.Array]:
    """The codes of a gradient as small integers (one per element), and what they lose.

    2bit: 3 stands for +threshold, 2 for -threshold, 0 for nothing. 1bit: 1 for +1, 0 for -1, whatever
    the threshold (so does MXNet).
    """
    r = residual + grad
    t = jnp.asarray(threshold, grad.dtype)
    if kind == "2bit":
        up, down = r >= t, r <= -t
        codes = jnp.where(up, 3, jnp.where(down, 2, 0)).astype("uint8")
        return codes, jnp.where(up, r - t, jnp.where(down, r + t, r))
    up = r > t
    one = jnp.asarray(1, grad.dtype)
    return up.astype("uint8"), jnp.where(up, r - one, r + one)


def decode(codes: jax.Array, kind: str, threshold: float, dtype: Any) -> jax.Array:
    """What codes stand for."""
    t = jnp.asarray(threshold if kind == "2bit" else 1.0, dtype)
    if kind == "2bit":
        return jnp.where(codes == 3, t, jnp.where(codes == 2, -t, jnp.zeros((), dtype)))
    return jnp.where(codes == 1, t, -t)


def pack(codes: jax.Array, kind: str) -> jax.Array:
    """Codes as bytes for the wire, the first element in a byte's high bits (MXNet's order)."""
    bits = 2 if kind == "2bit" else 1
    per = 8 // bits
    flat = codes.reshape(-1)
    rows = jnp.pad(flat, (0, -flat.size % per)).reshape(-1, per).astype("uint8")
    shifts = jnp.arange(per - 1, -1, -1, dtype="uint8") * bits
    return jnp.sum(rows << shifts, axis=1, dtype="uint8")


def unpack(packed: jax.Array, kind: str, size: int) -> jax.Array:
    """`pack` undone, for so many elements."""
    bits = 2 if kind == "2bit" else 1
    per = 8 // bits
    shifts = jnp.arange(per - 1, -1, -1, dtype="uint8") * bits
    mask = jnp.asarray((1 << bits) - 1, "uint8")
    return ((packed[:, None] >> shifts) & mask).reshape(-1)[:size]


def _through(
    grad: jax.Array, residual: jax.Array, *, kind: str, threshold: float
) -> tuple[jax.Array, jax.Array]:
    if kind in _HALF:
        whole = residual + grad
        sent = whole.astype(_HALF[kind]).astype(grad.dtype)
        return sent, whole - sent
    codes, left = encode(grad, residual, kind, threshold)
    return decode(codes, kind, threshold, grad.dtype), left


class Compressor:
    """What every sender of every key still owes.

    >>> Settings.of({"type": "2bit", "threshold": 0.25})
    Settings(kind='2bit', threshold=0.25)
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self._owed: dict[Any, Value] = {}
        statics = (("kind", settings.kind), ("threshold", settings.threshold))
        self._call = bind("kvstore_compress", _through, statics)

    def through(self, key: Any, sender: int, value: Value) -> Value:
        """What arrives of a value; floating-point values only, others pass."""
        if not value.aval.differentiable:
            return value
        owed = self._owed.get((key, sender))
        if owed is None or owed.aval.shape != value.aval.shape:
            owed = _zeros(value)
        elif owed.aval.device is not value.aval.device:
            owed = concrete(place(core.read(owed), value.aval.device), shared=False)
        sent, self._owed[key, sender] = core.record(self._call, (value, owed))
        return sent


def _zeros(like: Value) -> Value:
    import numpy as np

    aval = like.aval.on(None)
    return concrete(place(np.zeros(aval.shape, aval.dtype), aval.device), shared=False, of=aval)
