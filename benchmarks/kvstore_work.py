"""The work that kvstores are measured with, in this package and in MXNet alike.

Shapes of a ResNet-50's 161 trained arrays (He et al., 2016): 53 convolutions, 53 batch norms with two
arrays each, one dense layer with two; 25.6 million float32 numbers, 97.5 MiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parents[1] / "bench_output"


def resnet50() -> list[tuple[int, ...]]:
    """The shapes, in the order of the network."""
    shapes: list[tuple[int, ...]] = []

    def convolution(out: int, into: int, kernel: int) -> None:
        shapes.extend([(out, into, kernel, kernel), (out,), (out,)])

    convolution(64, 3, 7)
    into = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolution(width, into, 1)
            convolution(width, width, 3)
            convolution(4 * width, width, 1)
            if block == 0:
                convolution(4 * width, into, 1)
            into = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def least(work: Callable[[], None], repeats: int, warm: int = 2) -> dict[str, float]:
    """The least wall and process CPU milliseconds of some repeats."""
    for _ in range(warm):
        work()
    best = {"wall": float("inf"), "cpu": float("inf")}
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        best["cpu"] = min(best["cpu"], 1e3 * (time.process_time() - cpu))
        best["wall"] = min(best["wall"], 1e3 * (time.perf_counter() - wall))
    return best


def sums(kv: Any, grads: list[Any], outs: list[Any], wait: Callable[[], None], per_key: bool) -> Callable[[], None]:
    """One step of a store whose keys are 0, 1, ...: all gradients pushed, all sums pulled and waited for."""
    keys = list(range(len(grads)))
    kv.init(keys, [copies[0] for copies in grads])
    wait()

    def work() -> None:
        if per_key:
            for k in keys:
                kv.push(k, grads[k], priority=-k)
                kv.pull(k, out=outs[k], priority=-k)
        else:
            kv.push(keys, grads)
            kv.pull(keys, out=outs)
        wait()
        for copies in outs:
            for o in copies:
                o.wait_to_read()

    return work


def row(work: str, goal: float | None, ours: float, theirs: float | None, unit: str = "ms") -> str:
    """One line of the table; where there is a baseline the goal is for the ratio."""
    value = ours if theirs is None else ours / theirs
    verdict = "" if goal is None else "ok" if value <= goal else "miss"
    cells = [
        work, "" if goal is None else f"{goal:g}", f"{value:.3g}", verdict, f"{ours:.4g} {unit}",
        "" if theirs is None else f"{theirs:.4g} {unit}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"
