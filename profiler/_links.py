"""From what ran on the device back to the run that started it and the statement that asked for it."""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._attribution import Site
from ._recorder import Recorder, Run
from ._session import DeviceEvent
from ._statements import Statement, Statements
from ._wire import read

_ids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def program_id(program: Any) -> int:
    """The number under which XLA's trace knows one of the engine's programs; -1 where none is told."""
    found = _ids.get(program)
    if found is None:
        try:
            (module, *_) = program.compiled.runtime_executable().hlo_modules()
            message = module.as_serialized_hlo_module_proto()
            found = read(message, {5: ("id", "int")}).get("id", -1)
        except (AttributeError, RuntimeError, ValueError):  # a backend that shows no modules
            found = -1
        _ids[program] = found
    return found


class Programs:
    """The engine's programs that ran, by XLA's number, with their statements."""

    def __init__(self, runs: Iterable[Run]):
        self._programs = {id(r.program): r.program for r in runs if r.program is not None}
        self._by_id = {program_id(p): p for p in self._programs.values()}
        self._statements: dict[int, Statements] = {}

    def program(self, number: int) -> Any:
        """The engine's program, or None."""
        return self._by_id.get(number)

    def statements(self, number: int) -> Statements | None:
        """Its statements; None where it is not the engine's."""
        program = self._by_id.get(number)
        if program is None:
            return None
        found = self._statements.get(number)
        if found is None:
            found = self._statements[number] = Statements(program.steps)
        return found


@dataclass(slots=True)
class Group:
    """The events of one execution of a program on one device, and the run that started it."""

    program: str
    device: str
    events: list[DeviceEvent]
    run: Run | None = None

    @property
    def statements(self) -> Statements | None:
        return self.events[0].statements


def number_of(program: str) -> int:
    """The id in XLA's `module(id)`."""
    digits = program[program.rfind("(") + 1 : -1]
    return int(digits) if digits.isdigit() else -1


def executions(events: Iterable[DeviceEvent], runs: Sequence[Run]) -> list[Group]:
    """The executions in the order of their starts; the k-th of a program is its k-th run.

    An execution that ended before its run began is none of it: its own was not recorded.
    """
    found: dict[tuple[str, int, str], Group] = {}
    for e in events:
        group = found.get((e.program, e.run, e.device))
        if group is None:
            group = found[e.program, e.run, e.device] = Group(e.program, e.device, [])
        group.events.append(e)
    by_program: dict[tuple[str, str], list[Group]] = {}
    groups = sorted(found.values(), key=lambda g: min(e.start for e in g.events))
    for group in groups:
        by_program.setdefault((group.program, group.device), []).append(group)
    started: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda r: r.start):
        if run.program is not None:
            started.setdefault(program_id(run.program), []).append(run)
    for (program, _), its in by_program.items():
        waiting = started.get(number_of(program), [])
        at = 0
        for group in its:
            if at < len(waiting) and waiting[at].start <= max(e.stop for e in group.events):
                group.run = waiting[at]
                at += 1
    return groups


class Dispatches:
    """When each step was recorded, to find the record behind a run."""

    def __init__(self, recorder: Recorder):
        self._starts: dict[int, list[int]] = {}
        self._index: dict[int, list[int]] = {}
        for i, (step, start, _, _) in enumerate(recorder.records):
            self._starts.setdefault(id(step), []).append(start)
            self._index.setdefault(id(step), []).append(i)

    def before(self, step: Any, time: int) -> int | None:
        """The number of the last record of this step before a time."""
        starts = self._starts.get(id(step))
        if not starts:
            return None
        at = bisect.bisect_right(starts, time) - 1
        return None if at < 0 else self._index[id(step)][at]


def statement(event: DeviceEvent, site: Site) -> Statement | None:
    """The recorded call that a site of an event is."""
    every = event.statements
    if every is None or site.call >= len(every.all):
        return None
    found = every.all[site.call]
    return (
        found if found.name in (site.operator, site.operator.removeprefix("_backward_")) else None
    )
