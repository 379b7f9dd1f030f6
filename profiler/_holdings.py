"""Which operator made what is in memory, and when: the bytes of programs' results while they live."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from time import time_ns
from typing import Any

from mxjax.core import Step

_ref = weakref.ref

# The groups of tracks: who holds the memory.
GROUPS = ("Memory by block", "Memory by operator")


class _Result:
    """A result of a program: the step that makes it, its bytes, and what is called when it is gone."""

    __slots__ = ("gone", "size", "step")

    def __init__(self, step: Step, size: int, alive: dict[int, Any], flat: list[Any]):
        self.step = step
        self.size = size
        forget, note = alive.pop, flat.extend

        def gone(held: Any) -> None:
            if forget(id(held), None) is not None:
                note((time_ns(), self))

        self.gone = gone


class Holdings:
    """Follows the results of programs by weak references, from the run that makes them to their end."""

    def __init__(self) -> None:
        # When, and the list of results that came or the one that went.  The items one after the
        # other, at once: others may be noted at any moment.
        self._flat: list[Any] = []
        # Arrays cannot be hashed, and nor can references to them.
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._known: dict[int, tuple[list[_Result], Any]] = {}

    def add(self, program: Any, results: Sequence[Any], when: int) -> None:
        """A program gave these results, in the order of `program.live`."""
        known = self._known.get(id(program))
        if known is None:
            known = self._known[id(program)] = self._results(program), program
        self._flat.extend((when, known[0]))
        alive = self._alive
        for array, result in zip(results, known[0], strict=True):
            held = _ref(array, result.gone)
            alive[id(held)] = held

    def _results(self, program: Any) -> list[_Result]:
        by_number = {s.first + k: s for s in program.steps for k in range(len(s.avals))}
        return [
            _Result(by_number[number], aval.nbytes, self._alive, self._flat)
            for number, aval in zip(program.live, program.outs, strict=True)
        ]

    @property
    def changes(self) -> list[tuple[int, Step, int]]:
        """(time, step, bytes) of what came and, with negative bytes, of what went."""
        items = iter(list(self._flat))
        out: list[tuple[int, Step, int]] = []
        for when, what in zip(items, items, strict=True):
            if type(what) is _Result:
                out.append((when, what.step, -what.size))
            else:
                out += [(when, result.step, result.size) for result in what]
        return out

    def end(self) -> None:
        """Follow them no longer."""
        self._alive.clear()

    def copy(self) -> Holdings:
        """What is known so far."""
        made = Holdings()
        made._flat = list(self._flat)
        return made


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
