"""What the check found, as text, JSON or a page."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Sequence

from .check import Found

_ORDER = ("missing", "differs", "works")


def summary(found: Sequence[Found]) -> str:
    """How many uses are of each kind, and of how many names.

    >>> summary([Found("a.py", 1, "mx.nd.exp", "operator", "works")])
    '1 use of 1 name in 1 file: 0 missing, 0 differ, 1 works'
    """
    count = Counter(f.verdict for f in found)
    files, names = len({f.path for f in found}), len({f.name for f in found})

    def of(n: int, what: str) -> str:
        return f"{n} {what}" + "s" * (n != 1)

    return (
        f"{of(len(found), 'use')} of {of(names, 'name')} in {of(files, 'file')}: {count['missing']} missing, "
        f"{count['differs']} differ{'s' * (count['differs'] == 1)}, {count['works']} work{'s' * (count['works'] == 1)}"
    )


def as_text(found: Sequence[Found], everything: bool = False) -> str:
    """A line for each use that does not simply work, and the summary."""
    lines = []
    for f in found:
        if everything or f.verdict != "works":
            cell = f" (cell {f.cell})" if f.cell else ""
            see = f"  [{f.see}]" if f.see else ""
            lines.append(
                f"{f.path}:{f.line}{cell}: {f.verdict}: {f.name}{': ' if f.note else ''}{f.note}{see}"
            )
    return "\n".join([*lines, summary(found)])


def as_json(found: Sequence[Found]) -> str:
    """All uses, and how many there are of each kind."""
    counts = Counter(f.verdict for f in found)
    return json.dumps(
        {"counts": {v: counts[v] for v in _ORDER}, "found": [f._asdict() for f in found]}, indent=2
    )


def as_html(found: Sequence[Found]) -> str:
    """A page: names by verdict, with the lines that use them."""
    parts = []
    for verdict in _ORDER:
        uses: dict[tuple[str, str, str], list[str]] = {}
        for f in found:
            if f.verdict == verdict:
                uses.setdefault((f.name, f.note, f.see), []).append(f"{f.path}:{f.line}")
        rows = "".join(
            f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(note)} {html.escape(see)}"
            f"<td>{html.escape(', '.join(places[:8]))}{' ...' if len(places) > 8 else ''}"
            for (name, note, see), places in sorted(uses.items())
        )
        if rows:
            begin = " open" if verdict != "works" else ""
            parts.append(f"<details{begin}><summary>{verdict}: {len(uses)}</summary><table>"
                         f"<tr><th>name<th>what becomes of it<th>where{rows}</table></details>")  # fmt: skip
    style = "body{font:15px sans-serif;margin:2em}td,th{text-align:left;vertical-align:top;padding:.2em .8em}"
    return (f"<!doctype html><meta charset=utf-8><title>mxjax: port</title><style>{style}</style>"
            f"<h1>{html.escape(summary(found))}</h1>{''.join(parts)}\n")  # fmt: skip
