"""Which operator made what is in memory, and when: the bytes of programs' results while they live."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from mxjax.core import Step

# The groups of tracks: who holds the memory.
GROUPS = ("Memory by block", "Memory by operator")


class _Held(weakref.ref[Any]):
    """A reference that knows who made the array; arrays cannot be hashed, and nor can their refs."""

    __slots__ = ("size", "step")
    step: Step
    size: int


class Holdings:
    """Follows the results of programs by weak references, from the run that makes them to their end."""

    def __init__(self) -> None:
        # The items one after the other: as many tuples would keep the garbage collector busy.
        self._flat: list[Any] = []
        self._alive: dict[int, _Held] = {}
        self._makers: dict[int, tuple[Any, list[tuple[Step, int]]]] = {}
        self._ended = False

    def add(self, program: Any, results: Sequence[Any], when: int) -> None:
        """A program gave these results, in the order of `program.live`."""
        known = self._makers.get(id(program))
        if known is None:
            known = self._makers[id(program)] = program, list(_makers(program))
        alive, flat = self._alive, self._flat
        for array, (step, size) in zip(results, known[1], strict=True):
            held = _Held(array, self._gone)
            held.step, held.size = step, size
            alive[id(held)] = held
            flat.extend((when, step, size))

    def _gone(self, held: Any) -> None:
        if self._alive.pop(id(held), None) is not None and not self._ended:
            self._flat.extend((time.time_ns(), held.step, -held.size))

    @property
    def changes(self) -> list[tuple[int, Step, int]]:
        """(time, step, bytes) of what came and, with negative bytes, of what went."""
        items = iter(list(self._flat))
        return list(zip(items, items, items, strict=True))

    def end(self) -> None:
        """Follow them no longer."""
        self._ended = True
        self._alive.clear()

    def copy(self) -> Holdings:
        """What is known so far."""
        made = Holdings()
        made._flat = list(self._flat)
        return made


def _makers(program: Any) -> Iterator[tuple[Step, int]]:
    """For each result of a program the step that makes it, and its bytes."""
    by_number = {s.first + k: s for s in program.steps for k in range(len(s.avals))}
    for number, aval in zip(program.live, program.outs, strict=True):
        yield by_number[number], aval.nbytes


def tracks(
    changes: Sequence[tuple[int, Step, int]], most: int = 12
) -> Iterator[tuple[str, str, int, int]]:
    """Counter values (track group, track, time, bytes) by block and by operator.

    The `most` largest of each group have a track, the others are one together.
    """
    for group, key in zip(GROUPS, (_block, _operator), strict=True):
        now: dict[str, int] = {}
        peak: dict[str, int] = {}
        for _, step, size in changes:
            name = key(step)
            now[name] = now.get(name, 0) + size
            peak[name] = max(peak.get(name, 0), now[name])
        large = set(sorted(peak, key=lambda n: -peak[n])[:most])
        values = dict.fromkeys(large, 0)
        for when, step, size in changes:
            name = key(step)
            if name not in large:
                name = "others"
            values[name] = values.get(name, 0) + size
            yield group, name, when, values[name]


def _block(step: Step) -> str:
    return step.scope or "(no block)"


def _operator(step: Step) -> str:
    return step.call.name if step.call is not None else "?"
