"""Basic indices as attributes of a call: what a key means for a shape.

A key is a tuple with an entry for each part that the user wrote: an int, a :class:`Slice`, ``None``, ``Ellipsis``,
a tuple of ints for an index array, or :data:`ARRAY` for one that comes as an operand. Where a place varies from call to call
(``x[i]`` in a loop) it is an operand, too: :data:`AT` stands for an int, a :class:`Run` for a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..core.graph.graph_text import LITERALS

ARRAY = "array"
AT = "at"


class Slice(NamedTuple):
    """``start:stop:step``, which Python's own slices, not hashable before 3.12, cannot be here."""

    start: int | None
    stop: int | None
    step: int | None

    def __repr__(self) -> str:
        return f"slice({self.start}, {self.stop}, {self.step})"


class Run(NamedTuple):
    """``count`` elements, every ``step``, from a place that comes as an operand."""

    count: int  # type: ignore[assignment]  # not the method of tuples
    step: int

    def __repr__(self) -> str:
        return f"run({self.count}, {self.step})"


LITERALS.update({"slice": Slice, "run": Run})
WHOLE = Slice(None, None, None)


class Window(NamedTuple):
    """A slice of one axis: ``count`` elements every ``step``, of which ``low`` comes first in memory.

    ``form``: as the user wrote it, where its length changes with the axis's (``x[1:-1]``): one call for all lengths.
    """

    low: Any
    count: int  # type: ignore[assignment]  # not the method of tuples
    step: int
    form: Slice | None = None

    @property
    def span(self) -> int:
        """How far the slice reaches."""
        return (self.count - 1) * abs(self.step) + 1 if self.count else 0


def in_range(k: int, axis: int, n: int) -> int:
    """A position counted from the front, or an IndexError."""
    if not -n <= k < n:
        raise errors.MXNetIndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
    return k + n if k < 0 else k


def window(s: slice, n: int) -> Window:
    """What a slice takes of an axis of ``n`` elements, or of a symbolic number of them."""
    if not isinstance(n, int):
        return _symbolic_window(s, n)
    try:
        start, stop, step = s.indices(n)
    except ValueError as error:
        raise errors.MXNetValueError(str(error)) from None
    count = len(range(start, stop, step))
    if count == 0:
        return Window(0, 0, 1)
    if count == 1:
        return Window(start, 1, 1)
    return Window(start if step > 0 else start + (count - 1) * step, count, step)


def grows(s: slice) -> bool:
    """Whether the slice takes more of a longer axis, from a place counted from the front on."""
    return (
        (s.start is None or s.start >= 0)
        and (s.stop is None or s.stop < 0)
        and (s.step is None or s.step > 0)
    )


def _symbolic_window(s: slice, n: Any) -> Window:
    """The same of a symbolic length; JAX raises where what is taken depends on it otherwise than by a sum."""
    step = s.step or 1
    if step < 0:
        if s.start is not None or s.stop is not None:
            raise errors.MXNetNotImplementedError(f"{s} of an axis of any length")
        count = -(n // step)
        return Window(n - 1 + (count - 1) * step, count, step)
    low, high = (_symbolic_end(end, n, own) for end, own in ((s.start, 0), (s.stop, n)))
    count = high - low
    if not count > 0:
        return Window(0, 0, 1)
    return Window(low, -(-count // step), step)


def _symbolic_end(end: int | None, n: Any, own: Any) -> Any:
    """Where a slice of an axis of ``n`` elements begins or ends."""
    if end is None:
        return own
    if end < 0:
        return n + end if n + end > 0 else 0
    return end if own is not n or n >= end else n


def checked(a: np.ndarray, axis: int, n: int) -> np.ndarray:
    """Index numbers counted from the front; an IndexError where one is out of range."""
    if a.size:
        low, high = int(a.min()), int(a.max())
        if low < -n or high >= n:
            in_range(low if low < -n else high, axis, n)
        if low < 0:
            a = np.where(a < 0, a + n, a)
    return a.astype(np.int32 if n < 1 << 31 else np.int64)


def nested(numbers: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple([nested(n) for n in numbers]) if isinstance(numbers, list) else numbers


class Entry(NamedTuple):
    """One part of a key beside the shape it is for."""

    kind: str  # new, slice, int, array
    window: Window  # of its axis; ``new`` has none


_NEW = Entry("new", Window(0, 1, 1))


def resolve(key: tuple[Any, ...], dims: tuple[int, ...], places: Iterator[Any]) -> list[Entry]:
    """An entry for each axis and each new one; ``places`` are the operands of :data:`AT` and :class:`Run`.

    Raises:
      IndexError: there are more parts than axes, or an int is out of range.
    """
    taken = sum(k is not None and k is not Ellipsis for k in key)
    if taken > len(dims):
        raise errors.MXNetIndexError(
            f"too many indices ({taken}) for array with {len(dims)} dimensions"
        )
    made: list[Entry] = []
    axis = 0
    for k in key if Ellipsis in key else (*key, Ellipsis):
        if k is None:
            made.append(_NEW)
            continue
        if k is Ellipsis:
            rest = dims[axis : axis + len(dims) - taken]
            made += [Entry("slice", Window(0, n, 1)) for n in rest]
            axis += len(rest)
            continue
        n = dims[axis]
        if k is AT or k == AT:
            made.append(Entry("int", Window(next(places), 1, 1)))
        elif k == ARRAY or type(k) is tuple:
            made.append(Entry("array", Window(0, n, 1)))
        elif isinstance(k, int):
            made.append(Entry("int", Window(in_range(k, axis, n), 1, 1)))
        elif type(k) is Run:
            made.append(Entry("slice", Window(next(places), k.count, k.step)))
        else:
            made.append(Entry("slice", window(slice(*k), n)))
        axis += 1
    return made
