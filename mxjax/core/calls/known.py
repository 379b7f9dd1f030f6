"""A call that waits beside its thread's segment: the next one read alone, or the first of the segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Known:
    """What each thread has one of: the last call of `record_known` that nobody has read yet.

    It stands in ``Value.seg`` of the result, where a segment would. Most such calls are read at once: they run without
    the segment (`run.known`), which takes in those that others follow. The thread alone writes to it.

    Attributes:
      value: its result; None where no call waits.
      ins: its operands, concrete values.
      arrays: what they hold.
      step: what it is as the first of a segment.
      kind: the type of arrays that its programs take.
    """

    __slots__ = ("arrays", "ins", "kind", "state", "step", "value")

    graph = False  # as `Segment` and `hooks.Deferred` have it

    def __init__(self, state: Any) -> None:
        self.state = state
        self.value: Any = None
        self.ins: Sequence[Any] = ()
        self.arrays: Sequence[Any] = ()
        self.step: Any = None
        self.kind: type | None = None

    def end(self) -> None:
        """No call waits any more."""
        self.ins = self.arrays = ()
        self.value = None
