"""The user's statements in a program: which recorded call an XLA instruction goes back to.

The engine runs every step of a program under its label (block path and operator; the second call of an
operator in a place is its ``#1``), so an instruction's path begins with the label of its step, and inside
a hybridized block goes on with the label of a step of the block's graph.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mxjax.core import SCALAR, Step

_BACKWARD = "_backward_"


@dataclass(frozen=True, slots=True)
class Statement:
    """One recorded call of a program.

    `outer` is the call that the program itself was recorded with: the call of the hybridized block
    around it, or the statement's own.
    """

    number: int
    block: str
    operator: str
    step: Step
    outer: Step
    inputs: Sequence[Any] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(step: Step) -> Statement:
        """The statement of a step by itself, outside of any program."""
        name = step.call.name if step.call is not None else ""
        return Statement(0, step.scope, name, step, step)

    @property
    def hybridized(self) -> bool:
        """Whether it was recorded inside a hybridized block."""
        return self.outer is not self.step

    @property
    def name(self) -> str:
        """The name of the recorded call; a block's gradient runs the calls of its forward."""
        return self.step.call.name if self.step.call is not None else ""

    @property
    def source(self) -> str:
        """The user's line, as `file:line`."""
        file, line = self.step.site
        return f"{file}:{line}" if file else ""

    @property
    def shapes(self) -> str:
        """Inputs and results: `float32[64,512], float32[10,512] -> float32[64,10]`."""
        step = self.step
        avals = _avals(step)
        given = []
        for i in step.args:
            if i >= SCALAR:
                given.append("scalar")
                continue
            aval = avals.get(i)
            if aval is None and i < 0 and -i <= len(self.inputs):
                aval = self.inputs[-1 - i]
            given.append(_text(aval))
        return f"{', '.join(given)} -> {', '.join(map(_text, step.avals))}"


def _avals(step: Step) -> dict[int, Any]:
    """What the operands of a step are; they were made, or came in, at steps before it."""
    missing = {i for i in step.args if i < SCALAR}
    found: dict[int, Any] = {}
    at: Step | None = step
    while missing and at is not None and at.call is not None:
        known = {at.first + k: a for k, a in enumerate(at.avals)}
        entered = at.n_ins - len(at.new_ins)
        known |= {-1 - entered - k: a for k, a in enumerate(at.new_ins)}
        for i in missing & known.keys():
            found[i] = known[i]
        missing -= known.keys()
        at = at.parent
    return found


class Statements:
    """The statements of a list of steps, found by the path that XLA's metadata holds."""

    def __init__(self, steps: Sequence[Step]):
        self.all: list[Statement] = []
        self._labels = self._read(steps, (), None, False)

    def _read(
        self, steps: Sequence[Step], inputs: Sequence[Any], outer: Step | None, backward: bool
    ) -> dict[str, tuple[Statement | None, dict[str, Any]]]:
        """By label: the statement, or for a hybridized block those inside it."""
        found: dict[str, tuple[Statement | None, dict[str, Any]]] = {}
        again: dict[str, int] = {}
        for step in steps:
            label = step.label
            nth = again[label] = again.get(label, -1) + 1
            key = f"{label}#{nth}" if nth else label
            name = step.call.name if step.call is not None else ""
            graph = getattr(step.call, "graph", None)
            if graph is not None:
                gradient = backward or name.startswith(_BACKWARD)
                inside = self._read(graph.steps, graph.avals, outer or step, gradient)
                found[key] = None, inside
                continue
            if backward and not name.startswith(_BACKWARD):
                name = _BACKWARD + name
            number = len(self.all)
            statement = Statement(number, step.scope, name, step, outer or step, inputs)
            self.all.append(statement)
            found[key] = statement, {}
        return found

    def find(self, scopes: Sequence[str], structure: Container[str] = ()) -> Statement | None:
        """The statement whose labels these components of a path begin with.

        Components in `structure` may stand between the labels: JAX's own, of loops and the like.
        """
        labels = self._labels
        at = 0
        while at < len(scopes):
            for end in range(len(scopes), at, -1):
                entry = labels.get("/".join(scopes[at:end]))
                if entry is not None:
                    break
            else:
                if scopes[at] not in structure:
                    return None
                at += 1
                continue
            statement, inside = entry
            if statement is not None:
                return statement
            labels, at = inside, end
        return None

    @cached_property
    def calls(self) -> dict[str, int]:
        """How often a run calls each operator."""
        counts: dict[str, int] = {}
        for statement in self.all:
            counts[statement.operator] = counts.get(statement.operator, 0) + 1
        return counts


def _text(aval: Any) -> str:
    return "?" if aval is None else f"{aval.dtype}[{','.join(map(str, aval.shape))}]"
