"""One stretch between the start and the stop of the profiler, and what can be made of it."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mxjax.core import Step

from ._aggregate import Aggregate
from ._attribution import HOW, Site
from ._holdings import tracks
from ._links import Dispatches, Group, Programs, statement
from ._recorder import RAW, SYNC_NAMES, Mark, Recorder, Span
from ._session import DeviceEvent, read_trace
from ._statements import Statement, Statements

_CUSTOM = "Custom Operator"
# What the rows of a table may be.
GROUPINGS = ("operator", "block", "source", "shape")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which kinds of events the user asked for.

    `only_waits`: of them those alone for which the host waited (`profiler.only_wait`). `without`: categories
    that are left out (`profiler.config`).
    """

    symbolic: bool = True
    imperative: bool = True
    memory: bool = True
    api: bool = True
    only_waits: bool = False
    without: frozenset[str] = frozenset()

    @property
    def operators(self) -> bool:
        """Whether any operators are wanted: those of hybridized blocks, the others, or both."""
        return (self.symbolic or self.imperative) and not self.only_waits

    def takes(self, span: Span) -> bool:
        """Whether a stretch of the host's time is among them."""
        if self.only_waits and not _waited(span):
            return False
        return span.category not in self.without


def _waited(span: Span) -> bool:
    """Whether the host could do nothing else: it waited for a value, a batch, or other devices."""
    return span.category in ("MXNET_C_API", "collective") or (
        span.category == "input" and span.name.endswith("wait")
    )


