"""A graph as a chain of units, and what each may keep for the backward pass at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrangement.parts import likeness, unit
from .gradient_buffers import LiveRange
from .lives import FINE
from .priced import Priced

if TYPE_CHECKING:
    from mxjax.core import Graph

MOST = 96  # units


class Unit(NamedTuple):
    """Steps between two cuts: its name, and its kind (units of a kind have equal options)."""

    start: int
    stop: int
    name: str
    kind: int


class Chain(Priced):
    """A graph in units.

    Args:
      graph: a network's forward computation.
      wants: which inputs are differentiated; ``None`` for those that the network is called with.
    """

    def __init__(self, graph: Graph, wants: Sequence[bool | None]):
        super().__init__(graph, wants)
        self._reusing = self.reusing(self._ranges())

    def _ranges(self) -> Iterator[LiveRange]:
        """The live ranges where all is kept: results that derivatives read, ``("gradient", number)`` for theirs, and
        ``("inner", step)`` for what a costly call keeps inside."""
        end = 2 * len(self.steps) - 1
        read = self.first_reads()
        last = {i: at for at, s in enumerate(self.steps) for i in s.args}
        outputs = set(self.graph.outputs)
        for at, (s, p) in enumerate(zip(self.steps, self.prices, strict=True)):
            for k in range(s.first, s.first + len(s.avals)):
                if k in outputs or k not in last:
                    continue
                if k in read:
                    yield LiveRange(k, at, end - read[k], self.size[k])
                else:  # where it has to wait, since something is computed again from it, it reuses none so long
                    yield LiveRange(("passing", k), at, last[k], self.size[k])
                if k in self.wanted:
                    yield LiveRange(("gradient", k), end - last[k], end - at, self.size[k])
            if p.costly and p.inner:
                yield LiveRange(("inner", at), at, end - at, p.inner)

    def waiting(self, results: Iterable[int]) -> int:
        """Bytes that results take while they wait, those aside that reuse a gradient's buffer."""
        return sum(self.size[k] for k in results if k not in self._reusing)

    def has_buffer(self, key: Any) -> bool:
        """Whether an array takes bytes of its own."""
        return key not in self._reusing

    def gradients(self, results: Iterable[int]) -> int:
        """The same of their gradients."""
        return sum(self.size[k] for k in results if ("gradient", k) not in self._reusing)

    # ---- units -------------------------------------------------------------------------------------

    @cached_property
    def units(self) -> list[Unit]:
        """The finest chain worth having."""
        kinds: dict[Any, int] = {}
        units, start = [], 0
        for stop in self.cuts((0, len(self.steps)), self.inside(), self.costly(), FINE, MOST):
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
        level = 0
        while all(len(x) > level for x in scopes) and len({x[level] for x in scopes}) == 1:
            level += 1
        whole = "/".join(scopes[0][:level])
        inner = list(dict.fromkeys(x[level] for x in scopes if len(x) > level))
        others = {
            s.scope for s in (*self.steps[max(0, start - 1) : start], *self.steps[stop : stop + 1])
        }
        alone = whole and not any(o == whole or o.startswith(whole + "/") for o in others)
        if alone or not inner:
            return whole or self.graph.name
        return f"{whole}/{'+'.join(inner)}" if whole else "+".join(inner)
