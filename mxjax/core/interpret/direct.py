"""Calls whose attributes say what NumPy does: their rows have rules (`Row.direct`), and nothing is traced.

A trace takes milliseconds, and serves the calls of one form; of a basic index there are as many forms as ways to
write it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..run.price import Size, plain

if TYPE_CHECKING:
    from ..calls.aval import Aval
    from ..calls.call import Call, Derivative

Shape = tuple[tuple[int, ...], np.dtype]
# Picoseconds for each byte that is moved.
_BYTE = 75


class Direct(NamedTuple):
    """A call for operands of certain shapes, as `symbolic.Bound` is one; its one result has memory of its own."""

    shape: tuple[int, ...]
    dtype: np.dtype
    #: The result by NumPy's operands, a number of NumPy's for a dynamic scalar.
    fn: Callable[..., np.ndarray]
    #: The equations that a compiler would get.
    equations: int
    #: Whether the call's function gives a tuple: a derivative's does.
    many: bool = False

    @property
    def runs(self) -> bool:
        """Whether NumPy computes it."""
        return True

    @property
    def why(self) -> str:
        """Why it does not."""
        return ""

    def shapes(self) -> tuple[Shape, ...]:
        """Shape and dtype of each result."""
        return ((self.shape, self.dtype),)

    @property
    def size(self) -> Size:
        """What of it a compiler works for."""
        return plain(self.equations)

    def work(self) -> int:
        """Roughly the picoseconds that NumPy works on its numbers."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize * _BYTE

    def library(self) -> int:
        """The same of products of matrices, of which there are none."""
        return 0

    def patches(self) -> int:
        """The same of convolutions."""
        return 0

    def steps(self) -> int:
        """How many calls of NumPy it takes."""
        return 2

    def run(self, operands: Sequence[Any], scalars: Sequence[Any] = ()) -> list[np.ndarray]:
        """The result, computed by NumPy."""
        return [self.fn(*operands, *scalars)]


class Rules(NamedTuple):
    """How NumPy computes a row's calls, and their gradients by the first operand; either may know none (``None``)."""

    #: Of the operands' avals and the attributes; a `Direct`, or what has all of its names.
    call: Callable[..., Any]
    #: Of the operands' avals, where the last one is the result's cotangent, and the attributes.
    gradient: Callable[..., Direct | None]


def directly(call: Call, avals: Sequence[Aval | str]) -> Direct | None:
    """The call by its row's rule, where the row has one that knows it."""
    of = call.forward or call
    rules: Rules | None = of.row.direct
    if rules is None or of.constants or of.varying:
        return None
    if of is call:
        found: Direct | None = rules.call(avals, **dict(of.attrs))
        return found
    derivative: Derivative = call  # type: ignore[assignment]
    if (
        derivative.has != (True,)
        or derivative.many
        or not derivative.wants[0]
        or any(derivative.wants[1:])
    ):
        return None
    return rules.gradient(avals, **dict(of.attrs))
