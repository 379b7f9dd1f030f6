"""What stretches of a graph hold and cost: the tables that segments are chosen by."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .chain import Chain
from .lives import COARSE

if TYPE_CHECKING:
    from mxjax.core import Graph

# More places than this bring nothing but work.
PLACES = 320


class Liveness:
    """What each stretch between two places of a graph holds (bytes) and costs (flops).

    ``places`` are the positions worth a cut, 0 and the end among them: those given, or the best ones. A stretch is
    named by two indices of places, ``i < j``. The backward pass goes through the stretches from the last to the first;
    while it differentiates one it holds what crossed into it (``kept`` of all stretches before) and what
    differentiating it asks for (``inside``). Gradients of what crosses take the bytes of what they belong to.

    Gradients of parameters are results of the program, whose buffers XLA uses for temporaries until they are
    written: what crosses into a later stretch and fits there takes no bytes of its own.
    """

    def __init__(self, graph: Graph, chain: Chain | None = None, places: Sequence[int] = ()):
        self.chain = chain = chain or Chain(graph, [True] * len(graph.avals))
        self._n = len(chain.steps)
        self._flops = np.cumsum([0.0, *(p.flops for p in chain.prices)])
        self.places = list(places) or [0, *chain.ends(COARSE, PLACES)]
        self.size = len(self.places)

    @cached_property
    def kept(self) -> np.ndarray:
        """kept[i, j]: bytes that the stretch gives to later ones, results of the graph not counted."""
        chain = self.chain
        held = []
        for k, made in chain.maker.items():
            if (last := chain.last.get(k, -1)) < self._n:
                held.append((made, made + 1, last, chain.waiting((k,))))
        return self._rectangles(held)

    @cached_property
    def inside(self) -> np.ndarray:
        """inside[i, j]: bytes of what its derivative needs of its own, everything kept."""
        chain = self.chain
        held = [
            (chain.maker[k], at + 1, self._n, chain.size[k]) for k, at in chain.first_reads.items()
        ]
        # What costly calls keep inside.
        held += [(at, at + 1, self._n, p.inner) for at, p in enumerate(chain.prices) if p.costly]
        return self._rectangles(held)

    @cached_property
    def flops(self) -> np.ndarray:
        """flops[i, j]: its arithmetic, once forward."""
        at = self._flops[self.places]
        return np.maximum(0.0, at[None, :] - at[:, None])

    @property
    def peak(self) -> int:
        """Bytes held where nothing is computed again."""
        return int(self.inside[0, -1])

    def _rectangles(self, held: Sequence[tuple[int, int, int, int]]) -> np.ndarray:
        """Sum of bytes over all (made, from, to, bytes) with start <= made and from <= stop <= to."""
        m = self.size
        places = self.places
        grid = np.zeros((m + 1, m + 1), np.int64)
        for made, low, high, nbytes in held:
            if not nbytes or low > high:
                continue
            row = bisect_right(places, made)  # starts at rows 0 .. row - 1
            left = bisect_right(places, low - 1)
            right = bisect_right(places, high)
            grid[0, left] += nbytes
            grid[row, left] -= nbytes
            grid[0, right] -= nbytes
            grid[row, right] += nbytes
        summed = grid.cumsum(0).cumsum(1)[:m, :m]
        return np.triu(summed, 1)
