"""Sublinear memory: bytes, arithmetic and time of training steps in segments, by depth.

    python benchmarks/memory_sublinear.py                           # a table, and JSON as its last line
    python benchmarks/memory_sublinear.py perceptron 16,64          # some depths of one chain

Two chains of N blocks: perceptrons (256 -> 1024 -> 256 with GELU and a way around, 512 rows) and
residual blocks of two 3x3 convolutions (16 channels, 32x32, batch 8). A step is forward, loss, backward
and SGD: one program. Bytes are XLA's ``temp_size_in_bytes`` of it, found without running it. The
baseline is the same network with the same barriers between its blocks and nothing computed again. Speed
is compared with that and, of residual blocks, with the network written in JAX (`memory_jax.py`).

Programs are compiled in as many processes as there are cores; what is timed comes first, alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks.memory_jax import Written
from mxjax import gluon
from mxjax.core.compile.compiler_options import cores
from mxjax.memonger.trials.rehearse import counting
from tests.memonger import networks

DEPTHS = {kind: (16, 32, 64, 128) for kind in ("perceptron", "residual")}
NAMES = ("barriers", "sublinear", "nested", "recursive")
TIMED_AT = 64
TIMED = ("barriers", "sublinear")
MIB = 2**20  # what MXNet, and so memonger, prints as MB


def options_for(kind: str) -> dict[str, Any]:
    """The options under which programs of a chain are counted."""
    if kind == "perceptron":
        return counting()
    # Each weight gradient of a convolution is a loop. For a kernel in a loop XLA's older emitters look through the
    # whole program, so with hundreds of loops MLIR is the faster way (128 blocks with barriers: 78 s of CPU, not
    # 112); no need to split the code for several threads where other processes use the cores.
    return {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}


def measured(
    depths: Mapping[str, Sequence[int]], timed_at: int = TIMED_AT
) -> Iterator[dict[str, Any]]:
    """The rows, one after another as they are known: what, value, goal, and whether it is met (``None``: no goal)."""
    for kind in depths:
        if timed_at in depths[kind]:
            yield from speeds(kind, timed_at)
    with ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            costs = {
                (kind, n, name): pool.submit(counted, kind, n, name)
                for kind in depths for n in depths[kind] for name in NAMES
            }  # fmt: skip
            for kind in depths:
                yield from compared(kind, depths[kind], costs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def counted(kind: str, n: int, name: str) -> tuple[int, float]:
    """Bytes of temporaries and arithmetic of a step, compiled for nothing else."""
    with mx.config.scope(compiler_options=options_for(kind)):
        found = Step(kind, n, name).rehearsed()
    return found.temp_bytes, found.flops


def compared(
    kind: str,
    depths: Sequence[int],
    costs: Mapping[tuple[str, int, str], Future[tuple[int, float]]],
) -> Iterator[dict[str, Any]]:
    """The rows of one chain's bytes: every arrangement beside barriers alone, and the laws of growth."""
    temp: dict[str, list[float]] = {name: [] for name in NAMES}
    for n in depths:
        whole, least_flops = costs[kind, n, "barriers"].result()
        for name in NAMES:
            nbytes, flops = costs[kind, n, name].result()
            temp[name].append(nbytes)
            yield row(
                f"{kind} N={n} {name}: temp",
                nbytes / MIB,
                "MiB",
                12 if (kind, n, name) == ("residual", 64, "nested") else None,
                share=nbytes / whole,
                flops=flops / least_flops,
            )
    if len(depths) > 2:
        yield from laws(kind, depths, temp)


def laws(
    kind: str, depths: Sequence[int], temp: Mapping[str, Sequence[float]]
) -> Iterator[dict[str, Any]]:
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
    what: str,
    value: float,
    unit: str,
    at_most: float | None = None,
    at_least: float | None = None,
    **more: float,
) -> dict[str, Any]:
    """One row; its goal is an upper or a lower bound.

    ``stricter=True`` marks what is compared with our own step where the goal's baseline, the same network written in
    JAX, is another row: ours needs 0.37 (ResNet-50) to 0.46 (32 residual blocks) of its bytes before anything is saved.
    """
    met = None
    if at_most is not None:
        met = bool(value <= at_most)
    if at_least is not None:
        met = bool(value >= at_least)
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "at_most": at_most,
        "at_least": at_least,
        "met": met,
        **more,
    }


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


def speeds(kind: str, n: int, rounds: int = 9) -> Iterator[dict[str, Any]]:
    """The CPU time of what segments are compared with over theirs: least of interleaved runs, on one core."""
    with one_core():  # from the start: what is compiled for several cores may differ
        steps: dict[str, Step | Written] = {name: Step(kind, n, name) for name in TIMED}
        if kind == "residual":
            steps["written in JAX, barriers"] = Written(n)
        for step in steps.values():
            step.timed()  # compiles
            step.timed()  # loads the code
        best = dict.fromkeys(steps, float("inf"))
        for _ in range(rounds):
            for name, step in steps.items():
                best[name] = min(best[name], step.timed())
    ours = best.pop("sublinear")
    for name, theirs in best.items():
        what = f"{kind} N={n} sublinear: speed, {name} / sublinear"
        stricter = kind == "residual" and name == "barriers"
        yield row(
            what,
            theirs / ours,
            "x",
            at_least=0.95,
            cpu_seconds=ours,
            theirs=theirs,
            stricter=stricter,
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
    met += " (stricter)" if r.get("stricter") else ""
    return f"{r['what']:<70}{r['value']:>10.3f} {r['unit']:<3}{goal:>9} {met:<18}{more}"


HEAD = ("what", "value", "unit", "at_most", "at_least", "met", "stricter")

if __name__ == "__main__":
    depths = DEPTHS
    if len(sys.argv) > 1:
        kind = sys.argv[1]
        chosen = tuple(map(int, sys.argv[2].split(","))) if len(sys.argv) > 2 else DEPTHS[kind]
        depths = {kind: chosen}
    start = sum(os.times()[:4])  # the processes that compile included
    found = []
    try:
        for one in measured(depths):
            print(line(one), flush=True)
            found.append(one)
    finally:  # what is known is told, though the rest failed
        spent = sum(os.times()[:4]) - start
        print(f"{spent:.0f} s of CPU", file=sys.stderr)
        print(json.dumps(found))
