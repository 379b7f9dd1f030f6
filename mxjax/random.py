"""Random numbers: seeding."""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager
from typing import Any

from .core import rng
from .device import Device
from .errors import MALFORMED, FormatError, MXNetValueError

__all__ = ["get_state", "seed", "set_state", "use_key"]


def seed(seed_state: int, device: Device | str = "all", ctx: Any = None) -> None:
    """Start the random numbers of all devices (or of one) again.

    The same seed gives the same numbers, run imperatively, in bulk or hybridized; devices differ from
    each other.

    Args:
      seed_state: the number that streams begin with.
      device: whose numbers start again; "all" for those of all devices.
      ctx: MXNet 1's name of `device`.

    Raises:
      ValueError: the seed is no integer.
    """
    try:
        number = operator.index(seed_state)
    except TypeError:
        raise MXNetValueError(
            f"seed_state must be int, got {seed_state!r} ({type(seed_state).__name__}): "
            "convert it with int(...)"
        ) from None
    where = ctx if ctx is not None else device
    if where == "all":
        rng.seed(number)
    else:
        rng.seed(number, Device(where).placement)


def use_key(key: Any) -> AbstractContextManager[Any]:
    """Within ``with``, random numbers of this thread are drawn from a key of JAX instead of the devices' streams.

    So a function that draws is pure: under `jax.jit` its numbers change with the key. The n-th random call takes the
    key folded with n, as with ``mx.random.seed(s)`` for ``jax.random.key(s)``.

    Args:
      key: one key, ``jax.random.key(0)`` or words of uint32; it may be a tracer.

    Returns:
      context manager: within it numbers are drawn from the key.

    Raises:
      TypeError: it is no key.

    >>> import jax, mxjax as mx
    >>> @jax.jit
    ... def noisy(key, x):
    ...     with mx.random.use_key(key):
    ...         return x + mx.np.random.normal(size=x.shape)
    >>> one, other = map(jax.random.key, (0, 1))
    >>> x = mx.np.zeros(3)
    >>> bool((noisy(one, x) == noisy(one, x)).all()), bool((noisy(one, x) == noisy(other, x)).any())
    (True, False)
    """
    return rng.Keyed(key)


def get_state() -> dict[str, Any]:
    """Where the random numbers of all devices are, as plain data (numbers, texts, dictionaries, lists).

    NumPy's and Python's own generators are not in it; `gluon.save_checkpoint` keeps them too.

    Returns:
      dict: what `set_state` takes.
    """
    return rng.state()


def set_state(state: dict[str, Any]) -> None:
    """Let random numbers go on from where `get_state` was called, in this process or in another.

    Args:
      state: what `get_state` gave.

    Raises:
      FormatError: it is nothing that `get_state` gives.

    >>> import mxjax as mx
    >>> before = get_state()
    >>> first = mx.np.random.uniform(size=3)
    >>> set_state(before)
    >>> bool((mx.np.random.uniform(size=3) == first).all())
    True
    """
    try:
        rng.restore(state)
    except MALFORMED as error:
        raise FormatError(f"not a state returned by get_state(): {error!r}") from None


def __getattr__(name: str) -> Any:
    # The distributions of mx.random are those of mx.nd.random, which is made from the table.
    if name.startswith("_"):
        raise AttributeError(f"module 'mxjax.random' has no attribute {name!r}")
    from .nd import random as distributions

    return getattr(distributions, name)
