"""Pictures of a profile as SVG, which every browser and every notebook shows by itself."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from html import escape

from ._recorder import RAW, Mark, Span
from ._steps import KINDS, StepTimes

WIDTH = 960
COLOURS = {
    "device": "#2e7d4f",
    "collective": "#7b4fa3",
    "compile": "#c2571a",
    "input": "#b8860b",
    "dispatch": "#2f6db3",
    "idle": "#b9bec6",
}
_PALETTE = (
    "#2f6db3", "#2e7d4f", "#c2571a", "#7b4fa3", "#b8860b", "#a33b4f", "#2b8a94", "#6b7280",
    "#8a6d3b", "#4b5fc0", "#588157", "#b5548a",
)  # fmt: skip


def colour(name: str) -> str:
    """The colour of an operator, the same in every picture."""
    return _PALETTE[zlib.crc32(name.encode()) % len(_PALETTE)]


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="100%" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif" font-size="12">'
        + "".join(parts)
        + "</svg>"
    )


def _rect(x: float, y: float, w: float, h: float, fill: str, title: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(w, 0.3):.2f}" height="{h:.1f}" fill="{fill}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'


def step_bars(steps: Sequence[StepTimes], most: int = 60) -> str:
    """One bar a step, divided by where its time went."""
    shown = steps[-most:]
    top, height, left = 28, 180, 56
    longest = max((s.total for s in shown), default=0.0) or 1.0
    wide = (WIDTH - left - 8) / max(len(shown), 1)
    parts = []
    x = float(left)
    for kind in KINDS:
        parts += [_rect(x, 4, 10, 10, COLOURS[kind], kind), _text(x + 14, 13, kind)]
        x += 26 + 7 * len(kind)
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        parts.append(
            f'<line x1="{left}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" opacity=".2"/>'
        )
        parts.append(_text(left - 4, y + 4, f"{longest * share:.3g} ms", "end"))
    for i, step in enumerate(shown):
        y = float(top + height)
        for kind in KINDS:
            tall = height * step.parts[kind] / longest
            y -= tall
            if tall > 0:
                title = f"step {step.number}: {kind} {step.parts[kind]:.3f} of {step.total:.3f} ms"
                parts.append(
                    _rect(left + i * wide, y, min(wide * 0.85, 48), tall, COLOURS[kind], title)
                )
    parts.append(
        _text(
            left,
            top + height + 16,
            f"steps {shown[0].number} to {shown[-1].number}" if shown else "",
        )
    )
    return _svg(top + height + 24, parts, "time of each step")


def operator_bars(rows: Sequence[tuple[str, int, float]], most: int = 20) -> str:
    """The operators (name, calls, milliseconds) with the most time."""
    shown = sorted(rows, key=lambda r: -r[2])[:most]
    total = sum(ms for _, _, ms in rows) or 1.0
    largest = max((ms for _, _, ms in shown), default=0.0) or 1.0
    left, row = 250, 19
    parts = []
    for i, (name, calls, ms) in enumerate(shown):
        y = i * row + 4
        short = name if len(name) <= 38 else "…" + name[-37:]
        parts.append(_text(left - 6, y + 12, short, "end"))
        wide = (WIDTH - left - 190) * ms / largest
        title = f"{name}: {ms:.3f} ms in {calls} calls"
        parts.append(_rect(left, y, wide, row - 5, colour(name), title))
        parts.append(
            _text(left + wide + 6, y + 12, f"{ms:.3f} ms  {100 * ms / total:.1f} %  x{calls}")
        )
    return _svg(len(shown) * row + 8, parts, "operators by time")


def timeline(spans: Sequence[Span], start: int, stop: int, most: int = 4000) -> str:
    """What ran between two times (epoch nanoseconds): a row per device, thread and domain."""
    inside = [s for s in spans if s.stop > start and s.start < stop and not s.process.endswith(RAW)]
    inside = sorted(inside, key=lambda s: s.start - s.stop)[:most]  # the longest are worth seeing
    rows: dict[tuple[str, str, int], list[Span]] = {}
    open_: dict[tuple[str, str, int], int] = {}
    for s in sorted(inside, key=lambda s: (s.start, -s.stop)):
        lane = 0
        while open_.get((s.process, s.thread, lane), 0) > s.start:
            lane += 1
        open_[s.process, s.thread, lane] = s.stop
        rows.setdefault((s.process, s.thread, lane), []).append(s)
    left, row = 190, 18
    scale = (WIDTH - left - 4) / max(stop - start, 1)
    parts = []
    y = 4
    for key in sorted(rows, key=lambda k: (not k[0][-1:].isdigit(), k)):
        process, thread, lane = key
        if lane == 0:
            parts.append(_text(left - 6, y + 12, f"{process} {thread}"[-28:], "end"))
        for s in rows[key]:
            a, b = max(s.start, start), min(s.stop, stop)
            title = f"{s.name}: {(s.stop - s.start) / 1e6:.3f} ms"
            for name in ("block", "source", "shapes", "reason"):
                if s.args and s.args.get(name):
                    title += f"\n{name}: {s.args[name]}"
            fill = colour(s.name) if s.category not in COLOURS else COLOURS[s.category]
            parts.append(
                _rect(left + (a - start) * scale, y, (b - a) * scale, row - 4, fill, title)
            )
        y += row
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + (WIDTH - left - 4) * share
        anchor = "end" if share == 1 else "middle" if share else "start"
        parts.append(_text(x, y + 14, f"{(stop - start) * share / 1e6:.2f} ms", anchor))
    return _svg(y + 22, parts, "timeline")


def memory_lines(marks: Sequence[Mark], group: str) -> str:
    """The counters of one group over time, in megabytes."""
    tracks: dict[str, list[tuple[int, float]]] = {}
    for mark in sorted(marks, key=lambda m: m.time):
        if mark.process == group and not mark.scope:
            tracks.setdefault(mark.name, []).append((mark.time, mark.value))
    if not tracks:
        return ""
    start = min(t for points in tracks.values() for t, _ in points)
    stop = max(t for points in tracks.values() for t, _ in points)
    top = max(v for points in tracks.values() for _, v in points) or 1.0
    left, height, low = 70, 150, 12
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = low + height * (1 - share)
        parts.append(
            f'<line x1="{left}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" opacity=".2"/>'
        )
        parts.append(_text(left - 4, y + 4, f"{top * share / 1e6:.3g} MB", "end"))
    legend = low + height + 18
    for i, (name, points) in enumerate(sorted(tracks.items())):
        corners = []
        before = points[0][1]
        for t, v in _thinned(points):
            x = left + (WIDTH - left - 4) * (t - start) / max(stop - start, 1)
            corners += [(x, before), (x, v)]
            before = v
        line = " ".join(f"{x:.1f},{low + height * (1 - v / top):.1f}" for x, v in corners)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour(name)}" stroke-width="1.5">'
            f"<title>{escape(name)}</title></polyline>"
        )
        x, y = left + (i % 4) * 220, legend + (i // 4) * 16
        parts += [_rect(x, y - 9, 10, 10, colour(name), name), _text(x + 14, y, name[-28:])]
    return _svg(legend + (len(tracks) + 3) // 4 * 16, parts, f"{group} over time")


def _thinned(points: Sequence[tuple[int, float]], most: int = 600) -> list[tuple[int, float]]:
    """At most so many points; of each stretch the highest value, so that no peak is lost."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    chunks = [points[i : i + size] for i in range(0, len(points), size)]
    return [(chunk[0][0], max(v for _, v in chunk)) for chunk in chunks]
