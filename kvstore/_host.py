"""Sums in the host's memory, which all CPU devices share: no device sends anything."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import settings

from ._priority import workers

PIECE = (
    1 << 15
)  # elements at a time: what is summed stays in a core's cache until all parts are added
ALIGNMENT = 64  # what XLA wants of a buffer that it takes over without a copy

Piece = tuple[np.ndarray, list[np.ndarray]]


class Pool:
    """Memory for results, used again once nobody holds an array in it."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self.lock = (
            threading.Lock()
        )  # from taking a block until a view of it says that it is in use

    def take(self, size: int) -> np.ndarray:
        """So many bytes, which begin where XLA takes memory as it is; free again when no view is left."""
        whole = size + ALIGNMENT
        free = [b for b in range(len(self._blocks)) if self._unused(b)]
        for b in free:
            if whole <= self._blocks[b].nbytes <= 2 * whole:
                return _aligned(self._blocks[b], size)
        for b in reversed(free):
            del self._blocks[b]
        block = np.empty(whole, np.uint8)
        self._blocks.append(block)
        return _aligned(block, size)

    def _unused(self, b: int) -> bool:
        return sys.getrefcount(self._blocks[b]) <= _UNUSED


def aligned(size: int, dtype: np.dtype) -> np.ndarray:
    """A new array of so many elements that begins where XLA takes memory as it is."""
    width = size * dtype.itemsize
    return _aligned(np.empty(width + ALIGNMENT, np.uint8), width).view(dtype)


def _aligned(block: np.ndarray, size: int) -> np.ndarray:
    first = -block.ctypes.data % ALIGNMENT
    return block[first : first + size]


def _calibrate() -> int:
    blocks = [np.empty(1, np.uint8)]
    return sys.getrefcount(blocks[0])


_UNUSED = _calibrate()


def sums(groups: Sequence[Sequence[np.ndarray]], pool: Pool, priority: int = 0) -> list[np.ndarray]:
    """The sum of each group of arrays of one shape and dtype, added in the order given.

    Arrays that together reach ``comm.bigarray_bound`` elements are shared out in ``comm.reduce_threads``
    parts between the threads of ``engine.priority_threads``; the numbers do not depend on it. Sums of a
    larger priority, which other threads of the program asked for, come first.
    """
    with pool.lock:
        results = _views(groups, pool)
    pieces: list[Piece] = []
    total = 0
    for out, parts in zip(results, groups, strict=True):
        flat, flats = out.reshape(-1), [p.reshape(-1) for p in parts]
        total += flat.size
        for start in range(0, flat.size, PIECE):
            cut = slice(start, start + PIECE)
            pieces.append((flat[cut], [f[cut] for f in flats]))
    threads = settings.get("comm.reduce_threads")
    if threads > 1 and total >= settings.get("comm.bigarray_bound"):
        shares = [pieces[k::threads] for k in range(threads)]
        for part in [workers(threads).submit(priority, add, share) for share in shares]:
            part.result()
    else:
        add(pieces)
    return results


def add(pieces: Sequence[Piece]) -> None:
    """Write the sums of one thread's share."""
    for out, parts in pieces:
        if len(parts) == 1:
            np.copyto(out, parts[0])
            continue
        np.add(parts[0], parts[1], out=out)
        for part in parts[2:]:
            np.add(out, part, out=out)


def _views(groups: Sequence[Sequence[np.ndarray]], pool: Pool) -> list[np.ndarray]:
    """Aligned arrays for the results, one after the other in one block."""
    places, size = [], 0
    for group in groups:
        places.append(size)
        size += -(-group[0].nbytes // ALIGNMENT) * ALIGNMENT
    block = pool.take(size)
    return [
        block[at : at + g[0].nbytes].view(g[0].dtype).reshape(g[0].shape)
        for at, g in zip(places, groups, strict=True)
    ]


def on_devices(arrays: Sequence[np.ndarray], devices: Sequence[Any]) -> list[list[jax.Array]]:
    """Each array on each of the devices; on CPU devices they are one and the same memory."""
    with jax.enable_x64(True):
        copies = jax.device_put(list(arrays), _everywhere(tuple(devices)))
    shards = [{s.device: s.data for s in c.addressable_shards} for c in copies]
    return [[on[d] for d in devices] for on in shards]


@functools.cache
def _everywhere(devices: tuple[Any, ...]) -> NamedSharding:
    mesh = Mesh(np.array(devices), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    return NamedSharding(mesh, PartitionSpec())
