"""Random bits of JAX in NumPy, the same to the last bit: the Threefry generator and what keys go through.

A key is one whole number of 64 bits here, so that arrays of keys are sliced and reshaped as arrays are.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from ... import settings
from ..compile import cpu_code
from ..run import choice, constants, forks
from . import numpy_shared
from .numpy_rules import NotHere, Op, Rule, dtype_out

_mode = settings.snapshot("engine.cold")

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_LOW = 0xFFFFFFFF
#: So many pairs at a time stay in a core's cache: 13 ns each with AVX-512, 24 with AVX2.
_BLOCK = 1 << 15


def pair(k1: int, k2: int, x: int, y: int) -> tuple[int, int]:
    """Threefry of one pair, in Python's whole numbers."""
    ks = (k1, k2, k1 ^ k2 ^ _PARITY)
    x, y = (x + k1) & _LOW, (y + k2) & _LOW
    for i in range(5):
        for r in _ROTATIONS[i & 1]:
            x = (x + y) & _LOW
            y = (((y << r) | (y >> (32 - r))) & _LOW) ^ x
        x = (x + ks[(i + 1) % 3]) & _LOW
        y = (y + ks[(i + 2) % 3] + i + 1) & _LOW
    return x, y


def threefry(k1: Any, k2: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Threefry of pairs of uint32 under keys of two uint32; the operands broadcast."""
    k1, k2, x, y = operands = tuple(map(np.asarray, (k1, k2, x, y)))
    shape = np.broadcast_shapes(*[a.shape for a in operands])
    n = math.prod(shape)
    if n <= _BLOCK:
        return _rounds(k1, k2, x, y, shape)
    flat = [
        a.reshape(()) if a.size == 1 else np.broadcast_to(a, shape).reshape(-1) for a in operands
    ]
    found = np.empty((2, n), np.uint32)
    for start in range(0, n, _BLOCK):
        part = found[:, start : start + _BLOCK]
        a, b, c, d = [a[start : start + _BLOCK] if a.shape else a for a in flat]
        part[0], part[1] = _rounds(a, b, c, d, part.shape[1:])
    return found[0].reshape(shape), found[1].reshape(shape)


def _rounds(k1: Any, k2: Any, x: Any, y: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    ks = (k1, k2, k1 ^ k2 ^ np.uint32(_PARITY))
    x, y = np.array(np.broadcast_to(x + k1, shape)), np.array(np.broadcast_to(y + k2, shape))
    turned = np.empty_like(y)
    for i in range(5):
        for r in _ROTATIONS[i & 1]:
            x += y
            np.right_shift(y, 32 - r, out=turned)
            np.left_shift(y, r, out=y)
            y |= turned
            y ^= x
        x += ks[(i + 1) % 3]
        y += ks[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _counts(n: int) -> tuple[Any, Any]:
    if n >> 32:
        raise NotHere("more random numbers than 32 bits can count")
    return np.zeros(1, np.uint32), np.arange(n, dtype=np.uint32)


def _of_key(key: Any, n: int) -> tuple[Any, Any]:
    """The pairs of numbers that a key gives for the counts up to n."""
    key = int(key)
    if n <= 4:
        pairs = [pair(key >> 32, key & _LOW, 0, k) for k in range(n)]
        x, y = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(x, np.uint32), np.array(y, np.uint32)
    return threefry(np.uint32(key >> 32), np.uint32(key & _LOW), *_counts(n))


def _check(eqn: Any) -> None:
    if not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        raise NotHere("random bits of the older form")
    for v in (*eqn.invars, *eqn.outvars):
        impl = getattr(v.aval.dtype, "_impl", None)
        if impl is not None and (
            impl.tag != "fry" or (v.aval.shape and eqn.primitive.name != "random_split")
        ):
            raise NotHere("keys of another kind, or many at once")


#: How many numbers NumPy has drawn that a program could have.
_drawn = [0]


@numpy_shared.Programs
def _program(k1: Any, k2: Any, first: Any) -> Any:
    """The next `_BLOCK` bits of a key."""
    counts = first + jax.numpy.arange(_BLOCK, dtype=np.uint32)
    x, y = cpu_code.threefry(k1, k2, np.uint32(0), counts)
    return x ^ y


def _by_program(key: Any, n: int) -> Any:
    """Many bits of 32, or None where NumPy draws them: until that has paid for the program."""
    if n < _BLOCK or forks.forked[0] or _mode() == "interpret":
        return None
    if not choice.buys_function(_drawn[0] + n, constants.DRAWN):
        _drawn[0] += n
        return None
    words = [np.uint32(int(key) >> 32), np.uint32(int(key) & _LOW)]
    made = np.empty(n, np.uint32)
    with numpy_shared.apart():
        for start in range(0, n, _BLOCK):
            part = made[start : start + _BLOCK]
            part[:] = np.asarray(_program(*words, np.uint32(start)))[: len(part)]
    return made


def _bits(eqn: Any) -> Op:
    _check(eqn)
    width = eqn.params["bit_width"]
    dtype = dtype_out(eqn)

    def bits(key: Any, shape: tuple[int, ...]) -> Any:
        n = math.prod(shape)
        if width == 32 and (found := _by_program(key, n)) is not None:
            return found.reshape(shape)
        x, y = _of_key(key, n)
        if width == 64:
            made = (x.astype(np.uint64) << np.uint64(32)) | y
        else:
            made = (x ^ y).astype(dtype, copy=False)
        return made.reshape(shape)

    return Op(bits, (tuple(eqn.params["shape"]),))


def _joined(x: Any, y: Any) -> Any:
    return (x.astype(np.uint64) << np.uint64(32)) | y


def _split(eqn: Any) -> Op:
    _check(eqn)

    def split(key: Any, shape: tuple[int, ...]) -> Any:
        return _joined(*_of_key(key, math.prod(shape))).reshape(shape)

    return Op(split, (tuple(eqn.params["shape"]),))


def _fold_in(eqn: Any) -> Op:
    _check(eqn)

    def fold_in(key: Any, data: Any) -> Any:
        key = int(key)
        x, y = pair(key >> 32, key & _LOW, 0, int(data) & _LOW)
        return np.uint64(x << 32 | y)

    return Op(fold_in)


def _wrap(eqn: Any) -> Op:
    if eqn.params["impl"].tag != "fry":
        raise NotHere("keys of another kind")
    return Op(lambda x: _joined(x[..., 0], x[..., 1]))


def _unwrap(eqn: Any) -> Op:
    return Op(lambda x: np.stack([np.right_shift(x, np.uint64(32)), x], -1).astype(np.uint32))


def _seed(eqn: Any) -> Op:
    _check(eqn)
    return Op(
        lambda x: np.uint64(int(x) & 0xFFFFFFFFFFFFFFFF if x.dtype.itemsize == 8 else int(x) & _LOW)
    )


RANDOM: dict[str, Rule] = {
    "random_bits": _bits, "random_fold_in": _fold_in, "random_seed": _seed, "random_split": _split,
    "random_unwrap": _unwrap, "random_wrap": _wrap, "threefry2x32": lambda eqn: Op(threefry, many=True),
}  # fmt: skip
