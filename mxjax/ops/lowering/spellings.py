"""What steps of a program spell out together, and which operators are in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.calls.segment import Step


class Found(NamedTuple):
    """A spelling: what computes its result, from these operands (numbered as a step's are)."""

    fn: Callable[..., Any]
    operands: tuple[int, ...]


class Steps:
    """The steps of a program, by the numbers of their results."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._makers = {s.first: s for s in steps if not s.many}

    def maker(self, number: int, *names: str) -> Step | None:
        """The step with one of these names that makes a result."""
        found = self._makers.get(number)
        return found if found is not None and name_of(found) in names else None


def name_of(step: Step | None) -> str:
    """The operator of a step."""
    return step.call.name.partition("@")[0] if step is not None and step.call is not None else ""


def attrs_of(step: Step) -> dict[str, Any]:
    """The attributes of a step's call."""
    return dict(step.call.attrs) if step.call is not None else {}


def number_of(step: Step) -> float | None:
    """The number that is a constant second operand of a step with one array."""
    found = attrs_of(step).get("scalar")
    return float(found) if len(step.args) == 1 and isinstance(found, int | float) else None
