"""Parts of a benchmark, each in a process of its own, and one table of what they have measured.

A part prints lines for people, and lines of JSON: lists of figures, ``{what, value, unit, at_most, at_least, met}``;
`value` is None for what could not be measured, and `unit` says why. ``stricter: True`` marks a figure whose baseline is
stricter than that of the goal, beside one of that baseline: the table tells whether it meets the goal too, the status
does not go by it. A part that ends with another status than 0 is a figure too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
OUTPUT = FOLDER.parent / "bench_output"


def main(name: str, parts: Sequence[str], arguments: list[str]) -> int:
    """Run ``NAME_PART.py`` for the parts that are asked for, or for all; 1 if one failed or missed a goal, else 0.

    Args:
      name: of the benchmark; ``bench_output/NAME.json`` gets the figures, ``NAME_PART.txt`` the output.
      parts: all there are.
      arguments: of the command line: parts, then options, which every part gets.
    """
    asked = [a for a in arguments if not a.startswith("-")]
    options = arguments[len(asked) :]
    unknown = [p for p in asked if p not in parts]
    if unknown:
        print(f"there is no part {unknown[0]!r}; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    OUTPUT.mkdir(exist_ok=True)
    figures: list[dict[str, Any]] = []
    for part in asked or parts:
        start = time.perf_counter()
        print(f"\n== {part}", flush=True)
        command = [sys.executable, "-u", str(FOLDER / f"{name}_{part}.py"), *options]
        with (
            open(OUTPUT / f"{name}_{part}.txt", "w", encoding="utf-8") as out,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                out.write(line)
                if line.startswith("["):  # the figures as JSON
                    figures += json.loads(line)
                else:
                    print(line, end="", flush=True)
        status = process.returncode
        if status:
            failed = {
                "what": f"{part}: exit status",
                "value": status,
                "unit": "",
                "at_most": 0,
                "at_least": None,
            }
            figures.append({**failed, "met": False})
        print(
            f"-- {part}: {time.perf_counter() - start:.0f} s{f', status {status}' if status else ''}",
            flush=True,
        )
    (OUTPUT / f"{name}.json").write_text(json.dumps(figures), encoding="utf-8")
    print(f"\n{table(figures)}\n\nbench_output/ holds the figures")
    return int(any(f["met"] is False and not f.get("stricter") for f in figures))


def table(figures: list[dict[str, Any]]) -> str:
    """What has a goal, in Markdown."""
    lines = ["| what | goal | measured | |", "|---|--:|--:|---|"]
    for r in figures:
        if r["at_least"] is None and r["at_most"] is None:
            continue
        least = r["at_least"] is not None
        goal = f"{'>=' if least else '<='} {r['at_least'] if least else r['at_most']:.4g}"
        if r["value"] is None:
            lines.append(f"| {r['what']} | {goal} | - | {r['unit']} |")
        else:
            verdict = "ok" if r["met"] else "miss"
            if r.get("stricter"):
                verdict += " (stricter than the goal)"
            lines.append(f"| {r['what']} | {goal} | {r['value']:.4g} {r['unit']} | {verdict} |")
    return "\n".join(lines)
