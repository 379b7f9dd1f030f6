"""Arrays laid end to end, in pieces of one size: what is sent is neither many small things nor one large one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ._host import ALIGNMENT, Pool

_ZEROS = np.zeros(ALIGNMENT, np.uint8)

#: The number of an array (-1: padding), and which of its elements.
Part = tuple[int, int, int]


class Pieces:
    """Flat arrays of one dtype as a stream of pieces, and their sums as it comes back.

    Args:
      flats: the arrays, of one dimension.
      piece: bytes of a piece, a power of two.
      pool: where the sums' memory comes from.

    Attributes:
      count: how many pieces there are.
    """

    def __init__(self, flats: Sequence[np.ndarray], piece: int, pool: Pool) -> None:
        self._flats = flats
        self._dtype = flats[0].dtype
        width = self._dtype.itemsize
        self._step = piece // width
        self._starts, self._parts = _layout(tuple(f.size for f in flats), self._step, width)
        self.count = len(self._parts)
        end = self._starts[-1] + flats[-1].size
        self._sums = pool.take(end * width).view(self._dtype)

    def fill(self, k: int, memory: np.ndarray) -> np.ndarray:
        """Write piece k to the beginning of some bytes; that beginning, as an array."""
        parts = [
            self._flats[f][start:stop] if f >= 0 else _ZEROS.view(self._dtype)[start:stop]
            for f, start, stop in self._parts[k]
        ]
        size = sum(p.size for p in parts)
        piece = memory[: size * self._dtype.itemsize].view(self._dtype)
        return np.concatenate(parts, out=piece)

    def given(self, k: int, memory: np.ndarray) -> np.ndarray:
        """Piece k, where it lies already if it is part of one array, else in these bytes."""
        if len(self._parts[k]) > 1:
            return self.fill(k, memory)
        f, start, stop = self._parts[k][0]
        return self._flats[f][start:stop]

    def take(self, k: int, total: np.ndarray) -> None:
        """The sum of piece k."""
        start = k * self._step
        np.copyto(self._sums[start : start + total.size], total)

    def sums(self) -> list[np.ndarray]:
        """The sum of each array, once those of all pieces are there."""
        return [
            self._sums[start : start + f.size]
            for start, f in zip(self._starts, self._flats, strict=True)
        ]


@functools.lru_cache(maxsize=256)
def _layout(sizes: tuple[int, ...], step: int, width: int) -> tuple[list[int], list[list[Part]]]:
    """Where each array begins (where XLA takes memory as it is), and the parts of each piece."""
    unit = max(ALIGNMENT // width, 1)
    starts: list[int] = []
    pieces: list[list[Part]] = []
    at = 0

    def add(f: int, size: int) -> None:
        nonlocal at
        done = 0
        while done < size:
            if at % step == 0:
                pieces.append([])
            stop = min(size, done + step - at % step)
            pieces[-1].append((f, done, stop))
            at += stop - done
            done = stop

    for f, size in enumerate(sizes):
        add(-1, -at % unit)
        starts.append(at)
        add(f, size)
    return starts, pieces
