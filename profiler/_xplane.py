"""XLA's trace with the user's names in it, for TensorBoard: rows of operators, host, steps and counters.

XLA's own events stay as they are.  What is added lies in lines and planes of its own, and no event of it
has the statistic `hlo_op`, so whoever reads XLA's events (`_session.py`, `verify.py`) finds the same ones.

Field numbers: tsl/profiler/protobuf/xplane.proto.  On a CPU the device is the host: the operators' lines
stand in the plane `/host:CPU`, where TensorBoard's tables of operators look for them.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mxjax.files.atomic import read_whole, write_whole
from mxjax.hlo import read, write

from ._chrome import natural
from ._holdings import GROUPS
from ._recorder import Mark, Span
from ._steps import StepTimes

_IDS = {1: ("id", "int")}
_PLANE: dict[int, tuple[str, Any]] = {
    2: ("name", "str"),
    4: ("events", [_IDS]),
    5: ("stats", [_IDS]),
}
_ENVIRONMENT = {
    2: ("name", "str"),
    5: ("names", [{2: ("value", {1: ("id", "int"), 2: ("name", "str")})}]),
    6: ("stats", [{1: ("id", "int"), 3: ("value", "int"), 4: ("signed", "int")}]),
}
_SPACE = {
    1: ("planes", ["bytes"]),
    2: ("errors", ["str"]),
    3: ("warnings", ["str"]),
    4: ("hosts", ["str"]),
}
_HOST = "/host:CPU"
# TensorBoard shows a plane with such a name beside the ones it knows.
_OWN = "/device:CUSTOM:mxjax "
_FLOW_IN, _FLOW_OUT = 1, 2
_STEP = 100  # a kind of context of our own: what a step produced, its events consume
# The name under which TensorBoard's step times know a wait for the next batch.
_INPUT = "IteratorGetNext"
_STEPS = "steps"
# A name of XLA's own would make an event one of XLA's, or is not shown.
_RENAMED = {"hlo_op": "instruction", "flops": "floating_point_operations"}
# What differs from event to event of a kind.
_OF_ONE = ("run_id", "collected")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_./>-]")


def enrich(
    path: str, spans: Sequence[Span], marks: Iterable[Mark], steps: Iterable[StepTimes]
) -> None:
    """Add what the profiler knows to an XSpace file; it is at every moment a whole one, old or new.

    Raises:
      OSError, ValueError: there is no such file, or it is none of XLA's.
    """
    space = read(read_whole(path), _SPACE)
    base = _base(space["planes"])
    planes: dict[str, _Plane] = {}
    for raw in space["planes"]:
        if read(raw, {2: ("name", "str")}).get("name") == _HOST:
            planes[_HOST] = _Plane(_HOST, base, raw)

    def plane(name: str) -> _Plane:
        found = planes.get(name)
        if found is None:
            found = planes[name] = _Plane(name, base)
        return found

    starts: list[int] = []
    for step in steps:
        starts.append(step.start)
        stats: dict[str, Any] = {"_r": 1, "step_num": step.number, "_pt": _STEP, "_p": step.number}
        stats |= {f"{kind}_ms": round(ms, 3) for kind, ms in step.parts.items()}
        stop = step.start + int(step.total * 1e6)
        plane(_HOST).add(_STEPS, "train", step.start, stop, stats)

    def in_step(span: Span) -> dict[str, Any]:
        return {"_ct": _STEP, "_c": bisect.bisect(starts, span.start)}

    for span in spans:
        if span.category == "hlo_op":
            continue  # XLA's own, under its name
        if span.category == "operator":
            name = _framework_name(span)
            if span.process.startswith("cpu/"):
                line = f"{span.process} operators ({span.thread})"
                plane(_HOST).add_span(line, name, span, in_step(span))
            else:
                plane(_OWN + span.process).add_span(span.thread, name, span, {})
        elif span.category == "input":
            plane(_HOST).add_span(f"input ({span.thread})", _INPUT, span, in_step(span))
        else:
            line = span.thread if span.process == "host" else f"{span.process} ({span.thread})"
            plane(_OWN + "host").add_span(line, span.name, span, {})
    for mark in marks:
        # A row for each block and operator would leave no room for anything else.
        if not mark.scope and mark.process not in GROUPS:
            name = mark.name if mark.process == "Device Storage" else f"{mark.process}: {mark.name}"
            plane(_OWN + "host").add(
                "_counters_", name, mark.time, mark.time, {mark.unit: mark.value}
            )
    out = bytearray()
    for raw in space["planes"]:
        name = read(raw, {2: ("name", "str")}).get("name", "")
        out += write((1, planes.pop(name).bytes() if name in planes else raw))
    for added in planes.values():
        out += write((1, added.bytes()))
    for number, name in ((2, "errors"), (3, "warnings"), (4, "hosts")):
        out += write(*((number, text) for text in space[name]))
    write_whole(path, lambda file: file.write(out))


def _base(planes: Iterable[bytes]) -> int:
    """The epoch nanosecond that the times of a trace count from."""
    for raw in planes:
        if read(raw, {2: ("name", "str")}).get("name") == "Task Environment":
            plane = read(raw, _ENVIRONMENT)
            names = {n["value"].get("id", 0): n["value"].get("name") for n in plane["names"]}
            for stat in plane["stats"]:
                if names.get(stat.get("id", 0)) == "profile_start_time":
                    return int(stat.get("value", stat.get("signed", 0)))
    raise ValueError("the trace does not say when it began")


def _framework_name(span: Span) -> str:
    """`block/path/Convolution:Convolution`, the form that TensorBoard's tables of operators know.

    A type has to begin with a capital or an underscore there.
    """
    block = str((span.args or {}).get("block", ""))
    path = f"{block}/{span.name}" if block else span.name
    return (
        _NOT_IN_A_NAME.sub("_", path)
        + ":"
        + _NOT_IN_A_NAME.sub("_", span.name[:1].upper() + span.name[1:])
    )


class _Plane:
    """Lines, events and their descriptions to add to a plane, or to make a new one of."""

    def __init__(self, name: str, base: int, existing: bytes = b""):
        self._base = base
        self._head = existing or write((2, name))
        known = read(existing, _PLANE)
        self._first_event = 1 + max((e.get("id", 0) for e in known["events"]), default=0)
        self._first_stat = 1 + max((s.get("id", 0) for s in known["stats"]), default=0)
        self._events: dict[tuple[Any, ...], int] = {}
        self._stats: dict[str, int] = {}
        self._described = bytearray()
        self._lines: dict[str, bytearray] = {}

    def add_span(self, line: str, name: str, span: Span, own: dict[str, Any]) -> None:
        """An event with everything that the span knows, under `name` and shown as the span's own."""
        args = {_RENAMED.get(key, key): value for key, value in (span.args or {}).items()}
        own |= {key: args.pop(key) for key in _OF_ONE if key in args}
        flows = [(_FLOW_OUT, n) for n in span.leaves or ()] + [
            (_FLOW_IN, n) for n in span.arrives or ()
        ]
        for direction, number in flows[:1]:
            own["flow"] = direction | number << 2
        self.add(line, name, span.start, span.stop, own, shown=span.name, common=args)

    def add(
        self,
        line: str,
        name: str,
        start: int,
        stop: int,
        stats: dict[str, Any],
        shown: str = "",
        common: dict[str, Any] | None = None,
    ) -> None:
        """An event; `common` are the statistics that all of its kind share."""
        fields = write((1, self._event(name, shown, common or {})))
        fields += write((2, max(start - self._base, 0) * 1000), (3, max(stop - start, 1) * 1000))
        for key, value in stats.items():
            fields += write((4, self._value(key, value)))
        self._lines.setdefault(line, bytearray()).extend(write((4, fields)))

    def _event(self, name: str, shown: str, common: dict[str, Any]) -> int:
        key = name, shown, *(repr(v) if isinstance(v, dict) else v for v in common.values())
        number = self._events.get(key)
        if number is None:
            number = self._events[key] = self._first_event + len(self._events)
            about = write(
                (1, number), (2, name), *([(4, shown)] if shown and shown != name else [])
            )
            for stat, value in common.items():
                about += write((5, self._value(stat, value)))
            self._described += write((4, write((1, number), (2, about))))
        return number

    def _value(self, name: str, value: Any) -> bytes:
        number = self._stats.get(name)
        if number is None:
            number = self._stats[name] = self._first_stat + len(self._stats)
            about = write((1, number), (2, name))
            self._described += write((5, write((1, number), (2, about))))
        if isinstance(value, bool):
            return write((1, number), (4, int(value)))
        if isinstance(value, int) and -1 << 63 <= value < 1 << 63:
            return write((1, number), (4, value))
        if isinstance(value, float):
            return write((1, number), (2, value))
        return write((1, number), (5, value if isinstance(value, str) else json.dumps(value)))

    def bytes(self) -> bytes:
        """The plane with everything added."""
        out = bytearray(self._head)
        ordered = sorted(
            self._lines.items(), key=lambda item: (item[0] != _STEPS, natural(item[0]))
        )
        for number, (name, events) in enumerate(ordered, 1):
            # Small numbers come first in the viewer; threads of the system have large ones.
            out += write((3, write((1, number), (2, name)) + events))
        return bytes(out + self._described)
