"""Arrays laid end to end, in pieces of one size: what is sent is neither many small things nor one large one.

`Pieces` come back as sums, of whole arrays or of the part of each that this process wants; `Parts` come back
as the whole arrays that the parts of all processes make.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterator, Sequence

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
      wanted: which elements of each array's sum are wanted: from (inclusive), to (exclusive); by default all.

    Attributes:
      count: how many pieces there are.
    """

    def __init__(
        self, flats: Sequence[np.ndarray], piece: int, pool: Pool,
        wanted: Sequence[tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self._flats = flats
        self._dtype = flats[0].dtype
        width = self._dtype.itemsize
        self._step = piece // width
        self._starts, self._parts = _layout(tuple(f.size for f in flats), self._step, width)
        self.count = len(self._parts)
        self._wanted = wanted
        sizes = (
            [f.size for f in flats] if wanted is None else [stop - start for start, stop in wanted]
        )
        # Whole sums lie as the pieces do, so that a piece is one copy.
        places = self._starts if wanted is None else _layout(tuple(sizes), self._step, width)[0]
        block = pool.take((places[-1] + sizes[-1]) * width).view(self._dtype)
        self._block = block
        self._sums = [block[at : at + n] for at, n in zip(places, sizes, strict=True)]

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
        if self._wanted is None:
            start = k * self._step
            np.copyto(self._block[start : start + total.size], total)
            return
        for f, at, start, stop in _overlaps(self._parts[k], self._wanted):
            first = self._wanted[f][0]
            np.copyto(self._sums[f][start - first : stop - first], total[at : at + stop - start])

    def sums(self) -> list[np.ndarray]:
        """What is wanted of the sum of each array, once those of all pieces are there."""
        return self._sums


class Parts:
    """One part of each of several arrays, all parts of an array being of one size, and the wholes of all.

    Args:
      parts: this process's, of one dimension.
      processes: how many there are; the parts of an array lie in the order of the ranks.
      pool: where the wholes' memory comes from.

    Attributes:
      mine: the bytes of all parts of this process.
    """

    def __init__(self, parts: Sequence[np.ndarray], processes: int, pool: Pool) -> None:
        self.mine = np.concatenate([p.view(np.uint8) for p in parts])
        nbytes = [p.nbytes for p in parts]
        sizes = tuple(processes * n for n in nbytes)
        starts = _layout(sizes, 1 << 62, 1)[0]
        block = pool.take(starts[-1] + sizes[-1])
        self._wholes = [block[at : at + n] for at, n in zip(starts, sizes, strict=True)]
        self._dtypes = [p.dtype for p in parts]
        self._begins = [0, *itertools.accumulate(nbytes)]

    def put(self, rank: int, start: int, piece: np.ndarray) -> None:
        """Take these bytes in, which a rank has from there on."""
        stop = start + piece.size
        f = bisect.bisect_right(self._begins, start) - 1
        while start < stop:
            begin, end = self._begins[f : f + 2]
            taken = min(stop, end) - start
            at = rank * (end - begin) + start - begin
            self._wholes[f][at : at + taken] = piece[:taken]
            piece, start, f = piece[taken:], start + taken, f + 1

    def wholes(self) -> list[np.ndarray]:
        """The arrays, once all bytes of all ranks are there."""
        return [w.view(dtype) for w, dtype in zip(self._wholes, self._dtypes, strict=True)]


def _overlaps(
    piece: Sequence[Part], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Where a piece has elements of these spans of its arrays: the array's number, where in the piece, from, to."""
    at = 0
    for f, start, stop in piece:
        if f >= 0:
            first, last = max(start, spans[f][0]), min(stop, spans[f][1])
            if first < last:
                yield f, at + first - start, first, last
        at += stop - start


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
