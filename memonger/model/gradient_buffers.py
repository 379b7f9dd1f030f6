"""Arrays that reuse the buffer of a parameter's gradient that is not written yet."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple


class LiveRange(NamedTuple):
    """An array of so many bytes, in memory from one moment to another (inclusive)."""

    key: Hashable
    start: int
    end: int
    nbytes: int


def reusing(ranges: Iterable[LiveRange], gradients: Iterable[tuple[int, int]]) -> set[Hashable]:
    """The keys of the arrays that take no bytes of their own.

    Gradients of parameters are results of a program; until one is written its buffer holds other arrays, one
    at a time. As XLA's buffer assignment does, the largest array goes first, each into the smallest buffer
    that is free as long as it lives.

    Args:
      gradients: bytes of a gradient, and the moment at which it is written.
    """
    buffers = sorted(gradients)
    placed: list[list[LiveRange]] = [[] for _ in buffers]
    found: set[Hashable] = set()
    for array in sorted(ranges, key=lambda a: (-a.nbytes, a.start)):
        for (nbytes, written), here in zip(buffers, placed, strict=True):
            if (
                0 < array.nbytes <= nbytes
                and array.end < written
                and all(array.end < other.start or other.end < array.start for other in here)
            ):
                here.append(array)
                found.add(array.key)
                break
    return found
