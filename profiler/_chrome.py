"""One Chrome trace of everything: device, XLA, host, user; any trace viewer opens it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import isfinite
from typing import Any

from mxjax.errors import FormatError
from mxjax.files.atomic import read_whole, write_whole

from ._holdings import GROUPS
from ._recorder import RAW, Mark, Span

_SCOPES = {"global": "g", "thread": "t"}


def write(path: str, spans: Iterable[Span], marks: Iterable[Mark], about: dict[str, Any]) -> None:
    """Write a trace; the file at `path` is at every moment a whole one, the old or the new.

    Times are microseconds since the first event, whose epoch nanosecond is ``base_time_ns`` in
    ``otherData``: as epoch microseconds they would lose their last digits in a float.  A name that
    ends in ``.pftrace`` asks for Perfetto's own format.
    """
    spans, marks = list(spans), list(marks)
    base = min([s.start for s in spans] + [m.time for m in marks], default=0)
    save(path, events_of(spans, marks, base), {"base_time_ns": str(base), **about})


def save(path: str, events: Iterable[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write events; the file appears whole or not at all."""
    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, _write_perfetto if path.endswith(".pftrace") else _write_json, events, about)


def read(path: str) -> dict[str, Any]:
    """A trace file as it was written.

    Raises:
      OSError: there is none.
      FormatError: it is no JSON, or holds no list of events.
    """
    try:
        trace = json.loads(read_whole(path).decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is no trace: {error}") from None
    if isinstance(trace, list):  # the form's other kind
        trace = {"traceEvents": trace}
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        raise FormatError(f"{path} is no trace: it holds no list of traceEvents")
    return dict(trace)


def _write_perfetto(file: Any, events: Iterable[dict[str, Any]], about: dict[str, Any]) -> None:
    from ._perfetto import encode

    for packet in encode(events, int(about["base_time_ns"])):
        file.write(packet)


def _write_json(file: Any, events: Iterable[dict[str, Any]], about: dict[str, Any]) -> None:
    dump = json.JSONEncoder(separators=(",", ":")).encode
    file.write(b'{"displayTimeUnit":"ms","otherData":' + dump(about).encode())
    file.write(b',"traceEvents":[\n')
    lines, separator = _lines(events, dump), b""
    while some := list(islice(lines, 1000)):
        file.write(separator + ",\n".join(some).encode())
        separator = b",\n"
    file.write(b"\n]}\n")


def _lines(events: Iterable[dict[str, Any]], dump: Callable[[Any], str]) -> Iterator[str]:
    """Each event's text; what stands around the two numbers of a counter (there may be very many) is made once."""
    around: dict[tuple[Any, ...], tuple[str, str]] = {}
    for event in events:
        if event["ph"] == "C":
            ((unit, value),) = event["args"].items()
            if type(value) is float and isfinite(value):
                key = (event["name"], event["cat"], event["pid"], unit)
                if key not in around:
                    rest = {k: event[k] for k in event if k not in ("ts", "args")}
                    around[key] = dump(rest)[:-1] + ',"ts":', ',"args":{' + dump(unit) + ":"
                head, middle = around[key]
                yield f"{head}{event['ts']!r}{middle}{value!r}}}}}"
                continue
        yield dump(event)


def events_of(spans: Iterable[Span], marks: Iterable[Mark], base: int) -> Iterator[dict[str, Any]]:
    """The events of a Chrome trace, whose times count from `base`."""
    rows = _Rows()
    spans, marks = list(spans), list(marks)
    # Viewers order rows by their numbers.
    named = {(s.process, s.thread) for s in spans} | {
        (m.process, m.thread) for m in marks if m.scope
    }
    for process in sorted({p for p, _ in named} | {m.process for m in marks}, key=_place):
        rows.process(process)
    for process, thread in sorted(named, key=lambda row: (_place(row[0]), natural(row[1]))):
        rows.row(process, thread)
    for span in sorted(spans, key=lambda s: (s.start, -s.stop)):
        pid, tid = rows.lane(span)
        event: dict[str, Any] = {
            "ph": "X",
            "name": span.name,
            "cat": span.category,
            "ts": (span.start - base) / 1000,
            "dur": (span.stop - span.start) / 1000,
            "pid": pid,
            "tid": tid,
        }
        if span.args:
            event["args"] = span.args
        yield event
        for phase, numbers in (("s", span.leaves), ("f", span.arrives)):
            for number in numbers or ():
                arrow = {"ph": phase, "name": "recorded", "cat": "statement", "id": number}
                arrow |= {"ts": event["ts"], "pid": pid, "tid": tid}
                if phase == "f":
                    arrow["bp"] = "e"
                yield arrow
    for mark in sorted(marks, key=lambda m: m.time):
        event = {
            "name": mark.name,
            "cat": mark.category,
            "ts": (mark.time - base) / 1000,
            "pid": rows.process(mark.process),
        }
        if mark.scope:
            _, tid = rows.row(mark.process, mark.thread)
            yield event | {"ph": "i", "s": _SCOPES.get(mark.scope, "p"), "tid": tid}
        else:
            yield event | {"ph": "C", "args": {mark.unit: mark.value}}
    yield from rows.names()


class _Rows:
    """Numbers for processes and threads, small enough for every viewer.

    Events of one row must lie beside or inside each other.  Where they overlap otherwise (tasks of
    the user may), the later one goes to a further lane of the same row.
    """

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str, int], int] = {}
        self._open: dict[tuple[str, str, int], list[int]] = {}

    def process(self, process: str) -> int:
        return self._processes.setdefault(process, len(self._processes) + 1)

    def row(self, process: str, thread: str, lane: int = 0) -> tuple[int, int]:
        key = (process, thread, lane)
        # Apart from the numbers of processes: a thread that has its process's number is taken for
        # the main thread.
        return self.process(process), self._threads.setdefault(key, len(self._threads) + 1001)

    def lane(self, span: Span) -> tuple[int, int]:
        """The row of a span; spans come in the order of their starts, the longer ones first."""
        lane = 0
        while True:
            stack = self._open.setdefault((span.process, span.thread, lane), [])
            while stack and stack[-1] <= span.start:
                stack.pop()
            if not stack or span.stop <= stack[-1]:
                stack.append(span.stop)
                return self.row(span.process, span.thread, lane)
            lane += 1

    def names(self) -> Iterable[dict[str, Any]]:
        for process, pid in self._processes.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}
            order = {"ph": "M", "name": "process_sort_index", "pid": pid}
            yield order | {"args": {"sort_index": _order(process)}}
        for (process, thread, lane), tid in self._threads.items():
            name = thread if lane == 0 else f"{thread} ({lane + 1})"
            pid = self._processes[process]
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def natural(name: str) -> list[str | int]:
    """Orders `thread 10` after `thread 9`."""
    return [int(p) if p.isdecimal() else p for p in re.split(r"(\d+)", name)]


def _place(process: str) -> tuple[int, list[str | int]]:
    return _order(process), natural(process)


def _order(process: str) -> int:
    """Devices first, each with XLA's own names after it, then the host, the user's domains, memory."""
    return {
        "host": 20,
        "Custom Operator": 25,
        "Device Storage": 40,
        **dict.fromkeys(GROUPS, 41),
    }.get(process, 10 if process.removesuffix(RAW).partition("/")[2].isdigit() else 30)
