"""What code costs that runs before it is compiled: the table of `make bench-cold`.

    python benchmarks/cold.py            # make bench-cold
    MXJAX_BENCH_MXNET=<python with MXNet 2> make bench-cold

Each work runs in a process of its own, pinned to one core, twice; the lesser process CPU time counts. Figures and
table are left in ``bench_output/``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, NamedTuple

from run import OUTPUT, pin, processor, say, start

STEPS = ("lenet", "resnet18", "encoder")


class Line(NamedTuple):
    """A line of the table: what is measured, in which unit, and its goal: a number, or a share of a baseline's."""

    work: str
    key: str
    unit: str
    scale: float
    goal: float
    of: str = ""


LINES = [
    Line("an expression of a new shape", "expressions", "ms", 1e3, 0.2),
    Line("ragged training loop, first epoch", "ragged_first", "s", 1, 0.4),
    Line("the same, second epoch", "ragged_second", "s", 1, 0.14),
    Line("a Python loop over 1,000 elements", "elements", "s", 1, 0.15),
    *(
        Line(
            f"to the end of the third step, {work}, {way}",
            f"{work}_{way}",
            "s",
            1,
            1.3,
            f"{work}_jax",
        )
        for work in STEPS
        for way in ("imperative", "hybridized")
    ),
    *(
        Line(f"fresh Python numbers, {work}", f"numbers_{key}", "s", 1, 2, f"mxnet_numbers_{key}")
        for key, work in (
            ("policy", "40 episodes of 40"),
            ("adam", "textbook Adam, 200 steps"),
            ("replay", "a replay buffer, 300 steps"),
        )
    ),
    Line("400 small networks, one after the other", "programs_400", "MB", 1, 700),
    Line("the last 200 of them", "programs_growth", "MB", 1, 50),
]


def measure() -> dict[str, Any]:
    """Everything; processes that are compared take turns."""
    found: dict[str, Any] = {}
    frameworks = {"": (sys.executable, "mxjax")}
    if os.environ.get("MXJAX_BENCH_MXNET"):
        frameworks["mxnet_"] = (os.environ["MXJAX_BENCH_MXNET"], "mxnet")

    def take(prefix: str, python: str, script: str, *args: str) -> None:
        say(f"{prefix}{' '.join([script, *args])}")
        for key, value in start(python, script, *args).items():
            if isinstance(value, float):
                name = prefix + key
                found[name] = min(value, found.get(name, value))
            elif key == "programs":
                found[f"{prefix}programs_400"] = value[-1]
                found[f"{prefix}programs_growth"] = value[-1] - value[len(value) // 2 - 1]
            elif key == "framework":
                found[f"{prefix}framework"] = value

    for _ in range(2):
        for work in ("expressions", "ragged", "elements", "numbers"):
            for prefix, (python, framework) in frameworks.items():
                take(prefix, python, "cold_work.py", framework, work)
        for work in STEPS:
            for way in ("jax", "imperative", "hybridized"):
                take("", sys.executable, "cold_steps.py", work, way)
    for prefix, (python, framework) in frameworks.items():
        take(prefix, python, "cold_work.py", framework, "programs")
    return found


def table(t: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| work | unit | goal | measured | | MXNet | hand-written JAX |",
        "|---|---|--:|--:|---|--:|--:|",
    ]
    for work, key, unit, scale, goal, of in LINES:
        if key not in t or (of and of not in t):
            continue
        most = goal * t[of] if of else goal
        value = t[key] * scale
        mxnet = f"{t['mxnet_' + key] * scale:.3g}" if "mxnet_" + key in t else ""
        jax = f"{t[of]:.3g}" if of and not of.startswith("mxnet") else ""
        shown = (
            f"<= {goal:g} x {'MXNet' if of.startswith('mxnet') else 'JAX'}'s"
            if of
            else f"<= {goal:g}"
        )
        lines.append(
            f"| {work} | {unit} | {shown} | {value:.3g} | {'ok' if value <= most else 'miss'} | {mxnet} | {jax} |"
        )
    return "\n".join(lines)


def main() -> None:
    begin = time.perf_counter()
    pin()
    OUTPUT.mkdir(exist_ok=True)
    results = measure()
    text = table(results)
    (OUTPUT / "cold.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    (OUTPUT / "cold.md").write_text(text + "\n")
    print(f"{processor()}, one core; process CPU time, the lesser of two runs")
    print(text)
    if "mxnet_framework" not in results:
        print("Not compared: set MXJAX_BENCH_MXNET=<a Python that has it>.")
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")


if __name__ == "__main__":
    main()
