"""A checker of traces: what must hold of every file that the profiler writes.

>>> from mxjax.profiler import verify
>>> verify.check("profile.json")  # doctest: +SKIP
[]
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from mxjax.files.atomic import read_whole

from ._session import reading

_PHASES = frozenset("XCiMsf")
_LIMIT = 1 << 31
_ROW = ["pid", "tid"]
_NUMBERS = {"X": _ROW, "i": _ROW, "s": [*_ROW, "id"], "f": [*_ROW, "id"]}


def check(path: str) -> list[str]:
    """What is wrong with the trace at `path`; an empty list where nothing is.

    The form is checked (phases, numbers, nesting on every row, every process named, arrows), and that
    the device's events are exactly those in the XSpace files that the trace names, once under the
    names of operators and once under XLA's.

    Raises:
      OSError: there is no such file.
    """
    if os.fspath(path).endswith(".pftrace"):
        return ["a .pftrace is not checked: write the trace to a name that ends in .json"]
    try:
        trace = json.loads(read_whole(path))
    except ValueError as error:
        return [f"not JSON: {error}"]
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        return ["no list of traceEvents"]
    problems = [p for e in events for p in _form(e)]
    if problems:
        return problems[:20]
    about = trace.get("otherData", {})
    return [*_names(events), *_nesting(events), *_arrows(events), *_device(events, about)][:20]


def _form(event: dict[str, Any]) -> list[str]:
    out = []
    phase = event.get("ph")
    if phase not in _PHASES:
        out.append(f"phase {phase!r}, expected one of {''.join(sorted(_PHASES))}")
    if not isinstance(event.get("name"), str):
        out.append("no name")
    numbers = ["ts", "dur"] if phase == "X" else ["ts"] if phase in ("C", "i", "s", "f") else []
    for key in numbers:
        value = event.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e15:
            out.append(f"{key}={value!r}, expected microseconds from 0 on")
    for key in _NUMBERS.get(str(phase), ["pid"]):
        value = event.get(key)
        if type(value) is not int or not 0 <= value < _LIMIT:
            out.append(f"{key}={value!r}, expected a whole number below 2**31")
    return [f"{problem} in {event}" for problem in out]


def _names(events: list[dict[str, Any]]) -> list[str]:
    named = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return [f"process {pid} has no name" for pid in {e["pid"] for e in events} - named]


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _nesting(events: list[dict[str, Any]]) -> list[str]:
    """Spans of one row lie beside or inside each other."""
    rows: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for e in events:
        if e["ph"] == "X":
            start = _ns(e["ts"])
            negative_stop = -start - _ns(
                e["dur"]
            )  # sorts the longer of two that start together first
            rows.setdefault((e["pid"], e["tid"]), []).append((start, negative_stop, e["name"]))
    out = []
    for row, spans in rows.items():
        open_: list[tuple[int, str]] = []
        for start, negative_stop, name in sorted(spans):
            stop = -negative_stop
            while open_ and open_[-1][0] <= start:
                open_.pop()
            if open_ and stop > open_[-1][0]:
                out.append(f"{name!r} on row {row} overlaps {open_[-1][1]!r} and is not inside it")
            open_.append((stop, name))
    return out


def _arrows(events: list[dict[str, Any]]) -> list[str]:
    """Each arrow leads from one span forward in time to one other."""
    starts = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
    ends: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for e in events:
        if e["ph"] in ("s", "f"):
            ends.setdefault(e["id"], {"s": [], "f": []})[e["ph"]].append(e)
    out = []
    for number, pair in ends.items():
        if len(pair["s"]) != 1 or len(pair["f"]) != 1:
            out.append(f"arrow {number} has {len(pair['s'])} beginnings, {len(pair['f'])} ends")
        elif pair["s"][0]["ts"] > pair["f"][0]["ts"]:
            out.append(f"arrow {number} leads back in time")
        elif any((e["pid"], e["tid"], e["ts"]) not in starts for (e,) in pair.values()):
            out.append(f"arrow {number} does not lead from a span to a span")
    return out


def _device(events: list[dict[str, Any]], about: dict[str, Any]) -> list[str]:
    """Both device rows hold the same events as XLA's own trace."""
    base = int(about.get("base_time_ns", 0))

    def times(e: dict[str, Any]) -> tuple[int, int]:
        start = base + _ns(e["ts"])
        return start, start + _ns(e["dur"])

    spans = [e for e in events if e["ph"] == "X"]
    raw = Counter(
        (e["name"], *times(e))
        for e in spans
        if e["cat"] == "hlo_op" and "run_id" in e.get("args", {})
    )
    renamed = Counter(
        (e["args"]["hlo_op"], *times(e))
        for e in spans
        if e["cat"] == "operator" and "hlo_op" in e.get("args", {})
    )
    out = []
    if raw != renamed:
        lost = sum((raw - renamed).values()) + sum((renamed - raw).values())
        out.append(f"{lost} events differ between the operators' rows and XLA's")
    paths = about.get("xplane", [])
    if all(os.path.exists(p) for p in paths):
        pauses = [(int(a), int(b)) for a, b in about.get("paused_ns", [])]
        truth: Counter[tuple[str, int, int]] = Counter()
        for path in paths:
            truth.update(e for e in _xla_events(path) if not any(a <= e[1] < b for a, b in pauses))
        lost, extra = _differences(truth, raw)
        if about.get("operators") and lost + extra:
            out.append(f"of XLA's {truth.total()} events {lost} are missing; {extra} are not XLA's")
    return out


def _differences(
    truth: Counter[tuple[str, int, int]], raw: Counter[tuple[str, int, int]]
) -> tuple[int, int]:
    """How many of XLA's events are missing, and how many are not XLA's.

    Of a kernel in a CUDA graph XLA tells the graph's name, and ours its instruction's: their times are compared.
    """
    named = Counter({e: n for e, n in truth.items() if not e[0].startswith("command_buffer")})
    graphs = _times(truth - named)
    others = _times(raw - named)
    return (named - raw).total() + (graphs - others).total(), (others - graphs).total()


def _times(events: Counter[tuple[str, int, int]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for (_, start, stop), n in events.items():
        found[start, stop] += n
    return found


@reading()
def _xla_events(path: str) -> list[tuple[str, int, int]]:
    """Name, start and stop (epoch nanoseconds) of the instructions in an XSpace file."""
    from jax.profiler import ProfileData

    data = ProfileData.from_file(path)
    base = 0
    found = []
    for plane in data.planes:
        if plane.name == "Task Environment":
            base = int(dict(plane.stats)["profile_start_time"])
        for line in plane.lines:
            if plane.name.startswith("/device:") and line.name.startswith("XLA "):
                continue  # derived from the lines of the streams
            for event in line.events:
                op = dict(event.stats).get("hlo_op")
                if op is not None:
                    found.append((op, event.start_ns, event.start_ns + event.duration_ns))
    return [(op, base + int(start), base + int(stop)) for op, start, stop in found]
