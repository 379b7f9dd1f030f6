"""Segments: a chain of stretches of which only the ends are kept (Chen et al. 2016, arXiv 1604.06174).

Three arrangements. ``segments`` keeps of each stretch what it gives, and computes its inside again:
memory grows with the square root of the depth. ``nested`` computes the inside again in stretches of its
own: the same root with a fraction of the factor. ``recursive`` halves until nothing is left to gain:
memory grows with the logarithm of the depth.

Other than in the paper stretches are not of one size. While the backward pass is in a stretch, of the
later ones nothing is left: an early stretch may be the larger by what the later ones keep. And the last
stretch is never computed again, because its backward pass follows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._arrange import ALL, Arranged, Part
from ._liveness import Liveness

if TYPE_CHECKING:
    from mxjax.core import Graph

# Peaks are found to this share.
PRECISION = 1 / 256
_NEVER = np.iinfo(np.int64).max // 4


class Nested(Arranged):
    """Segments that are computed again in segments: twice again at most, for a smaller root."""

    def __init__(self) -> None:
        super().__init__(self._parts, "nested")

    def _parts(self, graph: Graph) -> list[Part]:
        live = Liveness(graph)
        return nested_parts(live, *least_nested(live))

    def __repr__(self) -> str:
        return "memonger.policy('nested')"


class Recursive(Arranged):
    """Halves of halves: memory for as many block ends as there are halvings, log2(depth) forward passes."""

    def __init__(self) -> None:
        super().__init__(self._parts, "recursive")

    def _parts(self, graph: Graph) -> list[Part]:
        live = Liveness(graph)
        return halves(live, 0, live.size - 1)

    def __repr__(self) -> str:
        return "memonger.policy('recursive')"


def segment_parts(live: Liveness, ends: Sequence[int], again: Sequence[bool] | None = None) -> list[Part]:
    """Parts that end at these places; all but the last are computed again, or those of ``again``."""
    starts = [0, *ends[:-1]]
    if again is None:
        again = [j < live.size - 1 for j in ends]
    return [
        Part(live.places[j], live.once(i, j) if a else ALL)
        for i, j, a in zip(starts, ends, again, strict=True)
    ]


def nested_parts(live: Liveness, ends: Sequence[int], inner: Sequence[Sequence[int]]) -> list[Part]:
    """Parts that end at ``ends``, each computed again in parts that end at its ``inner`` places."""
    found = []
    for i, j, within in zip([0, *ends[:-1]], ends, inner, strict=True):
        keep = ALL if j == live.size - 1 else live.once(i, j)
        parts = _leaves(live, i, within)
        if len(parts) == 1:
            found.append(Part(live.places[j], keep))
        else:
            found.append(Part(live.places[j], keep, tuple(parts)))
    return found


def _leaves(live: Liveness, start: int, ends: Sequence[int]) -> list[Part]:
    """Parts from a place on; the last one's backward pass follows its forward pass at once."""
    found = [
        Part(live.places[j], live.once(i, j)) for i, j in zip([start, *ends[:-1]], ends, strict=True)
    ]
    found[-1] = Part(found[-1].stop, ALL)
    return found


def halves(live: Liveness, start: int, stop: int) -> list[Part]:
    """The stretch as parts: its first half, to be halved again, then its second half's parts."""
    middle = _middle(live, start, stop)
    if middle is None:
        return [Part(live.places[stop], ALL)]
    first = halves(live, start, middle)
    keep = live.once(start, middle)
    part = Part(live.places[middle], keep, tuple(first) if len(first) > 1 else ())
    return [part, *halves(live, middle, stop)]


def _middle(live: Liveness, start: int, stop: int) -> int | None:
    """Where to halve: of the places in the middle third the one at which least crosses."""
    inside = live.inside
    best = None
    for p in range(start + 1, stop):
        if max(live.kept[start, p] + inside[p, stop], inside[start, p]) >= inside[start, stop]:
            continue  # nothing gained
        uneven = abs(int(inside[start, p]) - int(inside[p, stop]))
        outer = uneven * 3 > inside[start, stop]
        key = (outer, uneven if outer else live.kept[start, p], uneven)
        if best is None or key < best[0]:
            best = key, p
    return None if best is None else best[1]


def least(live: Liveness, start: int = 0) -> list[int]:
    """The ends of segments with the least peak."""

    def within(peak: int) -> list[int] | None:
        came, cost = _within(live, start, peak)
        return _path(came, start, live.size - 1) if cost[-1] < _NEVER else None

    return _bisect(within, live)


def least_nested(live: Liveness) -> tuple[list[int], list[list[int]]]:
    """The ends of nested segments with the least peak, and for each the ends inside."""

    def within(peak: int) -> tuple[list[int], list[list[int]]] | None:
        m = live.size
        cost = np.full(m, _NEVER, np.int64)
        cost[0] = 0
        outer = np.full(m, -1)
        chains = {}
        for i in range(m - 1):
            if cost[i] >= _NEVER:
                continue
            chains[i], reach = _within(live, i, peak - int(cost[i]))
            total = np.where(reach < _NEVER, cost[i] + live.kept[i], _NEVER)
            total[: i + 1] = _NEVER
            better = total < cost
            cost[better] = total[better]
            outer[better] = i
        if cost[-1] >= _NEVER:
            return None
        ends = _path(outer, 0, m - 1)
        starts = [0, *ends[:-1]]
        return ends, [_path(chains[i], i, j) for i, j in zip(starts, ends, strict=True)]

    return _bisect(within, live)


def _within(live: Liveness, start: int, peak: int) -> tuple[np.ndarray, np.ndarray]:
    """For each place the segment start before it, and the bytes kept, of segments that hold at most ``peak``."""
    kept, inside = live.kept, live.inside
    m = live.size
    cost = np.full(m, _NEVER, np.int64)
    cost[start] = 0
    came = np.full(m, -1)
    for i in range(start, m - 1):
        held = cost[i]
        if held >= _NEVER:
            continue
        # Longer stretches hold more: those that fit are the nearest ones.
        stop = int(np.searchsorted(inside[i, i + 1 :], peak - held, side="right")) + i + 1
        total = held + kept[i, i + 1 : stop]
        better = total < cost[i + 1 : stop]
        cost[i + 1 : stop][better] = total[better]
        came[i + 1 : stop][better] = i
    return came, cost


def _path(came: np.ndarray, start: int, stop: int) -> list[int]:
    ends = []
    while stop != start:
        ends.append(stop)
        stop = int(came[stop])
    return ends[::-1]


def _bisect(within, live):
    high = live.peak
    best = within(high)
    low = 0
    while high - low > max(1, int(high * PRECISION)):
        middle = (low + high) // 2
        found = within(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best
