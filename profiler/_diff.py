"""Two profiles side by side: what became slower, what faster, what is new."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from mxjax.errors import MXNetValueError

from . import _chrome
from ._recording import GROUPINGS

Times = dict[str, tuple[int, float]]  # by name: (calls, milliseconds)


def difference(a: str | os.PathLike[str], b: str | os.PathLike[str], most: int = 40) -> str:
    """A table of the operators of two profiles, the largest change first."""
    before, after = _times(a), _times(b)
    names = sorted(
        before.keys() | after.keys(), key=lambda n: (-abs(_ms(after, n) - _ms(before, n)), n)
    )
    heads = f"{'Name':<40}{'calls a':>10}{'calls b':>10}{'a (ms)':>14}{'b (ms)':>14}{'b - a':>14}{'b / a':>9}"
    lines = [heads, "-" * len(heads)]
    for name in names[:most]:
        lines.append(_row(name, before.get(name), after.get(name)))
    if len(names) > most:
        lines.append(f"... and {len(names) - most} more")
    lines.append("-" * len(heads))
    lines.append(_row("total", _total(before), _total(after)))
    return "\n".join(lines) + "\n"


def _row(name: str, a: tuple[int, float] | None, b: tuple[int, float] | None) -> str:
    (calls_a, ms_a), (calls_b, ms_b) = a or (0, 0.0), b or (0, 0.0)
    ratio = "gone" if b is None else "new" if a is None else f"{ms_b / ms_a:.2f}" if ms_a else "-"
    return (
        f"{name[:39]:<40}{calls_a:>10}{calls_b:>10}{ms_a:>14.4f}{ms_b:>14.4f}"
        f"{ms_b - ms_a:>+14.4f}{ratio:>9}"
    )


def _ms(times: Times, name: str) -> float:
    return times.get(name, (0, 0.0))[1]


def _total(times: Times) -> tuple[int, float]:
    return sum(n for n, _ in times.values()), sum(ms for _, ms in times.values())


def _times(profile: str | os.PathLike[str]) -> Times:
    """Operators and their times out of ``dumps(format="json")``, or a trace file."""
    try:
        text = os.fspath(profile)
        if not text.lstrip().startswith("{"):
            return _of_trace(_chrome.read(text)["traceEvents"])
        categories: Mapping[str, Any] = json.loads(text)["Time"]
        rows: Mapping[str, Any] = next((categories[k] for k in GROUPINGS if k in categories), {})
        return {name: (row["Count"], row["Total"]) for name, row in rows.items()}
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise MXNetValueError(
            "profiler.diff takes what profiler.dumps(format='json') gives, or the path of a trace "
            f"file; got {str(profile)[:60]!r}: {type(error).__name__}: {error}"
        ) from None


def _of_trace(events: list[dict[str, Any]]) -> Times:
    times: Times = {}
    for e in events:
        # A domain of the user's may be called `operator` too; its tasks ran nothing on a device.
        if e.get("ph") == "X" and e.get("cat") == "operator" and "hlo_op" in e.get("args", {}):
            # A fusion's time is divided between its operators, as the table does.
            for path, share in e.get("args", {}).get("mx_ops", {e["name"]: 1.0}).items():
                name = path.rpartition("/")[2]
                calls, ms = times.get(name, (0, 0.0))
                times[name] = calls + 1, ms + share * e["dur"] / 1000
    return times
