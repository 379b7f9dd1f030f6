"""Which operator made what is in memory, and when: the bytes of programs' results while they live."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from mxjax.core import Step


class Holdings:
    """Follows the results of programs by weak references, from the run that makes them to their end."""

    def __init__(self) -> None:
        # The items one after the other: as many tuples would keep the garbage collector busy.
        self._flat: list[Any] = []
        # Arrays cannot be hashed, and nor can references to them.
        self._alive: dict[int, tuple[Any, _Maker]] = {}
        self._makers: dict[int, tuple[Any, list[_Maker]]] = {}

    def add(self, program: Any, results: Sequence[Any], when: int) -> None:
        """A program gave these results, in the order of `program.live`."""
        known = self._makers.get(id(program))
        if known is None:
            known = self._makers[id(program)] = program, list(_makers(program))
        alive, note, gone = self._alive, self._flat.extend, self._gone
        for array, maker in zip(results, known[1], strict=True):
            held = weakref.ref(array, gone)
            alive[id(held)] = held, maker
            note((when, maker))  # at once: others may be noted at any moment

    def _gone(self, held: Any) -> None:
        found = self._alive.pop(id(held), None)
        if found is not None:
            self._flat.extend((time.time_ns(), found[1].end))

    @property
    def changes(self) -> list[tuple[int, Step, int]]:
        """(time, step, bytes) of what came and, with negative bytes, of what went."""
        items = iter(list(self._flat))
        return [(when, m.step, m.size) for when, m in zip(items, items, strict=True)]

    def end(self) -> None:
        """Follow them no longer."""
        self._alive.clear()

    def copy(self) -> Holdings:
        """What is known so far."""
        made = Holdings()
        made._flat = list(self._flat)
        return made


class _Maker:
    """The step that makes a result, and the bytes that come with it; `end` stands for those that go."""

    __slots__ = ("end", "size", "step")

    def __init__(self, step: Step, size: int, end: _Maker | None = None):
        self.step = step
        self.size = size
        self.end = _Maker(step, -size, self) if end is None else end


def _makers(program: Any) -> Iterator[_Maker]:
    """For each result of a program what makes it."""
    by_number = {s.first + k: s for s in program.steps for k in range(len(s.avals))}
    for number, aval in zip(program.live, program.outs, strict=True):
        yield _Maker(by_number[number], aval.nbytes)


def tracks(
    changes: Sequence[tuple[int, Step, int]], most: int = 12
) -> Iterator[tuple[str, str, int, int]]:
    """Counter values (track group, track, time, bytes) by block and by operator.

    The `most` largest of each group have a track, the others are one together.
    """
    for group, key in (("Memory by block", _block), ("Memory by operator", _operator)):
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
