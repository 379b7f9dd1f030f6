"""Which arrays wait in the room of a parameter's gradient that is not written yet."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple


class Stay(NamedTuple):
    """An array of so many bytes, in memory from one moment to another (inclusive)."""

    key: Hashable
    start: int
    end: int
    nbytes: int


def lodged(stays: Iterable[Stay], rooms: Iterable[tuple[int, int]]) -> set[Hashable]:
    """The keys of the arrays that take no bytes of their own.

    Gradients of parameters are results of a program; until one is written its room holds other arrays, one
    at a time. As XLA's buffer assignment does, the largest array goes first, each into the smallest room
    that is free as long as it stays.

    Args:
      rooms: bytes of a gradient, and the moment at which it is written.
    """
    ordered = sorted(rooms)
    guests: list[list[Stay]] = [[] for _ in ordered]
    found: set[Hashable] = set()
    for stay in sorted(stays, key=lambda s: (-s.nbytes, s.start)):
        for (nbytes, written), here in zip(ordered, guests, strict=True):
            if (
                0 < stay.nbytes <= nbytes
                and stay.end < written
                and all(stay.end < g.start or g.end < stay.start for g in here)
            ):
                here.append(stay)
                found.add(stay.key)
                break
    return found
