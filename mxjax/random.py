"""Random numbers: seeding."""

from __future__ import annotations

from typing import Any

from .core import rng
from .device import Device

__all__ = ["seed"]


def seed(seed_state: int, device: Device | str = "all", ctx: Any = None) -> None:
    """Start the random numbers of all devices (or of one) again.

    The same seed gives the same numbers, run imperatively, in bulk or hybridized; devices differ from
    each other.
    """
    where = ctx if ctx is not None else device
    if where == "all":
        rng.seed(int(seed_state))
    else:
        rng.seed(int(seed_state), Device(where).placement)


def __getattr__(name: str) -> Any:
    # The distributions of mx.random are those of mx.nd.random, which is made from the table.
    if name.startswith("_"):
        raise AttributeError(f"module 'mxjax.random' has no attribute {name!r}")
    from .nd import random as distributions

    return getattr(distributions, name)
