"""The eighty most used operators at real sizes, forward and with gradient: the table of `make bench-ops`.

    python benchmarks/ops.py [TURNS]    # make bench-ops
    MXJAX_BENCH_MXNET=<python with MXNet 2> MXJAX_BENCH_TORCH=<python with PyTorch> make bench-ops

The operators of each network (`ops_rows.py`) run in processes of their own, pinned to one core and in one thread; they
take turns, two where nothing else is said, and the least process CPU time of a call counts, warm. Figures and table
are left in ``bench_output/``; status 1 where a goal is missed.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

from ops_rows import ROWS
from run import OUTPUT, pin, processor, say, start

WAYS = ("forward", "gradient")
#: The least geometric mean of the speeds over a framework's.
GOALS = {"mxnet": 1.2, "torch": 1.0}
#: Below so much of MXNet's speed a row has its reason.
REASON = 0.8


def measure(turns: int) -> dict[str, Any]:
    """Framework -> name, and operator -> way -> milliseconds."""
    pythons = {"mxjax": sys.executable}
    for name in GOALS:
        found = os.environ.get(f"MXJAX_BENCH_{name.upper()}")
        if found:
            pythons[name] = found
    results: dict[str, Any] = {name: {"times": {}} for name in pythons}
    for _ in range(turns):
        for network in ROWS:
            for name, python in pythons.items():
                say(f"{name} {network}")
                made = start(python, "ops_work.py", name, network)
                results[name]["framework"] = made["framework"]
                for work, times in made["times"].items():
                    old = results[name]["times"].setdefault(work, times)
                    for way, value in times.items():
                        old[way] = min(old[way], value)
    return results


def ratios(results: dict[str, Any], name: str, way: str) -> dict[str, float]:
    """Operator -> their time over ours."""
    ours, theirs = results["mxjax"]["times"], results.get(name, {"times": {}})["times"]
    return {
        w: theirs[w][way] / t[way] for w, t in ours.items() if way in t and way in theirs.get(w, ())
    }


def mean(values: Any) -> float:
    """The geometric mean."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def table(results: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| operator | forward, ms | MXNet's / ours | PyTorch's / ours | with gradient, ms | MXNet's / ours "
        "| PyTorch's / ours | |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    found = {(name, way): ratios(results, name, way) for name in GOALS for way in WAYS}
    for network, rows in ROWS.items():
        lines.append(f"| **{network}** | | | | | | | |")
        for row in rows:
            work = f"{row.name} {row.group}".strip()
            times = results["mxjax"]["times"][work]
            cells = []
            for way in WAYS:
                cells.append(f"{times[way]:.3g}" if way in times else "")
                for name in GOALS:
                    ratio = found[name, way].get(work)
                    cells.append("" if ratio is None else f"{ratio:.2f}")
            slow = any(found["mxnet", way].get(work, 1) < REASON for way in WAYS)
            lines.append(
                f"| {work} | {' | '.join(cells)} | {(row.reason or 'no reason known') if slow else ''} |"
            )
    return "\n".join(lines)


def verdicts(results: dict[str, Any]) -> tuple[list[str], bool]:
    """A line for each framework that was compared, and whether all goals are met."""
    lines, met = [], True
    for name, goal in GOALS.items():
        if name not in results:
            lines.append(
                f"Not compared with {name}: MXJAX_BENCH_{name.upper()} names no Python that has it."
            )
            continue
        parts = {way: ratios(results, name, way) for way in WAYS}
        both = mean([r for way in WAYS for r in parts[way].values()])
        met = met and both >= goal
        shown = ", ".join(
            f"{way} {mean(parts[way].values()):.2f} ({len(parts[way])})" for way in WAYS
        )
        verdict = "ok" if both >= goal else "miss"
        lines.append(
            f"Geometric mean of the speed over that of {results[name]['framework']}: {both:.2f}, goal {goal:g}: "
            f"{verdict}; {shown}."
        )
    known = {
        f"{row.name} {row.group}".strip(): row.reason for rows in ROWS.values() for row in rows
    }
    slow = {w for way in WAYS for w, r in ratios(results, "mxnet", way).items() if r < REASON}
    bare = sorted(w for w in slow if not known[w])
    if "mxnet" in results:
        without = ", ".join(bare) or "none"
        lines.append(
            f"Below {REASON} of MXNet's speed: {len(slow)} rows, without a reason: {without}."
        )
    return lines, met and not bare


def main() -> int:
    begin = time.perf_counter()
    pin()
    OUTPUT.mkdir(exist_ok=True)
    results = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    lines, met = verdicts(results)
    text = f"{table(results)}\n\n" + "\n".join(lines)
    (OUTPUT / "ops.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    (OUTPUT / "ops.md").write_text(text + "\n")
    print(f"{processor()}, one core and one thread, process CPU time of a call, warm")
    print(text)
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
