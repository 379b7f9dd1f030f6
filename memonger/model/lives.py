"""Live ranges of a graph's results, and where it is cut by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from ..arrangement.parts import last_uses

if TYPE_CHECKING:
    from mxjax.core import Graph

# A cut must hold back this many times the bytes that it makes the graph keep, on both sides: the units of a plan, and
# the larger ones of which segments and mirrored parts are made.
FINE, COARSE = 1.0, 2.5


class Lives:
    """Which step of a graph makes each result, which takes it last, and its bytes.

    Results of the graph live beyond the last step. ``data`` are inputs that cross cuts as results do.
    """

    def __init__(self, graph: Graph, data: Collection[int] = ()):
        self.graph = graph
        self.steps = graph.steps
        self.data = data
        self.size = {-1 - i: a.nbytes for i, a in enumerate(graph.avals)}
        self.size.update({s.first + k: a.nbytes for s in self.steps for k, a in enumerate(s.avals)})
        self.maker = {
            s.first + k: at for at, s in enumerate(self.steps) for k in range(len(s.avals))
        }
        self.last = last_uses(self.steps, graph.outputs)
        self.last.update({i: at for at, s in enumerate(self.steps) for i in s.args if i in data})

    def made(self, start: int, stop: int) -> range:
        """The results of some steps."""
        first = self.steps[start].first
        return range(
            first,
            self.steps[stop - 1].first + len(self.steps[stop - 1].avals) if stop > start else first,
        )

    def cuts(
        self,
        span: tuple[int, int],
        inside: Sequence[int],
        costly: Sequence[bool],
        worth: float,
        most: int,
    ) -> list[int]:
        """Where steps are cut into units, the end included.

        The cheapest cut comes first, between equal ones that between the larger blocks, then that before a costly
        step. A cut is good when both sides hold a costly step and several times the bytes that must be kept for it.
        So there is none inside a residual block, where two arrays would cross, unless one of them is the block's own
        input, the other small, and what follows the larger part: the backward pass goes through that while nothing of
        the smaller one need be there (among fine units alone). Arrays that pass the whole stretch (the long way round
        of a U-Net, an encoder's result) do not count there.

        Args:
          span: the steps, from one to another (exclusive).
          inside: for each step of the graph the bytes of its results that a unit holds back.
          costly: and whether it is costly.
          worth: how many times the bytes that cross must be held back: :data:`FINE` or :data:`COARSE`.
          most: about so many units at most.
        """
        held, counted = [0, *accumulate(inside)], [0, *accumulate(costly)]
        least = (held[span[1]] - held[span[0]]) / most

        def best(start: int, stop: int) -> int | None:
            tried = zip(self._crossing(start, stop), (0, 1), strict=True)
            for crossing, larger in tried if worth == FINE else [next(tried)]:
                grain = max(crossing) / 64 + 1
                good = [
                    (
                        int(c / grain),
                        common_levels(self.steps[p - 1].scope, self.steps[p].scope),
                        not costly[p],
                        p,
                    )
                    for p, c in enumerate(crossing, start)
                    if start < p < stop
                    and counted[start] < counted[p] < counted[stop]
                    and min(held[p] - held[start], held[stop] - held[p]) >= max(least, worth * c)
                    and held[stop] - held[p] >= larger * (held[p] - held[start])
                ]
                if good:
                    return min(good)[3]
            return None

        return list(_ends(*span, best))

    def _crossing(self, start: int, stop: int) -> tuple[list[int], list[int]]:
        """For each position from start to stop, bytes of the results that cross it and are made or used
        for the last time between start and stop; and the same without what is kept anyway.

        The latter is where but one of them is made there: then those from before are not counted that the
        stretch up to the position takes. (Where more cross, XLA keeps what suits its fusions, and the model
        is too far from it to be of use.)
        """
        taken: dict[int, int] = {}  # and by which step first
        for at in range(start, stop):
            for i in self.steps[at].args:
                taken.setdefault(i, at)
        made = set(self.made(start, stop))
        size = stop - start + 2
        whole, spared, count = [0] * size, [0] * size, [0] * size
        for k in made.union(taken):
            if k not in self.maker and k not in self.data:
                continue
            at, until = self.maker.get(k, -1), self.last.get(k, -1)
            if until == len(self.steps) or until <= at or (at < start and until >= stop):
                continue
            low, high = max(at + 1, start) - start, min(until, stop) - start
            for change, amount, end in (
                (whole, self.size[k], high),
                (spared, self.size[k], high if k in made else min(high, taken[k] - start)),
                (count, k in made, high),
            ):
                change[low] += amount
                change[end + 1] -= amount
        sums = [list(accumulate(x))[:-1] for x in (whole, spared, count)]
        return sums[0], [few if n == 1 else all_ for all_, few, n in zip(*sums, strict=True)]


def _ends(start: int, stop: int, best: Callable[[int, int], int | None]) -> Iterator[int]:
    """The ends of a stretch's units, where ``best`` cuts it and what comes of it."""
    todo = [(start, stop)] if stop > start else []
    while todo:
        start, stop = todo.pop()
        cut = best(start, stop)
        if cut is None:
            yield stop
        else:
            todo += [(cut, stop), (start, cut)]


def common_levels(a: str, b: str) -> int:
    """How many levels of blocks two steps share."""
    levels = 0
    for x, y in zip(a.split("/"), b.split("/"), strict=False):
        if x != y:
            break
        levels += 1
    return levels