@dataclass
class Recording:
    """What was seen between `run` and `stop`: the host's side, and XLA's trace where there is one.

    `paused` are the stretches (epoch nanoseconds) whose device events are dropped: XLA's profiler
    cannot pause.
    """

    recorder: Recorder
    wanted: Wanted
    xplane: str | None = None
    paused: list[tuple[int, int]] = field(default_factory=list)
    enriched: bool = False  # whether XLA's trace holds all this too
    file: str | None = None  # the trace file that holds it already

    @cached_property
    def device_events(self) -> list[DeviceEvent]:
        """The device's events, without those that began while the profiler was paused."""
        if self.xplane is None:
            return []
        events = read_trace(self.xplane, self.programs.statements)
        events = [e for e in events if not any(a <= e.start < b for a, b in self.paused)]
        wanted = self.wanted
        if wanted.symbolic and wanted.imperative:
            return events
        return [e for e in events if wanted.symbolic == _hybridized(e)]

    def _customs(self) -> Iterator[tuple[str, int, int, str]]:
        """The Python of custom operators, and what was called inside: name, start, stop, thread."""
        customs = self.recorder.customs
        for name, start, stop, thread in customs:
            yield f"{name}::pure_python", start, stop, thread
        for step, start, stop, thread in self.recorder.records if customs else ():
            inside = [c for c in customs if c[3] == thread and c[1] <= start and stop <= c[2]]
            if inside:
                owner = max(inside, key=lambda c: c[1])[0]  # the innermost one
                yield f"{owner}::{_name(step)}", start, stop, thread

    @cached_property
    def programs(self) -> Programs:
        """The engine's programs that ran."""
        return Programs(self.recorder.runs)

    @cached_property
    def executions(self) -> list[Group]:
        """The device's events by execution, each with the run that started it."""
        return self.programs.executions(self.device_events)

    def spans(self) -> Iterator[Span]:
        """Every stretch of time that belongs into the trace."""
        return filter(self.wanted.takes, self._all_spans())

    def _all_spans(self) -> Iterator[Span]:
        recorder, wanted = self.recorder, self.wanted
        yield from recorder.spans
        if wanted.operators:
            about = functools.cache(_about)
            dispatches = [
                Span("host", thread, "dispatch", _name(step), start, stop, about(step))
                for step, start, stop, thread in recorder.records
            ]
            yield from self._device_spans(dispatches)
            yield from dispatches
            for run in recorder.runs:
                args: dict[str, object] = {"operators": len(run.steps)}
                if run.program is not None:
                    args |= {"temporary_bytes": temporaries(run.program)}
                thread = run.thread
                kind = "collective" if run.program is None and _exchanges(run.name) else "run"
                yield Span("host", thread, kind, f"run {run.name}", run.start, run.stop, args)
            for name, reason, start, stop, thread in recorder.compiles:
                why: dict[str, object] = {"reason": reason}
                yield Span("host", thread, "compile", f"compile {name}", start, stop, why)
            for step, start, stop, thread in recorder.interpreted:
                yield Span(
                    "host",
                    thread,
                    "operator",
                    _name(step),
                    start,
                    stop,
                    {**about(step), "computed": "NumPy"},
                )
            for name, start, stop, thread in self._customs():
                yield Span(_CUSTOM, thread, _CUSTOM, name, start, stop)
        if wanted.api:
            for name, start, stop, thread in recorder.syncs:
                api = SYNC_NAMES.get(name, name)
                yield Span("host", thread, "MXNET_C_API", api, start, stop)

    def _device_spans(self, dispatches: list[Span]) -> Iterator[Span]:
        """Each event twice, under the operator's and under XLA's name; arrows lead to the first."""
        before = Dispatches(self.recorder)
        about = _Arguments()
        for group in self.executions:
            reached: set[int] = set()
            for e in sorted(group.events, key=lambda e: e.start):
                args = about.of(e)
                span = Span(
                    e.device, e.line, "operator", e.owner.site.operator, e.start, e.stop, args
                )
                if group.run is not None:
                    for site, _ in e.owner.shares:
                        found = statement(e, site)
                        if found is None or found.number in reached:
                            continue
                        reached.add(found.number)
                        source = before.before(found.outer, group.run.start)
                        if source is not None and dispatches[source].start <= e.start:
                            _connect(dispatches[source], span)
                yield span
                raw = {"hlo_module": e.program, "run_id": e.run}
                yield Span(e.device + RAW, e.line, "hlo_op", e.name, e.start, e.stop, raw)

    def marks(self) -> Iterator[Mark]:
        """Counters and instants."""
        if self.wanted.only_waits:
            return
        for mark in self.recorder.marks:
            if self.wanted.memory or mark.category != "Device Storage":
                yield mark
        if self.wanted.memory:
            for group, track, when, size in tracks(self.recorder.holdings.changes):
                yield Mark(group, group, track, when, float(size), "bytes")

    def attribution(self) -> dict[str, float]:
        """Nanoseconds of device time by how well their operator is known."""
        out = dict.fromkeys(HOW, 0.0)
        for e in self.device_events:
            out[e.owner.how] += e.own
        return out

    def add_to(self, aggregates: dict[str, Aggregate]) -> None:
        """Count everything into the tables, one per grouping."""
        recorder, wanted = self.recorder, self.wanted
        aggregate = aggregates["operator"]
        for span in filter(wanted.takes, recorder.spans):
            aggregate.duration(span.category, span.name, _us(span.start, span.stop))
        for mark in self.marks():
            if mark.scope:
                aggregate.category(mark.category)
            else:
                aggregate.value(mark.category, mark.name, mark.value)
        if wanted.operators:
            for grouping in GROUPINGS:
                self._add_operators(aggregates[grouping], grouping)
            for name, start, stop, _ in self._customs():
                aggregate.duration(_CUSTOM, name, _us(start, stop))
        if wanted.api:
            for name, start, stop, _ in recorder.syncs:
                aggregate.duration("MXNET_C_API", SYNC_NAMES.get(name, name), _us(start, stop))
        if wanted.api and not wanted.only_waits:
            for _, start, stop, _ in recorder.records:
                aggregate.duration("MXNET_C_API", "MXImperativeInvoke", _us(start, stop))
            for run in recorder.runs:
                aggregate.duration("engine", "run", _us(run.start, run.stop))
            for _, _, start, stop, _ in recorder.compiles:
                aggregate.duration("engine", "compile", _us(start, stop))

    def _add_operators(self, aggregate: Aggregate, grouping: str) -> None:
        """Device time by operator, block, line or shape; without the device the time of dispatch.

        What counts is the calls that the program made, as in MXNet: those without time of their own too, because they
        went into the work of others, or because nobody had to compute them.
        """
        recorder = self.recorder
        counted = Counter[str]()
        for step, start, stop, _ in recorder.interpreted:
            key = _key(grouping, step.scope, _name(step), Statement.of(step))
            aggregate.duration(grouping, key, _us(start, stop))
            counted[key] += 1
        ran = self._made(((run.steps, run.steps) for run in recorder.runs), grouping) + counted
        if self.device_events:
            self._add_times(aggregate, grouping, counted)
        elif recorder.runs and not recorder.interpreted:
            for step, start, stop, _ in recorder.records:
                key = _key(grouping, step.scope, _name(step), Statement.of(step))
                aggregate.duration(grouping, key, _us(start, stop))
            return
        made = self._made(((step, [step]) for step, *_ in recorder.records), grouping)
        idle = made - ran
        for key, count in (made - counted).items():
            aggregate.without_time(grouping, key, count, idle[key])

    def _add_times(self, aggregate: Aggregate, grouping: str, counted: Counter[str]) -> None:
        """Add the device's times, each fused instruction's divided between its operators.

        A program that is not the engine's tells no calls: there the places count.
        """
        keys: dict[tuple[int, Site], str] = {}
        for group in self.executions:
            spent: dict[str, float] = {}
            places: dict[str, set[Site]] = {}
            for e in group.events:
                for site, share in e.owner.shares:
                    key = keys.get((id(e.statements), site), "")
                    if not key:
                        key = _key(grouping, site.block, site.operator, statement(e, site))
                        keys[id(e.statements), site] = key
                    spent[key] = spent.get(key, 0.0) + e.own * share
                    places.setdefault(key, set()).add(site)
            calls = self._calls(group.statements, grouping)
            for key, time in spent.items():
                count = calls.get(key) or len(places[key])
                total = time / 1000
                custom = "::" in key and grouping == "operator"
                aggregate.durations(
                    _CUSTOM if custom else grouping, key, total, count, total / count, total / count
                )
                counted[key] += count

    def _made(self, calls: Iterable[tuple[object, Sequence[Step]]], grouping: str) -> Counter[str]:
        """How many calls there are in these steps, by what the rows are; each comes with an object it is known by."""
        steps: dict[int, Sequence[Step]] = {}
        times = Counter[int]()
        for key, its in calls:
            steps[id(key)] = its
            times[id(key)] += 1
        found = Counter[str]()
        for number, its in steps.items():
            statements = self._statements.get(number)
            if statements is None:
                statements = self._statements[number] = Statements(its)
            for row, count in self._calls(statements, grouping).items():
                found[row] += count * times[number]
        return found

    def _calls(self, statements: Statements | None, grouping: str) -> dict[str, int]:
        """How many calls an execution stands for, by what the table's rows are."""
        if statements is None:
            return {}
        key = id(statements), grouping
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = {}
            for s in statements.all:
                row = _key(grouping, s.block, s.operator, s)
                found[row] = found.get(row, 0) + 1
        return found

    @cached_property
    def _counted(self) -> dict[tuple[int, str], dict[str, int]]:
        return {}

    @cached_property
    def _statements(self) -> dict[int, Statements]:
        return {}


