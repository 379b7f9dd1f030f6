"""What reading data costs: the table of `make bench-data`.

    python benchmarks/data.py            # make bench-data
    MXJAX_BENCH_MXNET=<python with MXNet 2> MXJAX_BENCH_TORCH=<python with torchvision> make bench-data

Works run in processes of their own, pinned to one core, and take turns three times; the least process CPU time counts.
Only the first batch of a loader with four workers is measured on the wall, on all cores. Figures and table are left in
``bench_output/``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any, NamedTuple

from run import OUTPUT, pin, processor, say, start

TURNS = 3


class Line(NamedTuple):
    """A line of the table: what is measured; its unit for seconds of one; the least ratio to each baseline."""

    work: str
    key: str
    unit: str
    of: float
    goals: dict[str, float]


LINES = [
    Line(
        "JPEG 256 x 256: cut, mirrored, normalised",
        "records",
        "images/s",
        1,
        {"mxnet": 1.0, "torch": 1.0},
    ),
    Line("the same, resized to 224 first", "resized", "images/s", 1, {"mxnet": 1.0, "torch": 1.0}),
    Line("records read in order", "sequential", "MB/s", 1, {"mxnet": 0.8}),
    Line("records read by their keys", "random", "records/s", 1, {"mxnet": 1.0}),
]
TRANSFORMS = (
    *("ToTensor", "Normalize", "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop"),
    *(
        "RandomFlipLeftRight",
        "RandomFlipTopBottom",
        "RandomBrightness",
        "RandomContrast",
        "RandomSaturation",
    ),
    *("RandomHue", "RandomColorJitter", "RandomLighting", "RandomGray", "Rotate", "usual"),
)
LINES += [
    Line(f"{name} of one picture, {side}", f"transform {name}{suffix}", "pictures/s", 1, {"mxnet": 1 / 1.5})
    for side, suffix in (("256 x 264", ""), ("72 x 80", " small"))
    for name in TRANSFORMS
]  # fmt: skip
FIRST_BATCH = 2.0  # seconds, at most


def measure(folder: str) -> dict[str, Any]:
    """Everything: name of the framework and work -> the least seconds."""
    mxnet, torch = os.environ.get("MXJAX_BENCH_MXNET"), os.environ.get("MXJAX_BENCH_TORCH")
    found: dict[str, Any] = {}

    def take(framework: str, python: str, script: str, *args: str) -> None:
        say(f"{framework} {args[-1]}")
        for key, value in start(python, script, *args).items():
            name = f"{framework} {key}"
            found[name] = min(value, found.get(name, value)) if isinstance(value, float) else value

    take("mxjax", sys.executable, "data_work.py", "mxjax", folder, "write")
    take("mxjax", sys.executable, "data_work.py", "mxjax", folder, "loader")
    if mxnet:
        take("mxnet", mxnet, "data_work.py", "mxnet", folder, "loader")
    pin()
    for _ in range(TURNS):
        for work in ("records", "resized", "read", "transforms"):
            take("mxjax", sys.executable, "data_work.py", "mxjax", folder, work)
            if mxnet:
                take("mxnet", mxnet, "data_work.py", "mxnet", folder, work)
            if torch and work in ("records", "resized"):
                take("torch", torch, "data_torch.py", folder, work)
    return found


def table(t: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| work | unit | ours | compared with | theirs | ratio | goal | |",
        "|---|---|--:|---|--:|--:|--:|---|",
    ]
    for work, key, unit, of, goals in LINES:
        ours = of / t[f"mxjax {key}"]
        for other, goal in goals.items():
            if f"{other} {key}" in t:
                theirs = of / t[f"{other} {key}"]
                ratio = ours / theirs
                verdict = "ok" if ratio >= goal else "miss"
                name = f"{t[f'{other} framework']} | {theirs:,.0f}"
                lines.append(
                    f"| {work} | {unit} | {ours:,.0f} | {name} | {ratio:.2f} | >= {goal:.2g} | {verdict} |"
                )
        if not any(f"{other} {key}" in t for other in goals):
            lines.append(f"| {work} | {unit} | {ours:,.0f} | | | | | |")
    for framework in ("mxjax", "mxnet"):
        if f"{framework} first_batch" in t:
            seconds = t[f"{framework} first_batch"]
            goal = f"<= {FIRST_BATCH:g}" if framework == "mxjax" else ""
            verdict = ("ok" if seconds <= FIRST_BATCH else "miss") if goal else ""
            work = "first batch of a loader with 4 workers" + ", MXNet" * (framework == "mxnet")
            lines.append(f"| {work} | s | {seconds:.2f} | | | | {goal} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    begin = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(folder)
    text = table(results)
    (OUTPUT / "data.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    (OUTPUT / "data.md").write_text(text + "\n")
    print(
        f"{processor()}, one core and one thread, process CPU time; pictures by {results['mxjax codec']}"
    )
    print(text)
    for name, variable in (("mxnet", "MXJAX_BENCH_MXNET"), ("torch", "MXJAX_BENCH_TORCH")):
        if f"{name} framework" not in results:
            print(f"Not compared with {name}: {variable} names no Python that has it.")
    if "OpenCV" not in results["mxjax codec"]:
        print("Where OpenCV is installed (pip install opencv-python-headless) it resizes.")
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")


if __name__ == "__main__":
    main()
