"""A trace in Perfetto's own format, from the events of the Chrome form: smaller, and quicker to open.

Field numbers: protos/perfetto/trace/{trace_packet,track_event/track_event,track_event/track_descriptor}.proto.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mxjax.hlo import fixed64, write

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_SEQUENCE = 1
_REALTIME, _BOOTTIME = 1, 6
_CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED


def encode(events: Iterable[dict[str, Any]], base: int) -> Iterator[bytes]:
    """The packets of a trace; `base` is the epoch nanosecond that the events' times count from."""
    tracks = _Tracks()
    body: list[tuple[int, int, bytes]] = []
    open_: dict[int, list[int]] = {}
    arrows: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    events = list(events)
    for e in events:
        if e["ph"] in ("s", "f"):
            key = (e["pid"], e["tid"], e["ts"])
            arrows.setdefault(key, {"s": [], "f": []})[e["ph"]].append(e["id"])
        elif e["ph"] == "M":
            tracks.name(e)
    for e in events:
        phase = e["ph"]
        if phase not in ("X", "i", "C"):
            continue
        start = base + round(e["ts"] * 1000)
        if phase == "C":
            for unit, value in e["args"].items():
                track = tracks.counter(e["pid"], e["name"], unit)
                fields = write((9, _COUNTER), (11, track), (44, float(value)))
                body.append((start, 0, _packet(start, fields)))
            continue
        track = tracks.thread(e["pid"], e["tid"])
        common = write((11, track), (22, e["cat"]), (23, e["name"]))
        for name, value in e.get("args", {}).items():
            common += write((4, _annotation(name, value)))
        if phase == "i":
            body.append((start, 0, _packet(start, write((9, _INSTANT)) + common)))
            continue
        ends = open_.setdefault(track, [])
        while ends and ends[-1] <= start:
            at = ends.pop()
            body.append((at, -len(ends) - 1, _end(at, track)))
        # An arrow joins the first span that starts with it; those inside start later or come after.
        at_start = arrows.pop((e["pid"], e["tid"], e["ts"]), {"s": [], "f": []})
        for number in at_start["s"]:
            common += fixed64(47, number)
        for number in at_start["f"]:
            common += fixed64(48, number)
        body.append((start, len(ends) + 1, _packet(start, write((9, _BEGIN)) + common)))
        # What took no time would end before it begins; and nothing ends after what is around it.
        stop = start + max(round(e["dur"] * 1000), 1)
        ends.append(min(stop, ends[-1]) if ends else stop)
    for track, ends in open_.items():
        while ends:
            at = ends.pop()
            body.append((at, -len(ends) - 1, _end(at, track)))
    # The epoch is told as the time of the day too, else viewers count days from the start of the clock.
    clocks = (write((1, clock), (2, base)) for clock in (_BOOTTIME, _REALTIME))
    yield write((1, write((6, write(*((1, clock) for clock in clocks))), (10, _SEQUENCE))))
    yield from tracks.packets()
    # At one time ends come before beginnings, the inner ends first and the outer beginnings first.
    body.sort(key=lambda item: (item[0], item[1]))
    for _, _, packet in body:
        yield packet


def _packet(time: int, event: bytes) -> bytes:
    return write((1, write((8, time), (10, _SEQUENCE), (11, event))))


def _end(time: int, track: int) -> bytes:
    return _packet(time, write((9, _END), (11, track)))


def _annotation(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return write((10, name), (2, int(value)))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return write((10, name), (4, value))
    if isinstance(value, float):
        return write((10, name), (5, value))
    return write((10, name), (6, value if isinstance(value, str) else json.dumps(value)))


class _Tracks:
    """Numbers and descriptions of processes, threads and counters."""

    def __init__(self) -> None:
        self._ids: dict[tuple[Any, ...], int] = {}
        self._described: list[bytes] = []
        self._processes: dict[int, str] = {}
        self._threads: dict[tuple[int, int], str] = {}
        self._order: dict[int, int] = {}

    def name(self, e: dict[str, Any]) -> None:
        """Take a name out of a metadata event."""
        if e["name"] == "process_name":
            self._processes[e["pid"]] = e["args"]["name"]
        elif e["name"] == "thread_name":
            self._threads[e["pid"], e["tid"]] = e["args"]["name"]
        elif e["name"] == "process_sort_index":
            self._order[e["pid"]] = e["args"]["sort_index"]

    def _new(self, key: tuple[Any, ...]) -> int:
        self._ids[key] = len(self._ids) + 1
        return self._ids[key]

    def _process(self, pid: int) -> int:
        known = self._ids.get(("process", pid))
        if known is None:
            known = self._new(("process", pid))
            about = write((1, pid), (6, self._processes.get(pid, str(pid))))
            order = write((12, self._order.get(pid, 0)))
            self._described.append(write((1, known), (3, about)) + order)
        return known

    def thread(self, pid: int, tid: int) -> int:
        """The track of a row."""
        known = self._ids.get(("thread", pid, tid))
        if known is None:
            parent = self._process(pid)
            known = self._new(("thread", pid, tid))
            about = write((1, pid), (2, tid), (5, self._threads.get((pid, tid), str(tid))))
            self._described.append(write((1, known), (5, parent), (4, about)))
        return known

    def counter(self, pid: int, name: str, unit: str) -> int:
        """The track of a counter."""
        known = self._ids.get(("counter", pid, name, unit))
        if known is None:
            parent = self._process(pid)
            known = self._new(("counter", pid, name, unit))
            about = write((3, 3)) if unit == "bytes" else write((6, unit))
            self._described.append(write((1, known), (5, parent), (2, name), (8, about)))
        return known

    def packets(self) -> Iterator[bytes]:
        """The descriptions of all tracks, which come first."""
        flags = write((13, _CLEARED))
        for about in self._described:
            yield write((1, write((10, _SEQUENCE)) + flags + write((60, about))))
            flags = b""
