"""From what ran on the device back to the run that started it and the statement that asked for it."""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mxjax.hlo import read

from ._attribution import Site
from ._recorder import Recorder, Run
from ._session import DeviceEvent
from ._statements import Statement, Statements

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
        self._runs = sorted((r for r in runs if r.program is not None), key=lambda r: r.start)
        self._known: dict[str, Any] = {}
        self._statements: dict[int, Statements] = {}

    def program(self, name: str, launched: int | None = None) -> Any:
        """The engine's program that a trace calls `module(id)`, or None.

        A GPU's trace has other ids: there it is the one that was run as an event of it was launched.
        """
        if name not in self._known:
            if launched is None:
                self._known[name] = self._by_id.get(number_of(name))
            else:
                run = self.run(launched)
                self._known[name] = None if run is None else run.program
        return self._known[name]

    def run(self, launched: int) -> Run | None:
        """The run, the last to begin, during which something was launched."""
        at = bisect.bisect_right(self._runs, launched, key=lambda r: r.start)
        return next((r for r in reversed(self._runs[:at]) if launched <= r.stop), None)

    def statements(self, name: str, launched: int | None = None) -> Statements | None:
        """The statements of a program; None where it is not the engine's."""
        program = self.program(name, launched)
        if program is None:
            return None
        found = self._statements.get(id(program))
        if found is None:
            found = self._statements[id(program)] = Statements(program.steps)
        return found

    def executions(self, events: Iterable[DeviceEvent]) -> list[Group]:
        """The executions in the order of their starts; the k-th of a program is its k-th run.

        An execution that ended before its run began is none of it: its own was not recorded.
        """
        found: dict[tuple[str, Any, str], Group] = {}
        for e in events:
            run = None if e.launched is None else self.run(e.launched)
            if run is not None:
                e.run = self._runs.index(run) + 1
            group = found.get((e.program, e.run, e.device))
            if group is None:
                group = found[e.program, e.run, e.device] = Group(e.program, e.device, [], run)
            group.events.append(e)
        groups = sorted(found.values(), key=lambda g: min(e.start for e in g.events))
        started: dict[int, list[Run]] = {}
        for run in self._runs:
            started.setdefault(id(run.program), []).append(run)
        for (name, _), its in _by_program(g for g in groups if g.run is None).items():
            waiting = started.get(id(self.program(name)), [])
            at = 0
            for group in its:
                if at < len(waiting) and waiting[at].start <= max(e.stop for e in group.events):
                    group.run = waiting[at]
                    at += 1
        return groups


def _by_program(groups: Iterable[Group]) -> dict[tuple[str, str], list[Group]]:
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        found.setdefault((group.program, group.device), []).append(group)
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
