"""Random numbers of JAX's keys, for functions that run inside programs and, one picture at a time, on the host.

There a key is a `HostKey`: Python works out the same few numbers (normal ones to rounding) without a program, and only
those that are asked for.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.compile.cpu_code import erf_inv_of
from ..core.interpret.numpy_random import pair


class HostKey:
    """A Threefry key made of another and a count, as JAX folds a count in and as it splits keys."""

    __slots__ = ("_count", "_of", "_words")

    def __init__(self, of: HostKey | tuple[int, int], count: int):
        self._of, self._count = of, count
        self._words: tuple[int, int] | None = None

    def pair(self, k: int) -> tuple[int, int]:
        """The two numbers of 32 bits that the key gives for a count."""
        if self._words is None:
            of, count = self._of, self._count & 0xFFFFFFFF
            self._words = of.pair(count) if isinstance(of, HostKey) else pair(*of, 0, count)
        return pair(*self._words, 0, k)

    def bits(self, k: int) -> int:
        """The k-th number of 32 random bits."""
        x, y = self.pair(k)
        return x ^ y

    def uniform(self, k: int, low: Any, high: Any) -> np.float32:
        """The k-th number between two others."""
        low, high = np.float32(low), np.float32(high)
        part = np.float32((self.bits(k) >> 9) * 2.0**-23)
        return max(low, np.float32(part * (high - low) + low))


def split(key: Any, n: int = 2) -> Any:
    """So many keys of one."""
    return (
        [HostKey(key, k) for k in range(n)]
        if isinstance(key, HostKey)
        else jax.random.split(key, n)
    )


def uniform(key: Any, low: Any = 0.0, high: Any = 1.0, k: int = 0) -> Any:
    """A number of float32 between two others: the k-th that the key gives, which on the host alone may be asked for."""
    if isinstance(key, HostKey):
        return key.uniform(k, low, high)
    return jax.random.uniform(key, (), jnp.float32, low, high)


def bernoulli(key: Any, p: Any) -> Any:
    """Whether something of probability ``p`` happens, which is a number of 64 bits in programs."""
    if not isinstance(key, HostKey):
        return jax.random.bernoulli(key, p)
    x, y = key.pair(0)
    return (x << 32 | y) >> 12 < p * 2.0**52


def normal(key: Any, n: int) -> Any:
    """So many normal numbers of float32."""
    if not isinstance(key, HostKey):
        return jax.random.normal(key, (n,), jnp.float32)
    return np.array(
        [math.sqrt(2) * erf_inv_of(float(key.uniform(k, _LEAST, 1))) for k in range(n)], np.float32
    )


_LEAST = np.nextafter(np.float32(-1), np.float32(0))


def permutation(key: Any, n: int) -> Any:
    """The numbers below ``n`` (some few) in random order."""
    if not isinstance(key, HostKey):
        return jax.random.permutation(key, n)
    bits = [HostKey(key, 1).bits(k) for k in range(n)]
    return sorted(range(n), key=bits.__getitem__)
