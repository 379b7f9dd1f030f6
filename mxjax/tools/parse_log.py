"""MXNet's tools/parse_log.py: what `Module.fit` logged, as a table of epochs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence

_LINE = re.compile(r"Epoch\[(\d+)\]\s+(Train-|Validation-|Time cost)([^=]*)=\s*([-+.\deE]+)")


def epochs(lines: Iterable[str]) -> dict[int, dict[str, str]]:
    """By epoch, counted from 0, what was logged: `train-accuracy`, `val-accuracy`, `time`; the last of each.

    >>> epochs(["INFO:root:Epoch[0] Train-accuracy=0.5", "Epoch[0] Time cost=2.500"])
    {0: {'train-accuracy': '0.5', 'time': '2.500'}}
    """
    found: dict[int, dict[str, str]] = {}
    for line in lines:
        for epoch, kind, name, value in _LINE.findall(line):
            key = (
                "time"
                if kind == "Time cost"
                else {"Train-": "train-", "Validation-": "val-"}[kind] + name
            )
            found.setdefault(int(epoch), {})[key] = value
    return found


def table(found: dict[int, dict[str, str]], metrics: Sequence[str], markdown: bool) -> str:
    """The epochs as MXNet's script prints them, counted from 1."""
    columns = [f"{of}-{name}" for of in ("train", "val") for name in metrics] + ["time"]
    rows = [["epoch", *columns]]
    if markdown:
        rows.append(["---"] * len(rows[0]))
    for epoch in sorted(found):
        numbers = [float(found[epoch].get(name, "nan")) for name in columns]
        rows.append([f"{epoch + 1:2d}", *[f"{n:f}" for n in numbers[:-1]], f"{numbers[-1]:.1f}"])
    return "\n".join("| " + " | ".join(row) + " |" if markdown else "\t".join(row) for row in rows)


def main(arguments: list[str]) -> int:
    """Prints the table of a log."""
    asked = argparse.ArgumentParser("parse_log.py", description="The epochs of a log as a table")
    asked.add_argument("logfile")
    asked.add_argument("--format", choices=("markdown", "none"), default="markdown")
    asked.add_argument(
        "--metric-names", nargs="+", default=["accuracy"], help="the metrics that are looked for"
    )
    given = asked.parse_args(arguments)
    with open(given.logfile, encoding="utf-8") as file:
        print(table(epochs(file), given.metric_names, given.format == "markdown"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
