"""Sublinear memory: bytes, arithmetic and time of training steps in segments, by depth.

    python benchmarks/memory_sublinear.py                           # a table, and JSON as its last line
    python benchmarks/memory_sublinear.py perceptron 16,64          # some depths of one chain

Two chains of N blocks: perceptrons (256 -> 1024 -> 256 with GELU and a way around, 512 rows) and
residual blocks of two 3x3 convolutions (16 channels, 32x32, batch 8). A step is forward, loss, backward
and SGD: one program. Bytes are XLA's ``temp_size_in_bytes`` of it, found without running it. The
baseline is the same network with the same barriers between its blocks and nothing computed again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks import memory_networks as networks
from mxjax import gluon
from mxjax.memonger._rehearse import COUNTING

# 128 residual blocks with barriers alone take more than eight minutes to compile.
DEPTHS = {"perceptron": (16, 32, 64, 128), "residual": (16, 32, 64)}
NAMES = ("barriers", "sublinear", "nested", "recursive")
TIMED_AT = 64
TIMED = ("barriers", "sublinear")
MIB = 2**20  # what MXNet, and so memonger, prints as MB


def rows(depths: Mapping[str, Sequence[int]] = DEPTHS, timed_at: int = TIMED_AT) -> list[dict[str, Any]]:
    """The rows of the table: what, value, goal, and whether it is met (``None``: no goal)."""
    return list(measured(depths, timed_at))


def measured(depths: Mapping[str, Sequence[int]], timed_at: int = TIMED_AT) -> Iterator[dict[str, Any]]:
    """The rows, one after another as they are known."""
    for kind in depths:
        temp: dict[str, list[float]] = {name: [] for name in NAMES}
        for n in depths[kind]:
            steps = {}
            for name in NAMES:
                step = Step(kind, n, name)
                timed = n == timed_at and name in TIMED
                with mx.config.scope(compiler_options={} if timed else COUNTING):
                    cost = step.rehearsed()
                temp[name].append(cost.temp_bytes)
                if name == "barriers":
                    flops, whole = cost.flops, cost.temp_bytes
                yield row(
                    f"{kind} N={n} {name}: temp",
                    cost.temp_bytes / MIB,
                    "MiB",
                    12 if (kind, n, name) == ("residual", 64, "nested") else None,
                    share=cost.temp_bytes / whole,
                    flops=cost.flops / flops,
                )
                if timed:
                    steps[name] = step
                    if len(steps) == len(TIMED):  # at once: other options would have them compiled anew
                        yield from speeds(kind, n, steps)
        if len(depths[kind]) > 2:
            yield from laws(kind, depths[kind], temp)


def laws(kind: str, depths: Sequence[int], temp: Mapping[str, Sequence[float]]) -> Iterator[dict[str, Any]]:
    """How well each arrangement's bytes follow its law."""
    for name, law, words in (
        ("barriers", np.asarray, "a + b * N"),
        ("sublinear", np.sqrt, "a + b * sqrt(N)"),
        ("nested", np.sqrt, "a + b * sqrt(N)"),
        ("recursive", np.log2, "a + b * log2(N)"),
    ):
        a, b, off = fit(law(np.array(depths, float)), np.array(temp[name]) / MIB)
        goal = None if name == "barriers" else 0.05
        yield row(f"{kind} {name}: {words}, largest error", off, "", goal, a=a, b=b)


def row(
    what: str, value: float, unit: str, at_most: float | None = None, at_least: float | None = None, **more: float
) -> dict[str, Any]:
    """One row; its goal is an upper or a lower bound."""
    met = None
    if at_most is not None:
        met = bool(value <= at_most)
    if at_least is not None:
        met = bool(value >= at_least)
    return {"what": what, "value": value, "unit": unit, "at_most": at_most, "at_least": at_least, "met": met, **more}


def fit(basis: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """Least squares of a + b * basis in relative errors, and the largest of these."""
    design = np.stack([np.ones_like(basis), basis], 1)
    (a, b), *_ = np.linalg.lstsq(design / values[:, None], np.ones_like(values), rcond=None)
    return float(a), float(b), float(np.abs((design @ [a, b]) / values - 1).max())


class Step:
    """Training steps of one network under one arrangement."""

    def __init__(self, kind: str, blocks: int, name: str | bool):
        how = {"learning_rate": 1e-3}
        if kind == "perceptron":  # what crosses between blocks has 0.5 MiB in both chains
            net = networks.perceptrons(blocks, 256, mx.init.Xavier(magnitude=0.1))
            x = mx.np.array(np.random.RandomState(0).randn(512, 256).astype("float32"))
            self.training = networks.Training(net, x, x * 0.5, gluon.loss.L2Loss(), **how)
        else:
            net = networks.residual_network(blocks)
            self.training = networks.Training(net, *networks.batch(8, 32), **how)
        net.hybridize(mirror=name)

    def rehearsed(self) -> Any:
        t = self.training
        return mx.memonger.rehearse(t.step, t.net, t.trainer)

    def timed(self) -> float:
        """CPU seconds of one step."""
        start = time.process_time()
        self.training.step()
        mx.waitall()
        return time.process_time() - start


def speeds(kind: str, n: int, steps: dict[str, Step], rounds: int = 7) -> Iterator[dict[str, Any]]:
    """The baseline's CPU time over that of each arrangement: least of interleaved runs, on one core."""
    with one_core():
        best = dict.fromkeys(steps, float("inf"))
        for step in steps.values():
            step.timed()  # compiled before; the first run loads the code
            step.timed()
        for _ in range(rounds):
            for name, step in steps.items():
                best[name] = min(best[name], step.timed())
    for name in steps:
        if name != "barriers":
            goal = 0.95 if name == "sublinear" else None
            yield row(
                f"{kind} N={n} {name}: speed", best["barriers"] / best[name], "x", at_least=goal, cpu_seconds=best[name]
            )


class one_core:
    """This process on one core, where the system can."""

    def __enter__(self) -> None:
        self.before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        if self.before:
            for task in self._threads():
                os.sched_setaffinity(task, {max(self.before)})

    def __exit__(self, *_: object) -> None:
        if self.before:
            for task in self._threads():
                os.sched_setaffinity(task, self.before)

    @staticmethod
    def _threads() -> list[int]:
        try:
            return [int(t) for t in os.listdir("/proc/self/task")]
        except OSError:
            return [0]


def line(r: Mapping[str, Any]) -> str:
    goal = f"<= {r['at_most']}" if r["at_most"] is not None else ""
    goal = f">= {r['at_least']}" if r["at_least"] is not None else goal
    more = "  ".join(f"{k} {v:.3f}" for k, v in r.items() if k not in HEAD)
    met = {None: "", True: "met", False: "MISSED"}[r["met"]]
    return f"{r['what']:<58}{r['value']:>10.3f} {r['unit']:<3}{goal:>9} {met:<7}{more}"


HEAD = ("what", "value", "unit", "at_most", "at_least", "met")

if __name__ == "__main__":
    depths = DEPTHS
    if len(sys.argv) > 1:
        kind = sys.argv[1]
        chosen = tuple(map(int, sys.argv[2].split(","))) if len(sys.argv) > 2 else DEPTHS[kind]
        depths = {kind: chosen}
    start = time.process_time()
    found = []
    for one in measured(depths):
        print(line(one), flush=True)
        found.append(one)
    print(f"{time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    print(json.dumps(found))
