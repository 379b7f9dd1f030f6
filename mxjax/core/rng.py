"""Random keys: every random operator takes one as an input."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .value import Dynamic, Value, placed


def _key_words(seed: int) -> Any:
    if jax.config.jax_default_prng_impl == "threefry2x32":  # type: ignore[attr-defined]
        return np.array([0, seed & 0xFFFFFFFF], np.uint32)  # what JAX compiles two programs for
    with jax.ensure_compile_time_eval():
        return jax.random.key_data(jax.random.key(seed & 0xFFFFFFFF))


class Stream:
    """The random numbers of one device: a seed key and a counter.

    The n-th random call of a device uses the seed's key folded with n, whether it runs by itself, in a
    segment, or inside a hybridized block. So the same seed gives the same numbers in each of them.
    """

    __slots__ = ("count", "key", "lock")

    def __init__(self, seed: int, device: Any):
        self.lock = threading.Lock()
        self.count = 0
        self.key = placed(_key_words(seed), device, shared=True)

    def take(self, n: int = 1) -> int:
        """Reserve ``n`` counts; the first of them."""
        with self.lock:
            first = self.count
            self.count += n
        return first


_streams: dict[Any, Stream] = {}
_seed: list[int | None] = [None]


def stream(device: Any) -> Stream:
    found = _streams.get(device)
    if found is None:
        seed = _seed[0]
        if seed is None:
            seed = _seed[0] = secrets.randbits(32)
        found = _streams.setdefault(device, Stream(seed + _number(device), device))
    return found


def _number(device: Any) -> int:
    """The device's place in its own process: a seed gives the same numbers in every process."""
    own = getattr(device, "local_hardware_id", None)
    return int(getattr(device, "id", 0) if own is None else own)


def seed(value: int, device: Any = None) -> None:
    """Start the streams of all devices, or of one, again."""
    if device is not None:
        _streams[device] = Stream(value, device)
        return
    _seed[0] = value
    _streams.clear()


# While a graph is recorded, its random calls take their counts from here: one list a thread.
_recording = threading.local()


class GraphStream:
    """Random counts inside a graph being recorded: the graph's first count is an input of it."""

    def __init__(self, key: Value, base: Value):
        self.key = key
        self.base = base
        self.used = 0

    def __enter__(self) -> GraphStream:
        self._outer = getattr(_recording, "now", None)
        _recording.now = self
        return self

    def __exit__(self, *exc: object) -> None:
        _recording.now = self._outer


def operands(device: Any, n: int = 1) -> tuple[Any, ...]:
    """What a random call takes first: the key's words, the count, and an offset to it; reserves ``n`` counts."""
    now = getattr(_recording, "now", None)
    if now is not None:
        now.used += n
        return now.key, now.base, Dynamic(now.used - n)
    s = stream(device)
    return s.key, Dynamic(s.take(n)), Dynamic(0)


def key(device: Any) -> Value:
    """The words of the key that random calls take at this moment."""
    now = getattr(_recording, "now", None)
    return stream(device).key if now is None else now.key


class suspended:
    """Draw from the device's own stream although a graph is being recorded."""

    def __enter__(self) -> None:
        self._outer = getattr(_recording, "now", None)
        _recording.now = None

    def __exit__(self, *exc: object) -> None:
        _recording.now = self._outer


def key_of(words: Any, count: Any, offset: Any) -> Any:
    """The JAX key a random operator draws from."""
    return jax.random.fold_in(jax.random.wrap_key_data(words), (count + offset).astype(jnp.uint32))
