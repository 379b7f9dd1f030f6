"""Where the time of each training step went: waiting for input, dispatch, compiling, device, idle."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ._recording import Recording

# An instant that belongs to several is the first one's: what the device does while the host prepares
# the next batch costs no waiting.
KINDS = ("device", "collective", "compile", "input", "dispatch", "idle")
MEANING = {
    "device": "a device computes",
    "collective": "devices or processes exchange data, and none computes",
    "compile": "a program is compiled, and no device is busy",
    "input": "the host waits for a batch, and no device is busy",
    "dispatch": "the host records and starts work, and no device is busy",
    "idle": "none of these: the user's own Python, or waiting",
}

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step: its number, when it began (epoch nanoseconds), and milliseconds of each kind."""

    number: int
    start: int
    total: float
    parts: dict[str, float]


def steps(recordings: Iterable[Recording]) -> list[StepTimes]:
    """The steps, each from the end of one ``Trainer.step`` to the end of the next.

    What lies before the first end counts from the first event on.  Without any end everything is
    one step.
    """
    out: list[StepTimes] = []
    for recording in recordings:
        found = _intervals(recording)
        every = [i for intervals in found.values() for i in intervals]
        if not every:
            continue
        recorder = recording.recorder
        ends = sorted(s.stop for s in recorder.spans if (s.process, s.category) == ("host", "step"))
        first, last = min(a for a, _ in every), max(b for _, b in every)
        edges = [first, *(e for e in ends if first < e)]
        # What the device still does after the last step's end belongs to that step.
        edges[-1 if len(edges) > 1 else len(edges) :] = [max(last, edges[-1])]
        merged = {kind: _union(intervals) for kind, intervals in found.items()}
        for a, b in zip(edges, edges[1:], strict=False):
            out.append(StepTimes(len(out) + 1, a, (b - a) / 1e6, _divide(merged, a, b)))
    return out


def _intervals(recording: Recording) -> dict[str, list[Interval]]:
    recorder = recording.recorder
    found: dict[str, list[Interval]] = {kind: [] for kind in KINDS[:-1]}
    for e in recording.device_events:
        found["collective" if e.collective else "device"].append((e.start, e.stop))
    for span in recorder.spans:
        if span.process == "host" and span.category in ("input", "collective"):
            found[span.category].append((span.start, span.stop))
    found["compile"] = [(start, stop) for _, _, start, stop, _ in recorder.compiles]
    found["dispatch"] = [(start, stop) for _, start, stop, _ in recorder.records]
    found["dispatch"] += [(run.start, run.stop) for run in recorder.runs]
    return found


def _union(intervals: list[Interval]) -> list[Interval]:
    out: list[Interval] = []
    for a, b in sorted(intervals):
        if out and a <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], b)
        else:
            out.append((a, b))
    return out


def _divide(merged: dict[str, list[Interval]], start: int, stop: int) -> dict[str, float]:
    """The nanoseconds between two times, each given to the first kind that has it; in milliseconds."""
    free: list[Interval] = [(start, stop)]
    parts: dict[str, float] = {}
    for kind in KINDS[:-1]:
        before = _length(free)
        free = _without(free, merged[kind])
        parts[kind] = (before - _length(free)) / 1e6
    parts["idle"] = _length(free) / 1e6
    return parts


def _length(intervals: Sequence[Interval]) -> int:
    return sum(b - a for a, b in intervals)


def _without(free: Sequence[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """Both in order and without overlaps; what of the first the second leaves."""
    out: list[Interval] = []
    # A step is short, the recording long: begin where the step begins.
    at = bisect.bisect_right(taken, free[0][0], key=lambda interval: interval[1]) if free else 0
    for a, b in free:
        while at < len(taken) and taken[at][1] <= a:
            at += 1
        k = at
        while k < len(taken) and taken[k][0] < b:
            low, high = taken[k]
            if low > a:
                out.append((a, low))
            a = max(a, high)
            k += 1
        if a < b:
            out.append((a, b))
    return out


def table(found: Sequence[StepTimes], most: int = 20) -> str:
    """The steps as a table in milliseconds; of many the first and last ones, and always the mean."""
    heads = f"{'step':>8}{'total':>12}" + "".join(f"{kind:>12}" for kind in KINDS)
    lines = ["Step times (ms)", heads, "-" * len(heads)]
    half = most // 2
    shown = list(found) if len(found) <= most else [*found[:half], None, *found[-half:]]
    for step in shown:
        if step is None:
            lines.append(f"{'...':>8}")
        else:
            lines.append(_row(str(step.number), step.total, step.parts))
    if found:
        n = len(found)
        total = sum(s.total for s in found)
        parts = {kind: sum(s.parts[kind] for s in found) for kind in KINDS}
        lines.append("-" * len(heads))
        lines.append(_row("mean", total / n, {kind: ms / n for kind, ms in parts.items()}))
        if total:
            cells = "".join(f"{100 * parts[kind] / total:>11.1f}%" for kind in KINDS)
            lines.append(f"{'share':>8}{'':>12}{cells}")
    return "\n".join(lines) + "\n"


def _row(name: str, total: float, parts: dict[str, float]) -> str:
    return f"{name:>8}{total:>12.3f}" + "".join(f"{parts[kind]:>12.3f}" for kind in KINDS)