class _Arguments:
    """What an event of the device says about itself; the same for every run of a program."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, object]] = {}

    def of(self, e: DeviceEvent) -> dict[str, object]:
        known = self._known.get((e.program, e.name))
        if known is None:
            known = self._known[e.program, e.name] = dict(self._read(e))
        return {**known, "hlo_op": e.name, "program": e.program, "run_id": e.run}

    def _read(self, e: DeviceEvent) -> Iterator[tuple[str, object]]:
        owner = e.owner
        if owner.site.block:
            yield "block", owner.site.block
        yield "operator", owner.site.operator
        yield "attribution", owner.how
        if len(owner.shares) > 1:
            shares: dict[str, float] = {}
            for site, share in owner.shares:
                shares[site.path] = shares.get(site.path, 0.0) + share
            yield "mx_ops", {path: round(share, 3) for path, share in shares.items()}
        found = statement(e, owner.site)
        if found is not None:
            if found.source:
                yield "source", found.source
            yield "shapes", found.shapes
        instruction = e.instruction
        if instruction is not None:
            yield "result", instruction.shape
            yield "flops", instruction.flops
            yield "bytes", instruction.traffic


def temporaries(program: Any) -> int:
    """The bytes that a run of a program needs beside its inputs and results; 0 where none is told."""
    found = _temporaries.get(program)
    if found is None:
        try:
            found = int(program.compiled.memory_analysis().temp_size_in_bytes)
        except (AttributeError, NotImplementedError, RuntimeError):
            found = 0
        _temporaries[program] = found
    return found


def _exchanges(name: str) -> bool:
    """Whether a wing's own program is one of the kvstore's."""
    return name.startswith("kvstore")


def _hybridized(e: DeviceEvent) -> bool:
    found = statement(e, e.owner.site)
    return found is not None and found.hybridized


_temporaries: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_arrows = itertools.count(1)


def _connect(source: Span, target: Span) -> None:
    number = next(_arrows)
    source.leaves = [*(source.leaves or ()), number]
    target.arrives = [*(target.arrives or ()), number]


def _name(step: Step) -> str:
    return step.call.name if step.call is not None else "?"


def _about(step: Step) -> dict[str, object]:
    """What a record says about itself."""
    found = Statement.of(step)
    about: dict[str, object] = {"shapes": found.shapes}
    if step.scope:
        about["block"] = step.scope
    if found.source:
        about["source"] = found.source
    return about


def _key(grouping: str, block: str, operator: str, found: Statement | None) -> str:
    """The row of the table that a call belongs to."""
    if grouping == "operator":
        return operator
    if grouping == "block":
        return block or "(no block)"
    if found is None:
        return operator
    return found.source if grouping == "source" else f"{operator} {found.shapes}"


def _us(start: int, stop: int) -> float:
    return (stop - start) / 1000
