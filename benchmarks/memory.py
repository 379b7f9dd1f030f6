"""`make bench-memory`: bytes, arithmetic and time of rematerialisation, each part in a process of its own.

    python benchmarks/memory.py [mirror] [sublinear] [plan] [dtr]

Figures and tables are left in bench_output/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
OUTPUT = FOLDER.parent / "bench_output"
PARTS = ("mirror", "sublinear", "plan", "dtr")


def main(parts: list[str]) -> int:
    unknown = [p for p in parts if p not in PARTS]
    if unknown:
        print(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    OUTPUT.mkdir(exist_ok=True)
    failed = 0
    figures: list[dict[str, Any]] = []
    for part in parts or PARTS:
        start = time.perf_counter()
        print(f"\n== {part}", flush=True)
        with open(OUTPUT / f"memory_{part}.txt", "w", encoding="utf-8") as out:
            process = subprocess.Popen(
                [sys.executable, "-u", str(FOLDER / f"memory_{part}.py")], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            for line in process.stdout:
                out.write(line)
                if line.startswith("["):  # the figures as JSON
                    figures += json.loads(line)
                else:
                    print(line, end="", flush=True)
        failed |= process.wait()
        print(f"-- {part}: {time.perf_counter() - start:.0f} s", flush=True)
    (OUTPUT / "memory.json").write_text(json.dumps(figures), encoding="utf-8")
    print(f"\n{table(figures)}\n\nbench_output/ holds the figures")
    return failed


def table(figures: list[dict[str, Any]]) -> str:
    """What has a goal, in Markdown."""
    lines = ["| what | goal | measured | |", "|---|--:|--:|---|"]
    for r in figures:
        if r["met"] is not None:
            least = r["at_least"] is not None
            goal = f"{'>=' if least else '<='} {r['at_least'] if least else r['at_most']:.4g}"
            verdict = "ok" if r["met"] else "miss"
            lines.append(f"| {r['what']} | {goal} | {r['value']:.3f} {r['unit']} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
