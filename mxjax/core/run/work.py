"""A segment to run, as a memory manager gets it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..calls.aval import MeshDevice, physical
from ..calls.segment import Segment, Step
from ..calls.value import Value
from ..compile.donations import in_layouts
from ..compile.program import Program
from .programs import choose, fell_back, run_for

_count = sys.getrefcount


class Work:
    """A segment to run, as the memory manager gets it.

    ``ins`` are its inputs, a list the manager empties; ``outs`` the values somebody holds, whose numbers
    are ``live``.
    """

    __slots__ = ("device", "ins", "live", "outs", "scalars", "seg", "step", "unheld")

    def __init__(
        self,
        seg: Segment,
        step: Step,
        ins: list[Value],
        outs: list[Value],
        live: tuple[int, ...],
        scalars: Sequence[float | int],
        unheld: int,
    ):
        self.seg = seg
        self.device = physical(seg.device)
        self.step = step if self.device is seg.device else step.at_home(seg.device)
        self.ins = ins
        self.outs = outs
        self.live = live
        self.scalars = scalars
        self.unheld = unheld

    def dying(self) -> tuple[int, ...]:
        """The inputs that nobody holds."""
        ins = self.ins
        counts = [c for _, c in enumerate(map(_count, ins))]
        return tuple(
            [
                j
                for j, c in enumerate(counts)
                if c <= self.unheld and not ins[j].shared and ins[j].aval.shape
            ]
        )

    def program(self, dying: tuple[int, ...]) -> Program | None:
        """The whole segment as one program; ``None`` where the engine would not compile it."""
        found = self.step.programs.get((self.live, dying))
        return choose(self.seg, self.step, found, self.live, dying, self.device)

    def results(self, program: Program, arrays: list[Any]) -> Sequence[Any]:
        """What the program gives for ``outs``; the list is used up."""
        if program.layouts:
            in_layouts(program.layouts, self.outs, self.live)
        return run_for(program, arrays, self.scalars, self.live)

    def fell_back(self) -> None:
        """The segment runs operator by operator because the engine would not compile it."""
        fell_back(self.seg)

    def fill(self, out: Value, array: Any) -> None:
        """Make one of ``outs`` concrete."""
        if type(self.device) is MeshDevice:
            out.aval = out.aval.laid(array.sharding)
        out.arr = array
        out.step = self.step
        out.seg = None
