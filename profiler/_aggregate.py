"""The aggregate statistics, in MXNet's table and MXNet's JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from ._holdings import GROUPS

SORT_KEYS = ("total", "avg", "min", "max", "count")
MEMORY_CATEGORIES = frozenset({"Device Storage", "Pool Memory", *GROUPS})


@dataclass(slots=True)
class Entry:
    """One row: durations in microseconds, or the values of a counter.

    For a counter MXNet's table holds the last value as the total and half the range, rounded down,
    as the average; readers of these tables know them so.
    """

    counter: bool = False
    count: int = 0
    timed: int = 0  # of them those with a time
    idle: int = 0  # and those that were not computed
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, total: float, count: int, low: float, high: float) -> None:
        """Add `count` calls; of a counter, one value."""
        self.count += count
        self.timed += count
        self.total = total if self.counter else self.total + total
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    @property
    def average(self) -> float:
        if self.counter:
            return float((self.high - self.low) // 2)
        return self.total / self.timed if self.timed else 0.0

    @property
    def least(self) -> float:
        return self.low if self.timed else 0.0

    @property
    def most(self) -> float:
        return self.high if self.timed else 0.0

    def key(self, sort_by: str) -> float:
        return {
            "total": self.total,
            "avg": self.average,
            "min": self.least,
            "max": self.most,
            "count": float(self.count),
        }[sort_by]


class Aggregate:
    """Statistics by category and name."""

    def __init__(self) -> None:
        self._categories: dict[str, dict[str, Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._categories)

    def clear(self) -> None:
        self._categories.clear()

    def category(self, category: str) -> dict[str, Entry]:
        """The rows of a category, which from now on appears even while it has none."""
        return self._categories.setdefault(category, {})

    def duration(self, category: str, name: str, microseconds: float) -> None:
        """Count one call."""
        self.durations(category, name, microseconds, 1, microseconds, microseconds)

    def durations(
        self, category: str, name: str, total: float, count: int, low: float, high: float
    ) -> None:
        """Count `count` calls that took `total` microseconds, each from `low` to `high`."""
        rows = self.category(category)
        entry = rows.get(name)
        if entry is None:
            entry = rows[name] = Entry()
        entry.add(total, count, low, high)

    def without_time(self, category: str, name: str, count: int, idle: int) -> None:
        """Count calls without a time of their own, of which so many were not computed at all."""
        entry = self.category(category).setdefault(name, Entry())
        entry.count += count
        entry.idle += idle

    def value(self, category: str, name: str, value: float) -> None:
        """Count one value of a counter."""
        rows = self.category(category)
        entry = rows.get(name)
        if entry is None:
            entry = rows[name] = Entry(counter=True)
        entry.add(value, 1, value, value)

    def _sorted(self, category: str, sort_by: str, ascending: bool) -> list[tuple[str, Entry]]:
        rows = sorted(self._categories[category].items())  # rows that tie stay in order of names
        return sorted(rows, key=lambda row: row[1].key(sort_by), reverse=not ascending)

    def table(self, sort_by: str = "total", ascending: bool = False) -> str:
        """MXNet's table; times in ms, memory in kB (thousands of bytes)."""
        lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
        for category in sorted(self._categories):
            memory = category in MEMORY_CATEGORIES
            columns = (
                ["Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"]
                if memory
                else ["Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"]
            )
            heads = ["Total Count", *columns]
            rules = ["-" * len(head) for head in heads]
            lines += [_line(category), "=" * 17, _row("Name", heads), _row("----", rules)]
            for name, entry in self._sorted(category, sort_by, ascending):
                values = [entry.least, entry.most, entry.average]
                if not memory:
                    values.insert(0, entry.total)
                cells = [str(entry.count), *(f"{value / 1000:.4f}" for value in values)]
                lines.append(_row(name, cells))
            lines.append("")
        for category, idle in self._idle().items():
            told = ", ".join(f"{_line(name)} {count}" for name, count in idle.items())
            lines.append(
                f"Calls of {category} that are counted and were not computed, because nobody read what they"
            )
            lines += [f"give or an equal call gave it: {told}", ""]
        return "\n".join(lines) + "\n"

    def _idle(self) -> dict[str, dict[str, int]]:
        """By category and name how many calls were not computed."""
        found = {
            category: {name: entry.idle for name, entry in sorted(rows.items()) if entry.idle}
            for category, rows in sorted(self._categories.items())
        }
        return {category: rows for category, rows in found.items() if rows}

    def json(self, sort_by: str = "total", ascending: bool = False) -> str:
        """MXNet's JSON: `{"Time": {category: {name: {Count, Total, Min, Max, Avg}}}, ...}`.

        Where calls were not computed, `"Not computed": {category: {name: calls}}` tells them.
        """
        out: dict[str, Any] = {"Time": {}, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}
        for category in sorted(self._categories):
            memory = category in MEMORY_CATEGORIES
            rows = out["Memory" if memory else "Time"].setdefault(category, {})
            for name, entry in self._sorted(category, sort_by, ascending):
                row: dict[str, float] = {"Count": entry.count}
                if not memory:
                    row["Total"] = _thousandth(entry.total)
                row["Min"] = _thousandth(entry.least)
                row["Max"] = _thousandth(entry.most)
                row["Avg"] = _thousandth(entry.average)
                rows[name] = row
        if idle := self._idle():
            out["Not computed"] = idle
        return json.dumps(out, indent=4) + "\n"


def _thousandth(value: float) -> float:
    return round(value / 1000, 6)


def _line(name: str) -> str:
    """A name as one line: the table's rows are lines."""
    return name.translate({9: r"\t", 10: r"\n", 13: r"\r"})


def _row(name: str, cells: list[str]) -> str:
    count, *others = cells
    return f"{_line(name):<25}{count:>16}" + "".join(f"{cell:>17}" for cell in others)
