"""What a compiled program's temporaries hold while each part of the network is at work, as XLA assigned them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mxjax.hlo import Instruction, Program, module_of, parse_module, read

from ..model.gradient_buffers import LiveRange

# The scope of the n-th part in the names of its operations.
SCOPE = "memonger_part{}"
_SCOPE = re.compile(SCOPE.format(r"(\d+)"))
_INSIDE = frozenset(
    {"while", "call", "conditional"}
)  # what these call has its buffers among the caller's
_WORDS = frozenset(
    {"tuple", "get-tuple-element", "bitcast", "parameter", "constant"}
)  # nothing is done there
# Field numbers of xla/service/hlo.proto: buffers by the instruction that makes each, and what lies where.
_ASSIGNED = {1: ("id", "int"), 2: ("offset", "int"), 3: ("size", "int")}
_ALLOCATION = {
    3: ("of_thread", "int"),
    5: ("argument", "int"),
    7: ("result", "int"),
    12: ("constant", "int"),
    9: ("assigned", [_ASSIGNED]),
}
_BUFFERS = {
    1: ("logical", [{1: ("id", "int"), 3: ("made", {4: ("instruction", "int")})}]),
    3: ("allocations", [_ALLOCATION]),
}


class Stage(NamedTuple):
    """A part: bytes that its forward pass, or an earlier part's, left for its backward pass, and the most in use while
    the part is at work, in both passes."""

    held: int
    most: int


def stages(compiled: Any, parts: int) -> list[Stage] | None:
    """The stages of a training step whose parts ran in scopes of their own (:data:`SCOPE`).

    ``None`` where the backend tells no buffers or no order of work.
    """
    buffers: bytes = (
        getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None) or b""
    )
    module = module_of(compiled) if buffers else b""
    program = parse_module(module)
    if not program.order:
        return None
    order = _Order(program)
    places = order.places(buffers)
    held = order.held(places)
    of, forward, backward = order.parts()
    work = np.flatnonzero(forward | backward)
    if not len(held) or not len(work):
        return None
    # What the backward pass makes of the inputs alone may come first of all.
    turn = _end(work, forward[work])
    before, turns = (np.flatnonzero(one) for one in (forward, backward))
    before, turns = before[before <= turn], turns[turns > turn]
    if not len(before) or not len(turns):
        return None
    began = [0, *(_end(before, of[before] < k) + 1 for k in range(1, parts)), turns[0]]
    ends = [_end(turns, of[turns] >= k) for k in range(parts)]
    # Parts may be at work in turns, as those of decoders that read one encoder's result.
    ends = np.maximum.accumulate(ends[::-1])[::-1].tolist()
    left = _left(places, of, turn, parts)
    found = []
    for k, end in enumerate(ends):
        start = min(end, ends[k + 1] + 1) if k + 1 < parts else turns[0]
        until = len(held) if k == 0 else end + 1
        most = max(held[start:until].max(initial=0), held[began[k] : began[k + 1]].max(initial=0))
        found.append(Stage(int(left[k]), int(most)))
    return found


def _left(
    places: Sequence[Sequence[LiveRange]], of: np.ndarray, turn: int, parts: int
) -> np.ndarray:
    """Bytes that the forward pass, which is over after the moment ``turn``, left for the backward pass of each part:
    of all that read an array the one that does so last."""
    found = np.zeros(parts, np.int64)
    for ranges in places:
        over = [s for s in ranges if s.start <= turn < s.end]
        if over:  # of several that begin at one place the others lie within the largest
            live = max(over, key=lambda s: s.nbytes)
            found[max(0, of[live.end])] += live.nbytes
    return found


def _end(turns: np.ndarray, here: np.ndarray) -> int:
    """After which of some moments those that should be ``here`` are over, with the fewest exceptions on both sides.

    A statistic of an early part may be updated after all others: what is in use then is not that part's.
    """
    wrong = np.cumsum(np.concatenate(([0], np.where(here, -1, 1))))
    return int(np.concatenate(([turns[0] - 1], turns))[np.argmin(wrong)])


# What the elements of a result are made by: instructions.
_Value: TypeAlias = list[frozenset[int]]


class _Order:
    """The instructions of a scheduled program's entry in order of work."""

    def __init__(self, program: Program):
        self.order = program.order
        self.entry = program.entry
        self.at = {i.number: moment for moment, i in enumerate(self.order)}
        todo = list(self.order)
        while todo:  # what is inside of a loop is at work when that is
            caller = todo.pop()
            for computation in caller.called if caller.opcode in _INSIDE else ():
                self.at.update((i.number, self.at[caller.number]) for i in computation.instructions)
                todo += computation.instructions

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each instruction whose it is (that of the one before where its name does not tell, -1 before the
        first), and whether something is done there that by its name belongs to the forward or the backward pass."""
        of = np.full(len(self.order), -1)
        forward, backward = np.zeros((2, len(self.order)), bool)
        last = -1
        for moment, i in enumerate(self.order):
            scope = _SCOPE.search(i.op_name)
            if scope:
                last = int(scope[1])
                if i.opcode not in _WORDS:
                    (backward if "transpose(" in i.op_name else forward)[moment] = True
            of[moment] = last
        return of, forward, backward

    def places(self, buffers: bytes) -> list[list[LiveRange]]:
        """The temporaries, those that begin at one place together."""
        assignment = read(buffers, _BUFFERS)
        maker = {b.get("id", 0): b["made"].get("instruction", 0) for b in assignment["logical"]}
        until = self._last_uses()
        places: dict[tuple[int, int], list[LiveRange]] = {}
        for k, allocation in enumerate(assignment["allocations"]):
            if any(allocation.get(f) for f in ("of_thread", "argument", "result", "constant")):
                continue
            for placed in allocation["assigned"]:
                made = maker[placed.get("id", 0)]
                if made in self.at:
                    moment = self.at[made]
                    live = LiveRange(
                        made, moment, max(moment, until.get(made, moment)), placed.get("size", 0)
                    )
                    places.setdefault((k, placed.get("offset", 0)), []).append(live)
        return list(places.values())

    def held(self, places: Sequence[Sequence[LiveRange]]) -> np.ndarray:
        """Bytes of temporaries in use at each instruction."""
        held = np.zeros(len(self.order), np.int64)
        for ranges in places:  # one after another has the same place
            here = np.zeros_like(held)
            for _, start, end, nbytes in ranges:
                np.maximum(here[start : end + 1], nbytes, out=here[start : end + 1])
            held += here
        return held

    def _last_uses(self) -> dict[int, int]:
        """For each instruction that makes something the last moment at which it is read, by whatever name."""
        last: dict[int, int] = {}

        def walk(body: Sequence[Instruction], given: Sequence[_Value]) -> dict[int, _Value]:
            """What the results of some instructions are made by; ``given`` are the operands of what is called."""
            values: dict[int, _Value] = {}
            for i in body:
                taken = [values[o.number] for o in i.operands]
                read = [v for value in taken for v in value]
                if i.opcode == "get-tuple-element" and i.place < len(taken[0]):
                    read = [taken[0][i.place]]
                for maker in frozenset[int]().union(*read):
                    last[maker] = max(last.get(maker, 0), self.at[i.number])
                values[i.number] = made(i, taken, read, given)
            return values

        def made(
            i: Instruction, taken: Sequence[_Value], read: _Value, given: Sequence[_Value]
        ) -> _Value:
            if i.opcode == "tuple":
                return [frozenset[int]().union(*value) for value in taken]
            if i.opcode in ("get-tuple-element", "opt-barrier", "bitcast", "while"):
                return read
            if i.opcode == "parameter" and given:
                return given[i.place]
            if i.opcode == "call":  # small loops are called where jax is 0.12
                (called,) = i.called
                assert called.root is not None
                return walk(called.instructions, taken)[called.root.number]
            return [frozenset((i.number,))]

        walk(self.order, ())
        return last
