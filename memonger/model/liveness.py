"""A graph's memory without a compiler: where it can be cut, and what a backward pass holds between cuts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from mxjax.core import SCALAR, SCALARS, Step, compiler
from mxjax.core.graph.jaxprs import differentiable

from ..arrangement.cuts import common_levels
from ..arrangement.parts import last_uses
from ..trials.measure import counts
from .price import kept
from .primitives import is_costly, primitives, slow_bytes

if TYPE_CHECKING:
    from mxjax.core import Graph

# A cut is not worth its place where another holds less, by an eighth of the bytes between the two.
REACH = 8
# More places than this bring nothing but work.
PLACES = 320


class Liveness:
    """What each stretch between two places of a graph holds (bytes) and costs (flops).

    ``places`` are the positions worth a cut, 0 and the end among them: where little crosses, block ends
    first. A stretch is named by two indices of places, ``i < j``. The backward pass goes through the
    stretches from the last to the first; while it differentiates one it holds what crossed into it
    (``kept`` of all stretches before) and what differentiating it asks for (``inside``). Gradients of
    what crosses take the room of what they belong to.

    Gradients of parameters are results of the program, whose room XLA uses for temporaries until they are
    written: what crosses into a later stretch and fits there takes no bytes of its own.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        steps = graph.steps
        self._n = len(steps)
        self._results = self._lifetimes()
        known = _Costs(graph)
        costs = [known(s) for s in steps]
        self._flops = np.concatenate([[0.0], np.cumsum([c.flops for c in costs])])
        self._needs = self._residuals(costs)
        self.places = self._choose()
        self.size = len(self.places)
        self._lodged = self._lodge()

    @cached_property
    def kept(self) -> np.ndarray:
        """kept[i, j]: bytes that the stretch gives to later ones, results of the graph not counted."""
        held = [(made, made + 1, last, n) for k, (made, last, n) in self._results.items() if k not in self._lodged]
        return self._rectangles(held)

    @cached_property
    def inside(self) -> np.ndarray:
        """inside[i, j]: bytes of what its derivative needs of its own, everything kept."""
        return self._rectangles([(made, need + 1, self._n, nbytes) for made, need, nbytes in self._needs])

    @cached_property
    def flops(self) -> np.ndarray:
        """flops[i, j]: its arithmetic, once forward."""
        at = self._flops[self.places]
        return np.maximum(0.0, at[None, :] - at[:, None])

    @property
    def peak(self) -> int:
        """Bytes held where nothing is computed again."""
        return int(self.inside[0, -1])

    def _lifetimes(self) -> dict[int, tuple[int, int, int]]:
        """For each result of a step the step that makes it, the last that takes it, and its bytes."""
        graph = self.graph
        last = last_uses(graph.steps, graph.outputs)
        outputs = set(graph.outputs)
        found = {}
        for at, s in enumerate(graph.steps):
            for k, a in enumerate(s.avals, s.first):
                # The graph's results exist anyway: they cost a cut nothing.
                found[k] = (at, last.get(k, at), 0 if k in outputs else a.nbytes)
        return found

    def _residuals(self, costs: Sequence[StepCost]) -> list[tuple[int, int, int]]:
        """(made by, first asked for by the derivative of, bytes) of all that the derivatives ask for."""
        first: dict[int, int] = {}
        found = []
        for at, (s, cost) in enumerate(zip(self.graph.steps, costs, strict=True)):
            for k in cost.ins:
                if 0 <= s.args[k] < SCALAR:
                    first.setdefault(s.args[k], at)
            for k in cost.outs:
                first.setdefault(s.first + k, at)
            if cost.fresh:
                found.append((at, at, cost.fresh))
        for number, at in first.items():
            made, _, nbytes = self._results[number]
            found.append((made, at, nbytes))
        return found

    def _lodge(self) -> set[int]:
        """The results that wait in the room of gradients: each has one of a parameter to itself, of which the
        first use, and so the last derivative, comes before anything that takes the result."""
        graph = self.graph
        free: list[int] = []  # bytes of the gradients that are written after the place at hand is passed
        waiting = set(graph.written)
        found: set[int] = set()
        start = 0
        for p in self.places[1:-1]:
            for s in graph.steps[start:p]:
                for i in waiting.intersection(s.args):
                    waiting.remove(i)
                    insort(free, graph.avals[-1 - i].nbytes)
            start = p
            for k, (made, last, nbytes) in self._results.items():
                if made < p <= last and nbytes and k not in found:
                    at = bisect_left(free, nbytes)
                    if at < len(free):
                        del free[at]
                        found.add(k)
        return found

    def _choose(self) -> list[int]:
        n = self._n
        steps = self.graph.steps
        crossing = np.zeros(n + 1, np.int64)
        for made, last, nbytes in self._results.values():
            crossing[made + 1] += nbytes
            crossing[min(last, n) + 1 if last < n else n] -= nbytes
        crossing = np.cumsum(crossing)
        asked = np.zeros(n + 1, np.int64)
        for made, _, nbytes in self._needs:
            asked[made + 1] += nbytes
        before = np.cumsum(asked)
        depth = [0, *(common_levels(a.scope, b.scope) for a, b in zip(steps, steps[1:], strict=False)), 0]
        inner = [p for p in range(1, n) if not _dominated(p, crossing, before)]
        inner = _block_ends(inner, crossing, depth)
        if len(inner) > PLACES:
            share = max(1, int(before[-1])) / PLACES
            best: dict[int, int] = {}
            for p in inner:
                bucket = int(before[p] / share)
                if bucket not in best or (crossing[p], depth[p]) < (crossing[best[bucket]], depth[best[bucket]]):
                    best[bucket] = p
            inner = sorted(best.values())
        return [0, *inner, n] if n else [0]

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


