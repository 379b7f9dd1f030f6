"""A profile as one page: pictures and tables, in a file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mxjax.display import notebooks

from . import _steps, _svg
from ._aggregate import Aggregate
from ._holdings import GROUPS
from ._recorder import Mark, Span
from ._recording import GROUPINGS, Recording

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 1020px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 2em 0 .5em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 2px 8px; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
.note { opacity: .75; } .scroll { overflow-x: auto; }
"""


def tables(recordings: Sequence[Recording]) -> dict[str, Aggregate]:
    """The statistics of these recordings, by grouping."""
    found = {grouping: Aggregate() for grouping in GROUPINGS}
    for recording in recordings:
        recording.add_to(found)
    return found


def rows_of(aggregate: Aggregate, category: str) -> list[tuple[str, int, float]]:
    """Name, calls and milliseconds of each row of a category."""
    return [
        (name, entry.count, entry.total / 1000)
        for name, entry in aggregate.category(category).items()
    ]


def body(recordings: Sequence[Recording], shares: dict[str, float], short: bool = False) -> str:
    """The page without its frame; `short` is what a notebook shows."""
    spans: list[Span] = [s for r in recordings for s in r.spans()]
    marks: list[Mark] = [m for r in recordings for m in r.marks()]
    steps = _steps.steps(recordings)
    found = tables(recordings)
    operators = rows_of(found["operator"], "operator")
    parts = []
    if steps:
        parts += ["<h2>Steps</h2>", _svg.step_bars(steps), _step_table(steps)]
    parts += ["<h2>Operators</h2>", _svg.operator_bars(operators)]
    if shares:
        text = ", ".join(f"{how} {100 * share:.1f} %" for how, share in shares.items())
        parts.append(
            f'<p class="note">Device time by how its operator is known: {escape(text)}.</p>'
        )
    if steps:
        last = steps[-1]
        start, stop = last.start, last.start + int(last.total * 1e6)
        title = "Timeline of the last step" if len(steps) > 1 else "Timeline"
        parts += [f"<h2>{title}</h2>", _svg.timeline(spans, start, stop)]
    for group in ("Device Storage", *(() if short else GROUPS)):
        picture = _svg.memory_lines(marks, group)
        if picture:
            parts += [f"<h2>{'Memory' if group == 'Device Storage' else group}</h2>", picture]
    if not short:
        for grouping, title in (
            ("operator", "By operator"),
            ("block", "By block"),
            ("source", "By source line"),
            ("shape", "By shape"),
        ):
            parts += [f"<h2>{title}</h2>", _table(rows_of(found[grouping], grouping))]
        compiles = [s for s in spans if s.category == "compile"]
        if compiles:
            cells = [
                (s.name, f"{(s.stop - s.start) / 1e6:.1f}", str((s.args or {}).get("reason", "")))
                for s in compiles
            ]
            parts += ["<h2>Compilations</h2>", _cells(("Program", "ms", "Reason"), cells)]
    return "\n".join(parts)


def page(recordings: Sequence[Recording], shares: dict[str, float], title: str) -> str:
    """The whole page."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n"
        f"{body(recordings, shares)}\n</body></html>\n"
    )


def _step_table(steps: Sequence[_steps.StepTimes]) -> str:
    n = len(steps)
    total = sum(s.total for s in steps) or 1.0
    cells = []
    for kind in _steps.KINDS:
        ms = sum(s.parts[kind] for s in steps)
        cells.append((kind, f"{ms / n:.3f}", f"{100 * ms / total:.1f} %", _steps.MEANING[kind]))
    return _cells((f"Mean of {n} steps", "ms", "share", "when"), cells)


def _table(rows: Sequence[tuple[str, int, float]], most: int = 60) -> str:
    total = sum(ms for _, _, ms in rows) or 1.0
    cells = [
        (name, str(calls), f"{ms:.3f}", f"{ms / calls:.4f}", f"{100 * ms / total:.1f} %")
        for name, calls, ms in sorted(rows, key=lambda r: -r[2])[:most]
    ]
    return _cells(("Name", "calls", "ms", "ms a call", "share"), cells)


def _cells(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f'<div class="scroll">{notebooks.table(heads, rows)}</div>'


class Shown:
    """What `profiler.show` returns: a notebook draws it, elsewhere it is the tables as text."""

    def __init__(self, recordings: Sequence[Recording], shares: dict[str, float]):
        self._html = f"<div>{body(recordings, shares, short=True)}</div>"
        found = tables(recordings)["operator"]
        self._text = _steps.table(_steps.steps(recordings)) + found.table()

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._text
