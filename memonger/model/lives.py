"""Live ranges of a graph's results, and where it is cut by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from mxjax.core import SCALAR, Step

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
        self.avals: dict[int, Any] = {-1 - i: a for i, a in enumerate(graph.avals)}
        self.avals.update({s.first + k: a for s in self.steps for k, a in enumerate(s.avals)})
        self.size = {k: a.nbytes for k, a in self.avals.items()}
        self.maker = {
            s.first + k: at for at, s in enumerate(self.steps) for k in range(len(s.avals))
        }
        self.last = last_uses(self.steps, graph.outputs)
        self.last.update({i: at for at, s in enumerate(self.steps) for i in s.args if i in data})

    def operands(self, step: Step) -> tuple[Any, ...]:
        """The avals of a step's operands; dynamic scalars stand as their kinds."""
        return tuple(
            [self.graph.fmt[i - SCALAR] if i >= SCALAR else self.avals[i] for i in step.args]
        )

    def made(self, start: int, stop: int) -> range:
        """The results of some steps, one at least."""
        last = self.steps[stop - 1]
        return range(self.steps[start].first, last.first + len(last.avals))

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
        So there is none inside a residual block, where two arrays would cross. Arrays that pass the whole stretch (the
        long way round of a U-Net, an encoder's result) do not count.

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
            crossing = self._crossing(start, stop)
            grain = max(crossing) / 64 + 1
            good = [
                (
                    int(c / grain),
                    len(commonprefix([s.scope.split("/") for s in self.steps[p - 1 : p + 1]])),
                    not costly[p],
                    p,
                )
                for p, c in enumerate(crossing, start)
                if start < p < stop
                and counted[start] < counted[p] < counted[stop]
                and min(held[p] - held[start], held[stop] - held[p]) >= max(least, worth * c)
            ]
            return min(good)[3] if good else None

        return list(_ends(*span, best))

    def _crossing(self, start: int, stop: int) -> list[int]:
        """For each position from start to stop, bytes of the results that cross it and are made or used
        for the last time between start and stop."""
        made = self.made(start, stop)
        change = [0] * (stop - start + 2)
        for k in {*made, *(i for s in self.steps[start:stop] for i in s.args)}:
            if k not in self.maker and k not in self.data:
                continue
            at, until = self.maker.get(k, -1), self.last.get(k, -1)
            if until == len(self.steps) or until <= at or (at < start and until >= stop):
                continue
            change[max(at + 1, start) - start] += self.size[k]
            change[min(until, stop) - start + 1] -= self.size[k]
        return list(accumulate(change))[:-1]


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
