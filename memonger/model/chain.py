"""A graph as a chain of units, with what its calls cost and what their derivatives read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple

from mxjax.core import compiler

from ..arrangement.parts import likeness, unit
from .gradient_buffers import LiveRange, reusing
from .lives import FINE, Lives
from .price import Price, price

if TYPE_CHECKING:
    from mxjax.core import Graph

MOST = 96  # units


class Unit(NamedTuple):
    """Steps between two cuts: its name, and its kind (units of a kind have equal options)."""

    start: int
    stop: int
    name: str
    kind: int


class Chain(Lives):
    """A graph whose steps have prices, in units: the model of what a backward pass holds.

    Args:
      graph: a network's forward computation.
      wants: which inputs are differentiated; ``None`` for those that the network is called with.
    """

    def __init__(self, graph: Graph, wants: Sequence[bool | None]):
        # What the network is called with crosses cuts as results do, though it is held by its owner.
        super().__init__(graph, {-1 - i for i, w in enumerate(wants) if w is None})
        self.wants = wants
        platform = compiler.platform_of(graph.avals[0].device)
        self.wanted = {-1 - i for i, w in enumerate(wants) if w and graph.avals[i].differentiable}
        self.prices: list[Price] = []
        for s in self.steps:
            asked = tuple([i in self.wanted for i in s.args])
            self.prices.append(price(s.call, self.operands(s), asked, platform))  # type: ignore[arg-type]
            if any(asked):
                self.wanted.update(k for k, a in enumerate(s.avals, s.first) if a.differentiable)

    def reads(self, at: int, all_kept: bool) -> list[int]:
        """What the derivative of a step reads; where not all is kept it makes what it needs of its own results, too."""
        s, p = self.steps[at], self.prices[at]
        again, results = p.with_results if all_kept else (p.again, frozenset[int]())
        outs = p.outs | results if all_kept else results
        return [s.args[i] for i in p.ins | again] + [s.first + k for k in outs]

    @cached_property
    def first_reads(self) -> dict[int, int]:
        """By result the first step whose derivative reads it: the last one to do so in the backward pass."""
        found: dict[int, int] = {}
        for at in range(len(self.steps)):
            for k in self.reads(at, True):
                if k in self.maker and k not in self.graph.outputs:  # those exist anyway
                    found.setdefault(k, at)
        return found

    def ends(self, worth: float, most: int) -> list[int]:
        """Where the whole graph is cut, see :meth:`cuts`; what computes nothing is held back for nothing."""
        made = [sum(a.nbytes for a in s.avals) for s in self.steps]
        inside = [n * (p.cost > 0) for n, p in zip(made, self.prices, strict=True)]
        return self.cuts((0, len(made)), inside, [p.costly for p in self.prices], worth, most)

    @cached_property
    def reusing(self) -> set[Any]:
        """The results that derivatives read and that wait for them in the buffer of a parameter's gradient.

        A step's moment is its place forward, and backward counted from the end. A gradient is written where the
        backward pass reaches the parameter's first use.
        """
        end, first = 2 * len(self.steps) - 1, dict[int, int]()
        for at, s in enumerate(self.steps):
            for i in s.args:
                first.setdefault(i, at)
        written = [i for i in self.graph.written if i in first and i in self.wanted]
        ranges = [
            LiveRange(k, self.maker[k], end - at, self.size[k])
            for k, at in self.first_reads.items()
        ]
        return reusing(ranges, [(self.size[i], end - first[i]) for i in written])

    def bytes(self, results: Iterable[int]) -> int:
        return sum(self.size[k] for k in results)

    def waiting(self, results: Iterable[int]) -> int:
        """Bytes that results take while they wait, those aside that reuse a gradient's buffer."""
        return self.bytes(k for k in results if k not in self.reusing)

    # ---- units -------------------------------------------------------------------------------------

    @cached_property
    def units(self) -> list[Unit]:
        """The finest chain worth having."""
        kinds: dict[Any, int] = {}
        units, start = [], 0
        for stop in self.ends(FINE, MOST):
            kind = kinds.setdefault(self.likeness(start, stop), len(kinds))
            units.append(Unit(start, stop, self._name(start, stop), kind))
            start = stop
        return units

    def likeness(self, start: int, stop: int) -> Any:
        """Equal for stretches that compute the same on operands of the same shapes."""
        return likeness(unit(self.steps, start, stop, self.last), self.wanted, self.avals)

    def _name(self, start: int, stop: int) -> str:
        """The innermost block around the steps, and which of its children they are in."""
        scopes = [s.scope.split("/") for s in self.steps[start:stop]]
        level = len(commonprefix(scopes))
        whole = "/".join(scopes[0][:level])
        inner = list(dict.fromkeys(x[level] for x in scopes if len(x) > level))
        others = {
            s.scope for s in (*self.steps[max(0, start - 1) : start], *self.steps[stop : stop + 1])
        }
        alone = whole and not any(o == whole or o.startswith(whole + "/") for o in others)
        if alone or not inner:
            return whole or self.graph.name
        return f"{whole}/{'+'.join(inner)}" if whole else "+".join(inner)
