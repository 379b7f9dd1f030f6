"""Where the keys of the asynchronous store live: whole on one server, big ones cut along their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mxjax.array import to_value
from mxjax.array.classes import ndarray
from mxjax.optimizer import Optimizer, saving

__all__ = ["Part", "Place", "Shards"]


class Part(NamedTuple):
    """The rows from `start` up to `stop` of a key, on one server."""

    server: int
    start: int
    stop: int


class Place(NamedTuple):
    """A key's shape and dtype, and its parts in the order of their rows; one part is the whole."""

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[Part, ...]

    def split(self, array: Any) -> list[Any]:
        """The part of an array of the key's shape for each server."""
        if len(self.parts) == 1:
            return [array]
        return [array[p.start : p.stop] for p in self.parts]

    def join(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The whole of what `split` gave."""
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def local(self, ids: np.ndarray) -> list[np.ndarray]:
        """Ascending row numbers as each server counts its own."""
        if len(self.parts) == 1:
            return [ids]
        return [ids[(ids >= p.start) & (ids < p.stop)] - p.start for p in self.parts]


class Shards:
    """Says for each new key where it lives; the same on all workers, which add the same keys in one order.

    Args:
      servers: how many servers there are.
      bound: arrays of at least so many elements are cut evenly along their first axis, one part for each server.

    >>> shards = Shards(2, 10)
    >>> [shards.add((3,), "f4").parts, shards.add((5, 4), "f4").parts]
    [(Part(server=0, start=0, stop=3),), (Part(server=0, start=0, stop=2), Part(server=1, start=2, stop=5))]
    """

    def __init__(self, servers: int, bound: int):
        self._loads = [0] * servers
        self._bound = bound

    def add(self, shape: tuple[int, ...], dtype: Any) -> Place:
        """The place of a new key: whole keys go where the fewest bytes are."""
        dtype, count = np.dtype(dtype), len(self._loads)
        rows = shape[0] if shape else 1
        size = math.prod(shape)
        if size >= self._bound and rows >= count > 1:
            cuts = [rows * k // count for k in range(count + 1)]
            parts = tuple(Part(k, cuts[k], cuts[k + 1]) for k in range(count))
        else:
            parts = (Part(self._loads.index(min(self._loads)), 0, rows),)
        for part in parts:
            self._loads[part.server] += (
                size // max(rows, 1) * (part.stop - part.start) * dtype.itemsize
            )
        return Place(tuple(shape), dtype, parts)


# ---- the optimizer's states ------------------------------------------------------------------------------


def joined(
    states: Sequence[bytes], places: dict[Any, Place], optimizer: Optimizer, whole: bool
) -> bytes:
    """The states of all servers as those of one store, which any number of servers can load."""
    found = []
    counts: dict[Any, dict[Any, int]] = {}
    for text in states:
        own, optimizer = saving.loads(text, optimizer)
        found.append(own)
        for device, numbers in optimizer.update_counts.items():
            counts.setdefault(device, {}).update(numbers)
    optimizer.update_counts = counts
    merged = {}
    for key, place in places.items():
        parts = [found[p.server][key] for p in place.parts if key in found[p.server]]
        if parts:
            merged[key] = _leaves(partial(_joined, place), *parts)
    return saving.dumps(merged, optimizer if whole else None)


def parted(
    states: bytes, places: dict[Any, Place], optimizer: Optimizer, servers: int
) -> tuple[list[bytes], Optimizer]:
    """States for each server of what `joined` or another store wrote, and the optimizer to go on with."""
    found, revived = saving.loads(states, optimizer)
    own: list[dict[Any, Any]] = [{} for _ in range(servers)]
    for key, state in found.items():
        place = places.get(key)
        if place is None:
            continue
        for k, part in enumerate(place.parts):
            own[part.server][key] = _leaves(partial(_part, place, k), state)
    return [saving.dumps(s, revived) for s in own], revived


def _leaves(work: Callable[..., Any], first: Any, *others: Any) -> Any:
    if isinstance(first, (tuple, list)):
        return tuple(_leaves(work, *leaves) for leaves in zip(first, *others, strict=True))
    return None if first is None else work(first, *others)


def _joined(place: Place, *leaves: Any) -> Any:
    if (
        len(leaves) == 1
        or leaves[0].shape[1:] != place.shape[1:]
        or leaves[0].ndim != len(place.shape)
    ):
        return leaves[0]
    return ndarray._wrap(to_value(place.join([leaf.asnumpy() for leaf in leaves])))


def _part(place: Place, k: int, leaf: Any) -> Any:
    if len(place.parts) == 1 or leaf.shape != place.shape:
        return leaf
    return ndarray._wrap(to_value(place.split(leaf.asnumpy())[k]))
