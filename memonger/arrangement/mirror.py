"""Mirroring: the backward pass computes cheap results again instead of finding them kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mxjax.core import Step

from ..model.lives import COARSE, Lives
from ..model.primitives import holds_costly
from .parts import ALL, DRAWN, MIRROR, Arranged, Part

if TYPE_CHECKING:
    from mxjax.core import Graph

GROUP = 3  # parts are a part of the next level
MOST = 320  # parts of the lowest level


class Mirror(Arranged):
    """MXNet's mirroring: cheap results are computed again, part by part of the graph.

    Results of convolutions, matrix products, concatenations and random bits are kept, and what crosses
    from part to part; everything else is computed again when the backward pass reaches its part.
    """

    def __init__(self) -> None:
        super().__init__(mirrored, "mirror")

    def __repr__(self) -> str:
        return "memonger.policy('mirror')"


def mirrored(graph: Graph) -> list[Part]:
    """The graph in parts that are mirrored.

    What crosses from part to part stays in memory until the backward pass comes there; what a part computes inside is
    computed again and lives while that part is differentiated. Stretches that say themselves whether they are computed
    again (:func:`stretches`) are parts of their own.
    """
    found: list[Part] = []
    cuts = Cuts(graph)
    for start, stop, again in stretches(graph.steps):
        if again is not None:
            found.append(Part(stop, DRAWN if again else ALL))
        else:
            found += _grouped([Part(end, MIRROR) for end in cuts(start, stop)])
    return found


class Cuts:
    """Where steps of a graph are cut into parts of which cheap results are computed again."""

    def __init__(self, graph: Graph):
        self._lives = lives = Lives(graph)
        self.keeps = [holds_costly(s.call, lives.operands(s)) for s in graph.steps]  # type: ignore[arg-type]
        made = [sum(a.nbytes for a in s.avals) for s in graph.steps]
        self._inside = [0 if kept else n for kept, n in zip(self.keeps, made, strict=True)]

    def __call__(self, start: int, stop: int) -> list[int]:
        return self._lives.cuts((start, stop), self._inside, self.keeps, COARSE, MOST)


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