class StepCost:
    """One step: which of its operands and results its derivative needs, further bytes, flops."""

    __slots__ = ("flops", "fresh", "ins", "outs")

    def __init__(self, ins: tuple[int, ...], outs: tuple[int, ...], fresh: int, flops: float):
        self.ins = ins
        self.outs = outs
        self.fresh = fresh
        self.flops = flops


class _Costs:
    """The costs of a graph's steps; steps with the same call and operands share them."""

    def __init__(self, graph: Graph):
        self._avals = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
        self._avals |= {-1 - i: a for i, a in enumerate(graph.avals)}
        self._fmt = graph.fmt
        self._known: dict[Any, StepCost] = {}

    def __call__(self, step: Step) -> StepCost:
        structs = tuple(
            SCALARS[self._fmt[i - SCALAR]] if i >= SCALAR else self._avals[i].struct for i in step.args
        )
        key = (step.call, tuple((s.shape, s.dtype) for s in structs))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._cost(step, structs)
        return found

    @staticmethod
    def _cost(step: Step, structs: Sequence[Any]) -> StepCost:
        call = step.call
        assert call is not None
        device = step.avals[0].device
        with jax.enable_x64(True), compiler.for_platform(compiler.platform_of(device)):
            found = kept(call.fn, structs, [differentiable(s.dtype) for s in structs])
            # Unoptimised: what the operator asks for, independent of what stands around it.
            with compiler.counting():
                counted = counts(jax.jit(call.fn).lower(*structs))
        ins, fresh = tuple(found.ins), found.inner
        if fresh and not any(map(is_costly, primitives(call.fn, structs))):
            # XLA makes them within the loops that need them, from the operand they come of, but for what is
            # slow to compute and the forward pass has computed: of tanh and the like the result is kept.
            fresh = slow_bytes(call.fn, structs)
            if not found.outs:
                floats = [i for i, s in enumerate(structs) if differentiable(s.dtype)]
                ins = (*ins, max(floats, key=lambda i: prod(structs[i].shape)))
        return StepCost(ins, tuple(found.outs), fresh, counted.get("flops", 0.0))


def _dominated(p: int, crossing: np.ndarray, before: np.ndarray) -> bool:
    """Whether a cut elsewhere would hold so much less that the way there is worth it."""
    saved = (crossing[p] - crossing[1:-1]) * REACH
    return bool(np.any((saved > 0) & (saved >= np.abs(before[1:-1] - before[p]))))


def _block_ends(places: Sequence[int], crossing: np.ndarray, depth: Sequence[int]) -> list[int]:
    """Of neighbouring places where the same crosses, those between the larger blocks."""
    taken = set(places)

    def lower(p: int, q: int) -> bool:
        return q in taken and crossing[q] == crossing[p] and depth[q] < depth[p]

    return [p for p in places if not lower(p, p - 1) and not lower(p, p + 1)]

