"""Random keys: every random operator takes one as an input."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..scopes import Scope
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

    __slots__ = ("count", "key", "lock", "seed")

    def __init__(self, seed: int, device: Any, count: int = 0):
        self.lock = threading.Lock()
        self.seed = seed
        self.count = count
        self.key = placed(_key_words(seed), device, shared=True)

    def take(self, n: int = 1) -> int:
        """Reserve ``n`` counts; the first of them."""
        with self.lock:
            first = self.count
            self.count += n
        return first


_streams: dict[Any, Stream] = {}
_seed: list[int | None] = [None]
#: What `restore` was given, by a device's name, until the device is asked for numbers.
_restored: dict[str, tuple[int, int]] = {}


def stream(device: Any) -> Stream:
    found = _streams.get(device)
    if found is None:
        seed = _seed[0]
        if seed is None:
            seed = _seed[0] = secrets.randbits(32)
        own, count = _restored.get(_name(device), (seed + _number(device), 0))
        found = _streams.setdefault(device, Stream(own, device, count))
    return found


def _name(device: Any) -> str:
    """A device's name, which is the same in every process."""
    return f"{device.platform}({_number(device)})" if hasattr(device, "local_hardware_id") else repr(device)


def state() -> dict[str, Any]:
    """Where all streams are: the seed, and for each device in use its own seed and count."""
    used = {_name(device): (each.seed, each.count) for device, each in _streams.items()}
    return {"seed": _seed[0], "devices": {**_restored, **used}}


def restore(saved: dict[str, Any]) -> None:
    """Go on where `state` was asked for, perhaps in another process."""
    devices = {str(name): (int(own), int(count)) for name, (own, count) in saved["devices"].items()}
    if any(not 0 <= count < 1 << 62 for _, count in devices.values()):
        raise ValueError("a count of random numbers that is out of range")
    seed = None if saved["seed"] is None else int(saved["seed"])
    _seed[0] = seed
    _streams.clear()
    _restored.clear()
    _restored.update(devices)


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
    _restored.clear()


# While a graph is recorded, its random calls take their counts from here: one list a thread.
_recording = threading.local()


class GraphStream(Scope):
    """Random counts inside a graph being recorded: the graph's first count is an input of it."""

    def __init__(self, key: Value, base: Value):
        self.key = key
        self.base = base
        self.used = 0

    def _now(self) -> GraphStream | None:
        return getattr(_recording, "now", None)

    def _set(self) -> GraphStream:
        _recording.now = self
        return self

    def _give_back(self, before: GraphStream | None, broken: bool) -> None:
        _recording.now = before


def operands(device: Any, n: int = 1) -> tuple[Any, ...]:
    """What a random call takes first: the key's words, the count, and an offset to it; reserves ``n`` counts."""
    now = getattr(_recording, "now", None)
    if now is not None:
        now.used += n
        return now.key, now.base, Dynamic(now.used - n)
    s = stream(device)
    return s.key, Dynamic(s.take(n)), Dynamic(0)


def drawn_here(device: Any) -> tuple[int, int] | None:
    """The seed and the count of the device's next random call, for who computes it on the host; reserves the count.

    None where keys are not Threefry's of the newer form, which Python knows (`numpy_random`).
    """
    config: Any = jax.config
    if config.jax_default_prng_impl != "threefry2x32" or not config.jax_threefry_partitionable:
        return None
    s = stream(device)
    return s.seed & 0xFFFFFFFF, s.take()


def key(device: Any) -> Value:
    """The words of the key that random calls take at this moment."""
    now = getattr(_recording, "now", None)
    return stream(device).key if now is None else now.key


class suspended(Scope):
    """Draw from the device's own stream although a graph is being recorded."""

    def _now(self) -> GraphStream | None:
        return getattr(_recording, "now", None)

    def _set(self) -> None:
        _recording.now = None

    def _give_back(self, before: GraphStream | None, broken: bool) -> None:
        _recording.now = before


def key_of(words: Any, count: Any, offset: Any) -> Any:
    """The JAX key a random operator draws from."""
    return jax.random.fold_in(jax.random.wrap_key_data(words), (count + offset).astype(jnp.uint32))
