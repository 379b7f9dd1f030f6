"""The work that kvstores are measured with, in this package and in MXNet alike.

Shapes of a ResNet-50's 161 trained arrays (He et al., 2016): 53 convolutions, 53 batch norms with two
arrays each, one dense layer with two; 25.6 million float32 numbers, 97.5 MiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


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


def sums(
    kv: Any, grads: list[Any], outs: list[Any], wait: Callable[[], None], per_key: bool
) -> Callable[[], None]:
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


NO_MXNET = "not measured: MXJAX_BENCH_MXNET names no Python with MXNet 2"


def figure(
    what: str, ours: float | None, theirs: float | None = None, unit: str = "ms",
    at_most: float | None = None, at_least: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One figure for the table of `parts`, printed for people as well.

    Where there is a baseline the value and its goal are of the ratio; without ours, `unit` says why.
    """
    value = ours if ours is None or theirs is None else ours / theirs
    met = None
    if value is not None and at_most is not None:
        met = value <= at_most
    if value is not None and at_least is not None:
        met = value >= at_least
    if value is None:
        print(f"{what}: {unit}", flush=True)
    elif theirs is None:
        print(f"{what}: {ours:.4g} {unit}", flush=True)
    else:
        print(f"{what}: {ours:.4g} {unit} / {theirs:.4g} {unit} = {value:.3g}", flush=True)
    return {
        "what": what, "value": value, "unit": unit if theirs is None else "x", "at_most": at_most,
        "at_least": at_least, "met": met, "ours": ours, "theirs": theirs,
    }  # fmt: skip


def ratio(
    what: str, ours: float, theirs: float | None, baseline: str, at_most: float | None
) -> dict[str, Any]:
    """A time beside MXNet's; without MXNet there is no value for the goal."""
    if theirs is None:
        figure(what, ours)
        return figure(f"{what} / {baseline}", None, unit=NO_MXNET, at_most=at_most)
    return figure(f"{what} / {baseline}", ours, theirs, at_most=at_most)
