"""One stretch between the start and the stop of the profiler, and what can be made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ._aggregate import Aggregate
from ._attribution import Site
from ._recorder import SYNC_NAMES, Mark, Recorder, Span, thread_names
from ._session import DeviceEvent, read_trace

_CUSTOM = "Custom Operator"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which kinds of events the user asked for."""

    operators: bool = True
    memory: bool = True
    api: bool = True


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

    @cached_property
    def device_events(self) -> list[DeviceEvent]:
        """The device's events, without those that began while the profiler was paused."""
        if self.xplane is None:
            return []
        events = read_trace(self.xplane)
        return [e for e in events if not any(a <= e.start < b for a, b in self.paused)]

    def _customs(self) -> Iterator[tuple[str, int, int, int]]:
        """The Python of custom operators, and what was called inside: name, start, stop, thread."""
        customs = self.recorder.customs
        for name, start, stop, thread in customs:
            yield f"{name}::pure_python", start, stop, thread
        for name, start, stop, thread in self.recorder.records if customs else ():
            inside = [c for c in customs if c[3] == thread and c[1] <= start and stop <= c[2]]
            if inside:
                owner = max(inside, key=lambda c: c[1])[0]  # the innermost one
                yield f"{owner}::{name}", start, stop, thread

    def spans(self) -> Iterator[Span]:
        """Every stretch of time that belongs into the trace."""
        recorder, wanted = self.recorder, self.wanted
        yield from recorder.spans
        if wanted.operators:
            yield from self._device_spans()
            for name, start, stop, thread in recorder.records:
                yield Span("host", thread_names[thread], "dispatch", name, start, stop)
            for name, steps, start, stop, thread in recorder.runs:
                args: dict[str, object] = {"operators": len(steps)}
                yield Span("host", thread_names[thread], "run", f"run {name}", start, stop, args)
            for name, reason, start, stop, thread in recorder.compiles:
                args = {"reason": reason}
                yield Span(
                    "host", thread_names[thread], "compile", f"compile {name}", start, stop, args
                )
            for name, start, stop, thread in self._customs():
                yield Span(_CUSTOM, thread_names[thread], _CUSTOM, name, start, stop)
        if wanted.api:
            for name, start, stop, thread in recorder.syncs:
                api = SYNC_NAMES.get(name, name)
                yield Span("host", thread_names[thread], "MXNET_C_API", api, start, stop)

    def _device_spans(self) -> Iterator[Span]:
        for e in self.device_events:
            owner = e.owner
            args: dict[str, object] = {"hlo_op": e.name, "program": e.program, "run_id": e.run}
            if owner.site.block:
                args["block"] = owner.site.block
            args["attribution"] = owner.how
            if len(owner.shares) > 1:
                args["mx_ops"] = {site.path: round(share, 3) for site, share in owner.shares}
            name = owner.site.operator
            yield Span(e.device, e.line, "operator", name, e.start, e.stop, args)
            raw = {"hlo_module": e.program, "run_id": e.run}
            yield Span(f"XLA {e.device}", e.line, "hlo_op", e.name, e.start, e.stop, raw)

    def marks(self) -> Iterator[Mark]:
        """Counters and instants."""
        for mark in self.recorder.marks:
            if self.wanted.memory or mark.category != "Device Storage":
                yield mark

    def attribution(self) -> dict[str, float]:
        """Nanoseconds of device time by how well their operator is known."""
        out = {"exact": 0.0, "shared": 0.0, "inherited": 0.0, "none": 0.0}
        for e in self.device_events:
            out[e.owner.how] += e.own
        return out

    def add_to(self, aggregate: Aggregate) -> None:
        """Count everything into the table."""
        recorder, wanted = self.recorder, self.wanted
        for span in recorder.spans:
            aggregate.duration(span.category, span.name, _us(span.start, span.stop))
        for mark in self.marks():
            if mark.scope:
                aggregate.category(mark.category)
            else:
                aggregate.value(mark.category, mark.name, mark.value)
        if wanted.operators:
            self._add_operators(aggregate)
            for name, start, stop, _ in self._customs():
                aggregate.duration(_CUSTOM, name, _us(start, stop))
        if wanted.api:
            for name, start, stop, _ in recorder.syncs:
                aggregate.duration("MXNET_C_API", SYNC_NAMES.get(name, name), _us(start, stop))
            for _, start, stop, _ in recorder.records:
                aggregate.duration("MXNET_C_API", "MXImperativeInvoke", _us(start, stop))
            for _, _, start, stop, _ in recorder.runs:
                aggregate.duration("engine", "run", _us(start, stop))
            for _, _, start, stop, _ in recorder.compiles:
                aggregate.duration("engine", "compile", _us(start, stop))

    def _add_operators(self, aggregate: Aggregate) -> None:
        """Device time by operator; the time of dispatch where the device was not seen."""
        recorder = self.recorder
        if not self.device_events:
            for name, start, stop, _ in recorder.records:
                aggregate.duration("operator", name, _us(start, stop))
            return
        # A fused instruction's time is divided between its operators.  What counts is the call of
        # an operator, not the instructions that XLA made of it: the engine knows the calls; of
        # operators that it did not call itself (gradients of a whole block) the places count.
        called: Counter[str] = Counter()
        for times, steps in _times_run(recorder.runs):
            for name in _operators(steps):
                called[name] += times
        passes: dict[str, list[tuple[float, int]]] = {}  # per operator: (time, places) of each run
        for group in _by_run(self.device_events):
            spent: dict[Site, float] = {}
            for e in group:
                for site, share in e.owner.shares:
                    spent[site] = spent.get(site, 0.0) + e.own * share
            of_operator: dict[str, tuple[float, int]] = {}
            for site, time in spent.items():
                before = of_operator.get(site.operator, (0.0, 0))
                of_operator[site.operator] = before[0] + time, before[1] + 1
            for operator, pair in of_operator.items():
                passes.setdefault(operator, []).append(pair)
        for operator, pairs in passes.items():
            places = sum(n for _, n in pairs)
            count = called.get(operator, places)
            per_call = [time / n * places / count / 1000 for time, n in pairs]
            total = sum(time for time, _ in pairs) / 1000
            category = _CUSTOM if "::" in operator else "operator"
            aggregate.durations(category, operator, total, count, min(per_call), max(per_call))


def _times_run(runs: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Sequence[Any]]]:
    """How often each list of steps ran."""
    counts: dict[int, tuple[int, Sequence[Any]]] = {}
    for _, steps, *_ in runs:
        counts[id(steps)] = counts.get(id(steps), (0, steps))[0] + 1, steps
    return counts.values()


def _operators(steps: Sequence[Any]) -> Iterator[str]:
    """The operators that a run of these steps calls, those inside hybridized blocks included."""
    for step in steps:
        graph = getattr(step.call, "graph", None)
        if graph is None:
            yield step.call.name
        else:
            yield from _operators(graph.steps)


def _by_run(events: Iterable[DeviceEvent]) -> Iterable[list[DeviceEvent]]:
    """The events of each execution of a program on a device."""
    groups: dict[tuple[str, int, str], list[DeviceEvent]] = {}
    for e in events:
        groups.setdefault((e.program, e.run, e.device), []).append(e)
    return groups.values()


def _us(start: int, stop: int) -> float:
    return (stop - start) / 1000
