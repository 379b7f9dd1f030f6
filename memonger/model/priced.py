"""A graph's steps with what each costs, what its derivative reads, and which results reuse a gradient's buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mxjax.core import SCALAR, compiler

from .gradient_buffers import LiveRange, reusing
from .lives import Lives
from .price import Price, price

if TYPE_CHECKING:
    from mxjax.core import Graph


class Priced(Lives):
    """A graph whose steps have prices: the model of what a backward pass holds.

    Args:
      graph: a network's forward computation.
      wants: which inputs are differentiated; ``None`` for those that the network is called with.
    """

    def __init__(self, graph: Graph, wants: Sequence[bool | None]):
        # What the network is called with crosses cuts as results do, though it is held by its owner.
        super().__init__(graph, {-1 - i for i, w in enumerate(wants) if w is None})
        self.wants = wants
        self.platform = compiler.platform_of(graph.avals[0].device)
        self.avals: dict[int, Any] = {-1 - i: a for i, a in enumerate(graph.avals)}
        self.avals.update({s.first + k: a for s in self.steps for k, a in enumerate(s.avals)})
        self.wanted = {-1 - i for i, w in enumerate(wants) if w and graph.avals[i].differentiable}
        self.prices: list[Price] = []
        for s in self.steps:
            asked = tuple([i in self.wanted for i in s.args])
            operands = [graph.fmt[i - SCALAR] if i >= SCALAR else self.avals[i] for i in s.args]
            self.prices.append(price(s.call, operands, asked, self.platform))  # type: ignore[arg-type]
            if any(asked):
                self.wanted.update(k for k, a in enumerate(s.avals, s.first) if a.differentiable)

    def reads(self, at: int, all_kept: bool) -> list[int]:
        """What the derivative of a step reads; where not all is kept it makes what it needs of its own results, too."""
        s, p = self.steps[at], self.prices[at]
        again, results = p.with_results if all_kept else (p.again, frozenset[int]())
        outs = p.outs | results if all_kept else results
        return [s.args[i] for i in p.ins | again] + [s.first + k for k in outs]

    def first_reads(self) -> dict[int, int]:
        """By result the first step whose derivative reads it: the last one to do so in the backward pass."""
        found: dict[int, int] = {}
        for at in range(len(self.steps)):
            for k in self.reads(at, True):
                found.setdefault(k, at)
        return found

    def inside(self) -> list[int]:
        """For each step the bytes that it makes, if it computes anything."""
        return [
            sum(a.nbytes for a in s.avals) * (p.cost > 0)
            for s, p in zip(self.steps, self.prices, strict=True)
        ]

    def costly(self) -> list[bool]:
        return [p.costly for p in self.prices]

    def reusing(self, ranges: Iterable[LiveRange]) -> set[Any]:
        """The keys of the arrays that wait in the buffer of a parameter's gradient.

        A step's moment is its place forward, and backward counted from the end. A gradient is written where the
        backward pass reaches the parameter's first use.
        """
        end, first = 2 * len(self.steps) - 1, dict[int, int]()
        for at, s in enumerate(self.steps):
            for i in s.args:
                first.setdefault(i, at)
        written = [i for i in self.graph.written if i in first and i in self.wanted]
        return reusing(ranges, [(self.size[i], end - first[i]) for i in written])

    def bytes(self, results: Iterable[int]) -> int:
        return sum(self.size[k] for k in results)
