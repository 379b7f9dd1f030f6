"""Mirroring: the backward pass computes cheap results again instead of finding them kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxjax.core import SCALAR, SCALARS, Step

from ..model.primitives import is_costly, primitives
from .cuts import mirrored
from .parts import Arranged, Part

if TYPE_CHECKING:
    from mxjax.core import Graph


class Mirror(Arranged):
    """MXNet's mirroring: cheap results are computed again, part by part of the graph.

    Results of convolutions, matrix products, concatenations and random bits are kept, and what crosses
    from part to part; everything else is computed again when the backward pass reaches its part.
    """

    def __init__(self) -> None:
        super().__init__(self._parts, "mirror")

    def _parts(self, graph: Graph) -> list[Part]:
        return mirrored(graph, Keeps(graph))

    def __repr__(self) -> str:
        return "memonger.policy('mirror')"


class Keeps:
    """Whether mirroring keeps a step's result: whether one of the costly primitives is in it."""

    def __init__(self, graph: Graph):
        self._avals = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
        self._avals |= {-1 - i: a for i, a in enumerate(graph.avals)}
        self._fmt = graph.fmt
        self._known: dict[Any, bool] = {}

    def __call__(self, step: Step) -> bool:
        call = step.call
        assert call is not None
        found = self._known.get(call)
        if found is None:
            structs = [
                SCALARS[self._fmt[i - SCALAR]] if i >= SCALAR else self._avals[i].struct
                for i in step.args
            ]
            found = self._known[call] = any(map(is_costly, primitives(call.fn, structs)))
        return found
