"""What a compiled program's temporaries hold while each part of the network is at work, as XLA assigned them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..model.gradient_buffers import Stay
from .hlo import fields, integer, integers, module_of

# The scope of the n-th part in the names of its operations.
SCOPE = "memonger_part{}"
_SCOPE = re.compile(SCOPE.format(r"(\d+)"))
_INSIDE = frozenset({"while", "call", "conditional"})  # what these call has its buffers among the caller's
_WORDS = frozenset({"tuple", "get-tuple-element", "bitcast", "parameter", "constant"})  # nothing is done there
_SCHEDULE = 7  # the field of a module that holds it


class Stage(NamedTuple):
    """A part: bytes that its forward pass, or an earlier part's, left for its backward pass, and the most in use while
    the part is at work, in both passes."""

    held: int
    most: int


def stages(compiled: Any, parts: int) -> list[Stage] | None:
    """The stages of a training step whose parts ran in scopes of their own (:data:`SCOPE`).

    ``None`` where the backend tells no buffers or no order of work.
    """
    buffers: bytes = getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None) or b""
    module = module_of(compiled) if buffers else {}
    if _SCHEDULE not in module:
        return None
    order = _Order(module)
    rooms = order.rooms(buffers)
    held = order.held(rooms)
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
    left = _left(rooms, of, turn, parts)
    found = []
    for k, end in enumerate(ends):
        start = min(end, ends[k + 1] + 1) if k + 1 < parts else turns[0]
        until = len(held) if k == 0 else end + 1
        most = max(held[start:until].max(initial=0), held[began[k] : began[k + 1]].max(initial=0))
        found.append(Stage(int(left[k]), int(most)))
    return found


def _left(rooms: Sequence[Sequence[Stay]], of: np.ndarray, turn: int, parts: int) -> np.ndarray:
    """Bytes that the forward pass, which is over after the moment ``turn``, left for the backward pass of each part:
    of all that read an array the one that does so last."""
    found = np.zeros(parts, np.int64)
    for stays in rooms:
        over = [s for s in stays if s.start <= turn < s.end]
        if over:  # of several that begin at one place the others lie within the largest
            stay = max(over, key=lambda s: s.nbytes)
            found[max(0, of[stay.end])] += stay.nbytes
    return found


def _end(turns: np.ndarray, here: np.ndarray) -> int:
    """After which of some moments those that should be ``here`` are over, with the fewest exceptions on both sides.

    A statistic of an early part may be updated after all others: what is in use then is not that part's.
    """
    wrong = np.cumsum(np.concatenate(([0], np.where(here, -1, 1))))
    return int(np.concatenate(([turns[0] - 1], turns))[np.argmin(wrong)])


# What the elements of a result are made by: instructions.
_Value: TypeAlias = list[frozenset[int]]


class _Instruction(NamedTuple):
    opcode: str
    operands: tuple[int, ...]
    element: int  # of a tuple, where it takes one; of the operands of a computation, where it is one
    name: str
    calls: tuple[int, ...]


class _Order:
    """The instructions of a scheduled module's entry in order of work."""

    def __init__(self, module: dict[int, list[Any]]):
        computations = {integer(c, 5): c.get(2, []) for c in map(fields, module[3])}
        entry = integer(module, 6)
        schedules = {integer(s, 1): s for s in map(fields, fields(module[_SCHEDULE][0])[1])}
        self.order = integers(fields(schedules[entry][2][0]).get(1, []))
        self.at = {i: moment for moment, i in enumerate(self.order)}
        self.entry = entry
        self.bodies = {entry: self.order}  # the instructions of what the entry calls, and of itself
        self.roots = {integer(c, 5): integer(c, 6) for c in map(fields, module[3])}
        self.instructions: dict[int, _Instruction] = {}
        todo: list[tuple[int, int | None]] = [(entry, None)]
        while todo:
            computation, caller = todo.pop()
            found = [(integer(one, 35), one) for one in map(fields, computations[computation])]
            self.bodies.setdefault(computation, [number for number, _ in found])
            for number, one in found:
                opcode = one[2][0].decode()
                name = fields(one[7][0]).get(2, [b""])[0].decode() if 7 in one else ""
                element = integer(one, 9 if opcode == "parameter" else 13)
                calls = tuple(integers(one.get(38, []))) if opcode in _INSIDE else ()
                operands = tuple(integers(one.get(36, [])))
                self.instructions[number] = _Instruction(opcode, operands, element, name, calls)
                if caller is not None:
                    self.at[number] = self.at[caller]
                if number in self.at:
                    todo += [(c, number) for c in calls]

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each instruction whose it is (that of the one before where its name does not tell, -1 before the
        first), and whether something is done there that by its name belongs to the forward or the backward pass."""
        of = np.full(len(self.order), -1)
        forward, backward = np.zeros((2, len(self.order)), bool)
        last = -1
        for moment, i in enumerate(self.order):
            name = self.instructions[i].name
            scope = _SCOPE.search(name)
            if scope:
                last = int(scope[1])
                if self.instructions[i].opcode not in _WORDS:
                    (backward if "transpose(" in name else forward)[moment] = True
            of[moment] = last
        return of, forward, backward

    def rooms(self, buffers: bytes) -> list[list[Stay]]:
        """The temporaries, those that begin at one place together."""
        assignment = fields(buffers)
        maker = {}
        for found in assignment.get(1, []):
            buffer = fields(found)
            maker[integer(buffer, 1)] = integer(fields(buffer[3][0]), 4)
        until = self._last_uses()
        rooms: dict[tuple[int, int], list[Stay]] = {}
        for k, found in enumerate(assignment.get(3, [])):
            allocation = fields(found)
            if any(integer(allocation, f) for f in (3, 5, 7, 12)):  # of a thread, an argument, a result, a constant
                continue
            for placed in map(fields, allocation.get(9, [])):
                made = maker[integer(placed, 1)]
                if made in self.at:
                    moment = self.at[made]
                    stay = Stay(made, moment, max(moment, until.get(made, moment)), integer(placed, 3))
                    rooms.setdefault((k, integer(placed, 2)), []).append(stay)
        return list(rooms.values())

    def held(self, rooms: Sequence[Sequence[Stay]]) -> np.ndarray:
        """Bytes of temporaries in use at each instruction."""
        held = np.zeros(len(self.order), np.int64)
        for stays in rooms:  # one after another has the same place
            here = np.zeros_like(held)
            for _, start, end, nbytes in stays:
                np.maximum(here[start : end + 1], nbytes, out=here[start : end + 1])
            held += here
        return held

    def _last_uses(self) -> dict[int, int]:
        """For each instruction that makes something the last moment at which it is read, by whatever name."""
        last: dict[int, int] = {}

        def walk(computation: int, given: Sequence[_Value]) -> _Value:
            """What the result of a computation on such operands is made by; a part of what it calls."""
            values: dict[int, _Value] = {}
            for i in self.bodies[computation]:
                opcode, operands, element, _, calls = self.instructions[i]
                read = [values[o] for o in operands]
                taken = [v for value in read for v in value]
                if opcode == "get-tuple-element" and element < len(read[0]):
                    taken = [read[0][element]]
                for maker in frozenset[int]().union(*taken):
                    last[maker] = max(last.get(maker, 0), self.at[i])
                if opcode == "tuple":
                    values[i] = [frozenset[int]().union(*value) for value in read]
                elif opcode in ("get-tuple-element", "opt-barrier", "bitcast", "while"):
                    values[i] = taken
                elif opcode == "parameter" and given:
                    values[i] = given[element]
                elif opcode == "call":  # small loops are called where jax is 0.12
                    values[i] = walk(calls[0], read)
                else:
                    values[i] = [frozenset((i,))]
            return values[self.roots[computation]]

        walk(self.entry, ())
        return last
