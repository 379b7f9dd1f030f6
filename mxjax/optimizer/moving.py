"""Hyperparameters that change while training (momentum, betas, epsilon, a bound): inputs of a step's program.

As long as one keeps its value it is a constant of the program; from its first change on the program takes it as an
input, so that a schedule of it compiles nothing more. None, which switches something off, stays part of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax.core import Dynamic

#: Numbers whose 0 switches something off, as None does.
_SWITCHES = ("clip_weights",)
_MOVES: Any = object()


def is_input(name: str, value: Any) -> bool:
    """Whether a hyperparameter with this value can be an input."""
    return type(value) in (float, int) and (value != 0 or name not in _SWITCHES)


class Moving:
    """Which hyperparameters of an optimizer have changed."""

    __slots__ = ("last", "names")

    def __init__(self) -> None:
        self.last: Sequence[Any] | None = None
        self.names: frozenset[str] = frozenset()

    def fixed(self, names: Sequence[str], values: Sequence[Any]) -> Sequence[Any]:
        """What of the values is part of the program, after a look at which have changed."""
        if values != self.last:
            if self.last is not None:
                changed = zip(names, values, self.last, strict=True)
                self.names |= {
                    n
                    for n, now, old in changed
                    if now != old and is_input(n, now) and is_input(n, old)
                }
            self.last = values
        if not self.names:
            return values
        return [
            _MOVES if n in self.names and is_input(n, v) else v
            for n, v in zip(names, values, strict=True)
        ]

    def divided(
        self, items: Sequence[tuple[str, Any]]
    ) -> tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]:
        """The rule's keyword arguments that are part of the program, and the names of those that are inputs."""
        moving = tuple(n for n, v in items if n in self.names and is_input(n, v))
        return tuple(item for item in items if item[0] not in moving), moving


def inputs(names: Sequence[str], items: Sequence[tuple[str, Any]]) -> list[Dynamic]:
    """The values of these names as inputs of a call."""
    given = dict(items)
    return [Dynamic(float(given[n])) for n in names]
