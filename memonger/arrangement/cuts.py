"""Where a graph is cut into parts whose insides are recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from .parts import ALL, DRAWN, MIRROR, Part, last_uses, unit

if TYPE_CHECKING:
    from mxjax.core import Graph, Step


# How many parts are a part of the next level.
GROUP = 3


def mirrored(graph: Graph, keeps: Callable[[Step], bool]) -> list[Part]:
    """The graph in parts that, each mirrored, need the least memory together.

    What crosses a boundary stays in memory until the backward pass comes there; what a unit computes
    inside is computed again and lives while that unit is differentiated. The units chosen minimise the
    sum of the former plus the largest of the latter. ``keeps`` tells the steps whose results are kept
    anyway. Residual blocks come out as units by themselves: inside them two arrays would cross.

    Stretches that say themselves whether they are computed again (:func:`stretches`) are parts of their own.
    """
    steps = graph.steps
    last = last_uses(steps, graph.outputs)
    found: list[Part] = []
    for start, stop, again in stretches(steps):
        if again is not None:
            found.append(Part(stop, DRAWN if again else ALL))
            continue
        here = steps[start:stop]
        ends = boundaries(here, unit(steps, start, stop, last).gives, [not keeps(s) for s in here])
        found += _grouped([Part(start + end, MIRROR) for end in ends])
    return found


def forced(graph: Graph) -> list[Part]:
    """The graph in parts where only stretches are computed again that say so themselves."""
    found: list[Part] = []
    for _, stop, again in stretches(graph.steps):
        if found and found[-1].keep == ALL and not again:
            found.pop()
        found.append(Part(stop, DRAWN if again else ALL))
    return found


def stretches(steps: Sequence[Step]) -> Iterator[tuple[int, int, bool | None]]:
    """Where steps begin and end that share one scope, and what it says of computing them again."""
    stop = 0
    for mark, run in groupby(steps, lambda s: s.mirroring):
        start, stop = stop, stop + len(list(run))
        yield start, stop, None if mark is None else mark.again


def _grouped(parts: list[Part]) -> list[Part]:
    """Parts in parts, so that of what crosses between them only as much is held as there are levels.

    Groups of g hold about g arrays on each of log_g(n) levels, which is least for g = e. What is computed
    once more for each level is cheap by definition: costly results are kept on all of them.
    """
    while len(parts) > GROUP:
        groups = [parts[k : k + GROUP] for k in range(0, len(parts), GROUP)]
        parts = [g[0] if len(g) == 1 else Part(g[-1].stop, MIRROR, tuple(g)) for g in groups]
    return parts


def boundaries(steps: Sequence[Step], outputs: Sequence[int], again: Sequence[bool]) -> list[int]:
    """The positions after which to cut, the end included."""
    n = len(steps)
    if not n:
        return []
    last = last_uses(steps, outputs)
    made = [sum(a.nbytes for a in s.avals) for s in steps]
    inside = [m if r else 0 for m, r in zip(made, again, strict=True)]
    # (bytes, last use) of each step's results
    results = [
        [(a.nbytes, last.get(s.first + k, -1)) for k, a in enumerate(s.avals)] for s in steps
    ]
    # Between equal cuts the one between the larger blocks is the better: one byte per level decides.
    depth = [0, *(common_levels(a.scope, b.scope) for a, b in zip(steps, steps[1:], strict=False)), 0]
    best: tuple[float, list[int]] | None = None
    limit = max(1, max(inside))
    total = sum(inside)
    while True:
        cost, ends, peak = _within(limit, inside, results, depth)
        if best is None or cost + peak < best[0]:
            best = cost + peak, ends
        if limit >= total:
            return best[1]
        limit = int(limit * 1.25) + 1


def _within(
    limit: int,
    inside: Sequence[int],
    results: Sequence[Sequence[tuple[int, int]]],
    depth: Sequence[int],
) -> tuple[int, list[int], int]:
    """The cheapest boundaries of units that recompute at most ``limit`` bytes each."""
    n = len(inside)
    cost = [0] + [1 << 62] * n
    came = [0] * (n + 1)
    held = [0] * (n + 1)
    for stop in range(1, n + 1):
        crossing = size = 0
        for start in range(stop - 1, -1, -1):
            size += inside[start]
            if size > limit and start < stop - 1:
                break
            crossing += sum(b for b, until in results[start] if until >= stop)
            total = cost[start] + crossing + depth[stop]
            if total < cost[stop]:
                cost[stop], came[stop], held[stop] = total, start, size
    ends = []
    peak = 0
    at = n
    while at:
        ends.append(at)
        peak = max(peak, held[at])
        at = came[at]
    return cost[n], ends[::-1], peak


def common_levels(a: str, b: str) -> int:
    """How many levels of blocks two steps share."""
    levels = 0
    for x, y in zip(a.split("/"), b.split("/"), strict=False):
        if x != y:
            break
        levels += 1
    return levels
