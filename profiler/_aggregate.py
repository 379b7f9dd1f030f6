"""The aggregate statistics, in MXNet's table and MXNet's JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

SORT_KEYS = ("total", "avg", "min", "max", "count")
MEMORY_CATEGORIES = frozenset({"Device Storage", "Pool Memory"})


@dataclass(slots=True)
class Entry:
    """One row: durations in microseconds, or the values of a counter.

    For a counter MXNet's table holds the last value as the total and half the range, rounded down,
    as the average; readers of these tables know them so.
    """

    counter: bool = False
    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, total: float, count: int, low: float, high: float) -> None:
        """Add `count` calls; of a counter, one value."""
        self.count += count
        self.total = total if self.counter else self.total + total
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    @property
    def average(self) -> float:
        if self.counter:
            return float((self.high - self.low) // 2)
        return self.total / self.count

    def key(self, sort_by: str) -> float:
        return {
            "total": self.total,
            "avg": self.average,
            "min": self.low,
            "max": self.high,
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
                values = [entry.low, entry.high, entry.average]
                if not memory:
                    values.insert(0, entry.total)
                cells = [str(entry.count), *(f"{value / 1000:.4f}" for value in values)]
                lines.append(_row(name, cells))
            lines.append("")
        return "\n".join(lines) + "\n"

    def json(self, sort_by: str = "total", ascending: bool = False) -> str:
        """MXNet's JSON: `{"Time": {category: {name: {Count, Total, Min, Max, Avg}}}, ...}`."""
        out: dict[str, Any] = {"Time": {}, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}
        for category in sorted(self._categories):
            memory = category in MEMORY_CATEGORIES
            rows = out["Memory" if memory else "Time"].setdefault(category, {})
            for name, entry in self._sorted(category, sort_by, ascending):
                row: dict[str, float] = {"Count": entry.count}
                if not memory:
                    row["Total"] = _thousandth(entry.total)
                row["Min"] = _thousandth(entry.low)
                row["Max"] = _thousandth(entry.high)
                row["Avg"] = _thousandth(entry.average)
                rows[name] = row
        return json.dumps(out, indent=4) + "\n"


def _thousandth(value: float) -> float:
    return round(value / 1000, 6)


def _line(name: str) -> str:
    """A name as one line: the table's rows are lines."""
    return name.translate({9: r"\t", 10: r"\n", 13: r"\r"})


def _row(name: str, cells: list[str]) -> str:
    count, *others = cells
    return f"{_line(name):<25}{count:>16}" + "".join(f"{cell:>17}" for cell in others)
