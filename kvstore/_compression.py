"""Gradient compression with error feedback, MXNet's numbers to the bit.

What a value loses by compression is kept, per key and sender, and added to the next one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mxjax import core, errors
from mxjax.core import Value, concrete, place, row

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
          TypeError: it is no dictionary.
        """
        if not isinstance(params, dict):
            raise errors.MXNetTypeError(
                f"compression_params is a dict such as {{'type': '2bit', 'threshold': 0.5}}, got {params!r}"
            )
        kind = params.get("type")
        if kind is None:
            raise errors.MXNetError(
                "Required parameter type of string is not presented: compression_params={'type': '2bit'}"
            )
        if kind not in TYPES:
            raise errors.MXNetError(
                f"Unknown type for gradient compression {kind}: one of {', '.join(TYPES)} is expected"
            )
        given = params.get("threshold", 0.5)
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


_COMPRESS = row("kvstore_compress", _through)


class Compressor:
    """What every sender of every key still owes.

    >>> Settings.of({"type": "2bit", "threshold": 0.25})
    Settings(kind='2bit', threshold=0.25)
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self._owed: dict[Any, Value] = {}
        statics = (("kind", settings.kind), ("threshold", settings.threshold))
        self._call = _COMPRESS.bind(statics)

    def through(self, key: Any, sender: int, value: Value) -> Value:
        """What arrives of a value; floating-point values only, others pass."""
        if not value.aval.differentiable:
            return value
        owed = self._owed.get((key, sender))
        if owed is None or owed.aval.shape != value.aval.shape:
            owed = _zeros(value)
        elif owed.aval.device is not value.aval.device:
            owed = core.placed(core.read(owed), value.aval.device, shared=False)
        sent, self._owed[key, sender] = core.record(self._call, (value, owed))
        return sent


class Packed(NamedTuple):
    """A gradient as it travels between processes.

    Attributes:
      how: its compression.
      words: `uint8`; of 2bit a quarter of a byte per element, of 1bit an eighth, of fp16 and bf16 two bytes.
    """

    how: Settings
    words: np.ndarray


class Packer:
    """Gradients of NumPy as they travel between processes, and what is owed of each.

    >>> packer = Packer(Settings("2bit", 0.5))
    >>> packer.pack("w", np.float32([0.7, -0.7, 0.2, 0.4, 0.9])).words.tolist()
    [224, 192]
    >>> packer.pack("w", np.float32([0, 0, 0.3, 0.1, 0])).words.tolist()  # owed: 0.2, -0.2, 0.2, 0.4, 0.4
    [15, 0]
    """

    def __init__(self, how: Settings):
        self.how = how
        self._owed: dict[Any, Any] = {}

    def codes(self, key: Any, gradient: np.ndarray) -> np.ndarray:
        """What is sent of a gradient, one number per element: the codes of `encode`, or halves."""
        owed = self._owed.get(key)
        if owed is None or owed.shape != gradient.shape:
            owed = np.zeros_like(gradient)
        with jax.enable_x64(True):
            sent, self._owed[key] = _coded(gradient, owed, *self.how)
        return np.asarray(sent)

    def pack(self, key: Any, gradient: np.ndarray) -> Packed:
        """What is sent of a gradient."""
        return Packed(self.how, as_words(self.codes(key, gradient), self.how.kind))


def as_words(codes: np.ndarray, kind: str) -> np.ndarray:
    """Bytes of what `Packer.codes` gave, or of a part of it."""
    if kind in _HALF:
        return np.ascontiguousarray(codes).reshape(-1).view(np.uint8)
    return np.asarray(_packed(codes.reshape(-1), kind))


def unpacked(how: Settings, words: Sequence[np.ndarray], like: np.ndarray) -> np.ndarray:
    """The sum of what was packed by several senders, added in their order, in a gradient's shape and dtype."""
    if how.kind in _HALF:
        words = [w.view(_HALF[how.kind]) for w in words]
    with jax.enable_x64(True):
        return np.asarray(_total(list(words), how, like.size, like.dtype)).reshape(like.shape)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _coded(gradient: Any, owed: Any, kind: str, threshold: float) -> tuple[jax.Array, jax.Array]:
    if kind not in _HALF:
        return encode(gradient, owed, kind, threshold)
    whole = owed + gradient
    sent = whole.astype(_HALF[kind])
    return sent, whole - sent.astype(gradient.dtype)


_packed = jax.jit(pack, static_argnums=1)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _total(words: list[Any], how: Settings, size: int, dtype: Any) -> jax.Array:
    def arrived(w: Any) -> jax.Array:
        if how.kind in _HALF:
            return w.astype(dtype)
        return decode(unpack(w, how.kind, size), how.kind, how.threshold, dtype)

    return functools.reduce(jnp.add, map(arrived, words))


def _zeros(like: Value) -> Value:
    aval = like.aval.on(None)
    return concrete(place(np.zeros(aval.shape, aval.dtype), aval.device), shared=False, of=aval)
