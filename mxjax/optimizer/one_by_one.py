"""How NumPy computes the update of many weights: one by one, by a trace for all sizes of the update of one.

A trace of all of them at once takes a millisecond for each weight, and is another one for each network.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..core.calls.aval import aval
from ..core.hooks import operator_wrappers
from ..core.interpret.direct import Shape
from ..core.interpret.symbolic import NotHere, trace
from ..core.run.price import Size

if TYPE_CHECKING:
    from ..core.calls.call import Row

_OURS = f"{__package__}."


class Part(NamedTuple):
    """One weight's update."""

    bound: Any  # `symbolic.Bound`
    arrays: tuple[int, ...]  # its weight, gradient and states among the operands
    numbers: list[int]  # rescale_grad and its own among the numbers


class Each:
    """An update of several weights for arrays of certain shapes, as `symbolic.Bound` is one of a call."""

    __slots__ = ("_parts",)

    many = True  # it gives a tuple

    def __init__(self, parts: list[Part]):
        self._parts = parts

    @property
    def runs(self) -> bool:
        """Whether NumPy computes it."""
        return all(p.bound.runs for p in self._parts)

    @property
    def why(self) -> str:
        """Why it does not."""
        return next((p.bound.why for p in self._parts if p.bound.why), "")

    def shapes(self) -> tuple[Shape, ...]:
        """Shape and dtype of each result."""
        return tuple(_in_order([p.bound.shapes() for p in self._parts]))

    @property
    def size(self) -> Size:
        """What of it a compiler works for."""
        return Size(*map(sum, zip(*[p.bound.size for p in self._parts], strict=True)))

    def work(self) -> int:
        """Roughly the picoseconds that NumPy works on its numbers."""
        return sum(p.bound.work() for p in self._parts)

    def library(self) -> int:
        """The same of products of matrices."""
        return sum(p.bound.library() for p in self._parts)

    def patches(self) -> int:
        """Roughly the picoseconds that convolutions take beside them."""
        return sum(p.bound.patches() for p in self._parts)

    def steps(self) -> int:
        """How many calls of NumPy it takes."""
        return sum(p.bound.steps() for p in self._parts)

    def run(self, operands: Sequence[Any], scalars: Sequence[Any] = ()) -> list[np.ndarray]:
        """The results, computed by NumPy."""
        numbers = operands[0]
        return _in_order(
            [
                p.bound.run([*[operands[k] for k in p.arrays], *numbers[p.numbers]])
                for p in self._parts
            ]
        )


def _in_order(results: Sequence[Sequence[Any]]) -> list[Any]:
    """All new weights, then all new states."""
    return [r[0] for r in results] + list(itertools.chain.from_iterable(r[1:] for r in results))


def each(row: Row, avals: Sequence[Any], *, rule: Any, statics: Any, layout: Any) -> Each | None:
    """The call of `rules.many` by calls of ``row``, which is `rules.alone`; None where it is traced as a whole.

    Args:
      row: the update of one weight.
      avals: the numbers, all weights, all gradients, all states.
      rule, statics, layout: as `rules.many` takes them; a rule of a program's own may ask for sizes.
    """
    device = avals[0].device
    if operator_wrappers or not isinstance(device, jax.Device):
        return None
    if not getattr(rule, "__module__", "").startswith(_OURS):
        return None
    n = len(layout)
    width = (avals[0].shape[0] - 1) // n
    number = aval((), avals[0].dtype, device)
    parts: list[Part] = []
    taken = 1 + 2 * n
    for i, entry in enumerate(layout):
        arrays = (1 + i, 1 + n + i, *range(taken, taken + entry[0]))
        taken += entry[0]
        call = row.bind((("entry", entry), ("rule", rule), ("statics", statics)))
        given = [avals[k] for k in arrays] + [number] * (1 + width)
        try:
            bound = trace(call, given, device)
        except NotHere:
            return None
        parts.append(Part(bound, arrays, [0, *range(1 + i * width, 1 + (i + 1) * width)]))
    return Each(parts)
