"""Segments: a chain of stretches of which only the ends are kept (Chen et al. 2016, arXiv 1604.06174).

Computed again once, the inside of a stretch lives while its backward pass runs: memory grows with the
square root of the depth. ``nested`` computes stretches again in stretches, three deep, ``recursive``
halves until nothing is left to gain, and memory grows with the logarithm of the depth.

Other than in the paper stretches are not of one size. While the backward pass is in a stretch, of the
later ones nothing is left: an early stretch may be the larger by what the later ones keep. And the last
stretch is never computed again, because its backward pass follows at once (as in Griewank and Walther's
revolve, 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..arrangement.parts import ALL, Arranged, Part
from .liveness import Liveness

if TYPE_CHECKING:
    from mxjax.core import Graph

# How deep nested segments are: a block is computed again so many times at most.
LEVELS = 3


class Chain(Arranged):
    """A rematerialisation in stretches, by its name in ``memonger.policies()``."""

    def __init__(
        self, name: str, arrange: Callable[[Liveness], Sequence[Part]], key: Hashable = None
    ):
        super().__init__(lambda graph: self.parts(graph), (name, key))
        self.name = name
        self._of = arrange

    def parts(self, graph: Graph) -> Sequence[Part]:
        return self._of(Liveness(graph)) if graph.steps else []

    def __repr__(self) -> str:
        return f"memonger.policy({self.name!r})"


def barriers(live: Liveness) -> list[Part]:
    """Nothing computed again, but every place an end: what the other arrangements are measured against."""
    return [Part(p, ALL) for p in live.places[1:]]


def nested(live: Liveness) -> list[Part]:
    """Segments computed again in segments, :data:`LEVELS` deep, with the least peak."""
    return least(live, LEVELS)


def recursive(live: Liveness) -> list[Part]:
    """Halves of halves: as many ends kept as there are halvings, and about so many half forward passes."""
    return _halves(live, 0, live.size - 1)


def least(live: Liveness, levels: int, room: float = 0) -> list[Part]:
    """The parts that stay within so many bytes where each step is computed again ``levels`` times at most; where none
    do, those with the least peak."""
    peaks = [live.inside]
    for _ in range(levels):
        peaks.append(_peaks(live, peaks[-1]))
    end = live.size - 1
    return _parts(live, peaks, 0, end, max(int(room), int(peaks[levels][0, end])))


def _peaks(live: Liveness, again: np.ndarray) -> np.ndarray:
    """peaks[i, j]: the least bytes in which the backward pass of a stretch can run, given those of its
    parts when they are computed again.

    The first part comes last in the backward pass and has the room to itself; before that, what it gives
    is held while the rest runs.
    """
    kept, inside = live.kept, live.inside
    peaks = inside.copy()
    for j in range(2, live.size):
        for i in range(j - 2, -1, -1):
            cut = np.maximum(again[i, i + 1 : j], kept[i, i + 1 : j] + peaks[i + 1 : j, j])
            peaks[i, j] = min(int(inside[i, j]), int(cut.min()))
    return peaks


def _parts(
    live: Liveness, peaks: Sequence[np.ndarray], start: int, stop: int, room: int
) -> list[Part]:
    """A stretch within so many bytes, with as little computed again as one look ahead can tell."""
    found = []
    while live.inside[start, stop] > room and len(peaks) > 1:
        ends = np.arange(start + 1, stop)
        kept = live.kept[start, ends]
        fits = (peaks[-2][start, ends] <= room) & (kept + peaks[-1][ends, stop] <= room)
        if not fits.any():
            break
        # The longest that need not be cut itself; else the shortest, of which the least is run twice.
        whole = ends[fits & (live.inside[start, ends] <= room)]
        middle = int(whole[-1]) if len(whole) else int(ends[fits][0])
        inner = _parts(live, peaks[:-1], start, middle, room)
        found.append(Part(live.places[middle], frozenset(), tuple(inner) if len(inner) > 1 else ()))
        room -= int(live.kept[start, middle])
        start = middle
    found.append(Part(live.places[stop], ALL))
    return found


def _halves(live: Liveness, start: int, stop: int) -> list[Part]:
    middle = _middle(live, start, stop)
    if middle is None:
        return [Part(live.places[stop], ALL)]
    first = _halves(live, start, middle)
    part = Part(live.places[middle], frozenset(), tuple(first) if len(first) > 1 else ())
    return [part, *_halves(live, middle, stop)]


def _middle(live: Liveness, start: int, stop: int) -> int | None:
    """Where to halve: of the places in the middle third the one at which least crosses."""
    ends = np.arange(start + 1, stop)
    left, right, whole = live.inside[start, ends], live.inside[ends, stop], live.inside[start, stop]
    kept = live.kept[start, ends]
    ends = ends[gains := np.maximum(kept + right, left) < whole]
    if not len(ends):
        return None
    uneven = np.abs(left - right)[gains]
    outer = uneven * 3 > whole
    best = np.lexsort((uneven, np.where(outer, uneven, kept[gains]), outer))[0]
    return int(ends[best])
