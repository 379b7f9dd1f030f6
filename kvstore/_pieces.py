"""Arrays laid end to end, in pieces of one size: what is sent is neither many small things nor one large one.

`Pieces` come back as sums, of whole arrays or of the part of each that this process wants; `Parts` come back
as the whole arrays that the parts of all processes make.
"""

from __future__ import annotations

import functools
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
        sizes = [f.size for f in flats] if wanted is None else [stop - start for start, stop in wanted]
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
      rank, size: this process, and how many there are: its part of an array is the one of this number.
      piece: bytes of a piece, a power of two.
      pool: where the wholes' memory comes from.
      absent: ranks whose parts come from elsewhere; `put` writes zeros there.

    Attributes:
      sizes: the bytes of each piece.
    """

    def __init__(
        self, parts: Sequence[np.ndarray], rank: int, size: int, piece: int, pool: Pool,
        absent: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._parts = parts
        self._mine = [p.view(np.uint8) for p in parts]
        nbytes = [p.nbytes for p in parts]
        self._piece = piece
        self._starts, self._layout = _layout(tuple(size * n for n in nbytes), piece, 1)
        self._spans = [(rank * n, (rank + 1) * n) for n in nbytes]
        self._absent = [[(r * n, (r + 1) * n) for n in nbytes] for r in absent]
        self._size = size
        self._wholes = pool.take(self._starts[-1] + size * nbytes[-1])
        self.sizes = [sum(stop - start for _, start, stop in piece) for piece in self._layout]

    def put(self, k: int, whole: np.ndarray) -> None:
        """Write this process's part of piece k to its place in the bytes of that piece."""
        for f, at, start, stop in _overlaps(self._layout[k], self._spans):
            first = self._spans[f][0]
            np.copyto(whole[at : at + stop - start], self._mine[f][start - first : stop - first])
        for spans in self._absent:
            for _, at, start, stop in _overlaps(self._layout[k], spans):
                whole[at : at + stop - start] = 0

    def take(self, k: int, whole: np.ndarray) -> None:
        """The whole of piece k."""
        start = k * self._piece
        np.copyto(self._wholes[start : start + whole.size], whole)

    def wholes(self) -> list[np.ndarray]:
        """The arrays, once all pieces are there."""
        return [
            self._wholes[start : start + self._size * p.nbytes].view(p.dtype)
            for start, p in zip(self._starts, self._parts, strict=True)
        ]


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
