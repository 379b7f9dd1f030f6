"""Random keys: every random operator takes one as an input."""

from __future__ import annotations

import secrets
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import errors
from ...scopes import Scope
from ..graph.jaxprs import is_shared_out, is_staged
from .value import Dynamic, Value, placed, traced


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
    """What random calls on a device draw from now: the user's own key (`Keyed`), or the device's stream."""
    keyed = getattr(_recording, "keyed", None)
    return own_stream(device) if keyed is None else keyed.stream(device)


def own_stream(device: Any) -> Stream:
    """The stream of a device, which `seed` starts."""
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
    return (
        f"{device.platform}({_number(device)})"
        if hasattr(device, "local_hardware_id")
        else repr(device)
    )


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


# What a thread's random calls take their keys and counts from, where that is not the device's stream. ``now``: of the
# graph that is recorded; ``keyed``: the user's own key; ``outside``: what is drawn is to stay as it is.
_recording = threading.local()


class Keyed(Scope):
    """Random calls draw from one key of JAX, a concrete one or a tracer: the n-th takes the key folded with n.

    So ``jax.random.key(s)`` gives the numbers that ``mx.random.seed(s)`` gives on the first device. Without a key
    whoever draws gets the error of ``refused``.
    """

    def __init__(self, key: Any, refused: str = ""):
        self.words = np.zeros_like(_key_words(0)) if key is None else words_of(key)
        self.traced = key is None or isinstance(self.words, jax.core.Tracer)
        self.used = 0
        self._refused = refused if key is None else None
        self._streams: dict[Any, Stream] = {}

    def stream(self, device: Any, idle: bool = False) -> Stream:
        """The stream of a device; ``idle``: nothing is drawn."""
        if self._refused is not None and not idle:
            raise errors.MXNetValueError(self._refused)
        found = self._streams.get(device)
        if found is None:
            found = self._streams[device] = _OfKey(self, device)
        return found

    def _now(self) -> Keyed | None:
        return getattr(_recording, "keyed", None)

    def _set(self) -> Keyed:
        _recording.keyed = self
        return self

    def _give_back(self, before: Keyed | None, broken: bool) -> None:
        _recording.keyed = before


class _OfKey(Stream):
    """The stream of a `Keyed` on one device; all devices share the count, so that none repeats another's numbers."""

    __slots__ = ("_of",)

    def __init__(self, of: Keyed, device: Any):
        self.lock = threading.Lock()
        self._of = of
        within = isinstance(of.words, jax.core.Tracer) or is_shared_out()
        self.key = traced(of.words, device) if within else placed(of.words, device, shared=True)

    @property
    def count(self) -> int:
        return self._of.used

    @count.setter
    def count(self, n: int) -> None:
        self._of.used = n


def words_of(key: Any) -> Any:
    """The words of a key of JAX, typed or not, as keys of the default kind have them.

    Raises ``TypeError`` for anything else.
    """
    kind = getattr(key, "dtype", None)
    if kind is not None and jax.dtypes.issubdtype(kind, jax.dtypes.prng_key) and not key.shape:
        words = jax.random.key_data(key)
    elif kind == np.uint32 and key.ndim == 1:
        words = jnp.asarray(key)
    else:
        raise errors.MXNetTypeError(
            "random numbers are drawn from one key of JAX, as jax.random.key(0) gives it; got "
            f"{type(key).__name__}"
            + ("" if kind is None else f" of {kind} with shape {tuple(key.shape)}")
        )
    usual = _key_words(0).shape
    if words.shape != usual:  # a key of another generator
        words = jax.random.bits(key, usual, "uint32")
    return words


class GraphStream(Scope):
    """Random counts inside a graph being recorded: the graph's first count is an input of it."""

    def __init__(self, key: Value, base: Value):
        self.key = key
        self.base = base
        self.used = 0
        self.drawn = False  # some call does not only take a count, as Dropout does in prediction

    def _now(self) -> GraphStream | None:
        return getattr(_recording, "now", None)

    def _set(self) -> GraphStream:
        _recording.now = self
        return self

    def _give_back(self, before: GraphStream | None, broken: bool) -> None:
        _recording.now = before


def operands(
    device: Any,
    n: int = 1,
    draws: Callable[..., bool] | None = None,
    attrs: Sequence[tuple[str, Any]] = (),
) -> tuple[Any, ...]:
    """What a random call takes first: the key's words, the count, and an offset to it; reserves ``n`` counts.

    ``draws`` says of the call's attributes whether it draws at all (None: it does).
    """
    now = getattr(_recording, "now", None)
    if now is not None:
        now.used += n
        now.drawn = now.drawn or draws is None or draws(**dict(attrs))
        return now.key, now.base, Dynamic(now.used - n)
    keyed = getattr(_recording, "keyed", None)
    if keyed is not None:
        s = keyed.stream(device, draws is not None and not draws(**dict(attrs)))
    else:
        s = own_stream(device)
        if is_staged() and (draws is None or draws(**dict(attrs))):
            _tell_of_constants()
    return s.key, Dynamic(s.take(n)), Dynamic(0)


def _tell_of_constants() -> None:
    """Say once that numbers drawn while JAX traces a function are the same in each of its runs."""
    if not getattr(_recording, "outside", False):
        warnings.warn(
            "random numbers that are drawn while JAX traces a function (jax.jit, jax.lax.scan, ...) are constants of "
            "what it compiles: every call gets the same ones. Give the function a key, and draw from it: "
            "with mx.random.use_key(key): ..., or gluon.functional.call(..., rng=key)",
            stacklevel=4,
        )


def drawn_here(device: Any) -> tuple[int, int] | None:
    """The seed and the count of the device's next random call, for who computes it on the host; reserves the count.

    None where keys are not Threefry's of the newer form, which Python knows (`numpy_random`).
    """
    config: Any = jax.config
    if getattr(_recording, "keyed", None) is not None:
        return None
    if config.jax_default_prng_impl != "threefry2x32" or not config.jax_threefry_partitionable:
        return None
    s = stream(device)
    return s.seed & 0xFFFFFFFF, s.take()


def key(device: Any) -> Value:
    """The words of the key that random calls take at this moment."""
    now: GraphStream | None = getattr(_recording, "now", None)
    if now is not None:
        return now.key
    keyed = getattr(_recording, "keyed", None)
    return (own_stream(device) if keyed is None else keyed.stream(device, True)).key


class suspended(Scope):
    """Draw from the device's own stream although a graph is being recorded, or the user's key is a tracer."""

    def _now(self) -> tuple[GraphStream | None, Keyed | None, bool]:
        found = _recording
        return (
            getattr(found, "now", None),
            getattr(found, "keyed", None),
            getattr(found, "outside", False),
        )

    def _set(self) -> None:
        keyed = getattr(_recording, "keyed", None)
        _recording.now = None
        _recording.outside = True
        if keyed is not None and keyed.traced:
            _recording.keyed = None

    def _give_back(
        self, before: tuple[GraphStream | None, Keyed | None, bool], broken: bool
    ) -> None:
        _recording.now, _recording.keyed, _recording.outside = before


def key_of(words: Any, count: Any, offset: Any) -> Any:
    """The JAX key a random operator draws from."""
    return jax.random.fold_in(jax.random.wrap_key_data(words), (count + offset).astype(jnp.uint32))
