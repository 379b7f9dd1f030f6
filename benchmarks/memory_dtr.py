"""DTR: a training step at shares of the memory it would take, and what that costs in work.

    python benchmarks/memory_dtr.py

The network is the prototype's: 16 blocks of layer norm, matrix product, gelu, matrix product, addition.
It runs operator by operator, as one recorded step, and with a look at the loss before the backward pass.
The peak is that of live bytes (parameters, gradients and temporaries included) without a limit, operator
by operator, where every result exists. Operator time is estimated from XLA's counts, so it repeats; CPU
time is the process's, the least of several steps that take turns with steps without a limit.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks.memory_sublinear import row
from mxjax import autograd

#: Share of the peak -> the most operator time that is allowed, as a ratio.
GOALS = {0.5: 1.10, 0.3: 1.25, 0.2: 1.35, 0.15: None, 0.1: None}


class Network:
    """The blocks, and one training step on them."""

    def __init__(self, batch: int, width: int = 128, hidden: int = 512, blocks: int = 16):
        rng = np.random.RandomState(0)

        def normal(*shape: int) -> Any:
            return mx.np.array(rng.randn(*shape).astype("float32") * 0.05)

        self.params = []
        for _ in range(blocks):
            block = (
                mx.np.ones(width),
                mx.np.zeros(width),
                normal(width, hidden),
                normal(hidden, width),
            )
            for p in block:
                p.attach_grad()
            self.params.append(block)
        self.x = normal(batch, width) * 20

    def forward(self) -> Any:
        """The loss; locals end here, so that only the tape holds what lies between."""
        x = self.x
        for gamma, beta, up, down in self.params:
            h = mx.npx.layer_norm(x, gamma, beta, axis=-1, eps=1e-5)
            h = mx.npx.leaky_relu(mx.np.dot(h, up), act_type="gelu")
            x = x + mx.np.dot(h, down)
        return (x * x).mean()

    def step(self, look: bool = False) -> list[np.ndarray]:
        """One step; the gradients."""
        with autograd.record():
            loss = self.forward()
        if look:
            loss.wait_to_read()
        loss.backward()
        return [p.grad.asnumpy() for block in self.params for p in block]


def modes(net: Network) -> dict[str, Callable[[], list[np.ndarray]]]:
    """The ways in which the step runs."""

    def one_by_one() -> list[np.ndarray]:
        with mx.engine.bulk(1):
            return net.step()

    return {
        "operator by operator": one_by_one,
        "one recorded step": net.step,
        "loss read in between": lambda: net.step(look=True),
    }


@contextlib.contextmanager
def dtr() -> Any:
    """DTR on, for arrays of any size that counts; afterwards as it was."""
    before = mx.dtr.evictee_minimum_size
    mx.dtr.evictee_minimum_size = "64KB"
    mx.dtr.enable()
    try:
        yield
    finally:
        mx.dtr.disable()
        mx.dtr.eviction_threshold = 0
        mx.dtr.evictee_minimum_size = before


def timed(step: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    out = step()
    return time.process_time() - start, out


def rows(batch: int = 4096, repeats: int = 2, **network: int) -> list[dict[str, Any]]:
    """One row per mode and share of the peak.

    Args:
      batch: rows of the input.
      repeats: steps whose least CPU time counts.
      network: ``width``, ``hidden``, ``blocks``.

    Returns:
      Rows with ``mode``, ``share``, ``limit`` and ``peak`` in bytes, ``ratio`` of operator time and its
      ``goal``, ``cpu`` ratio, ``recomputations``, ``evictions``, ``within`` (the limit was kept), ``equal``
      (gradients bitwise those of the operators one by one without a limit); or ``error`` where it cannot fit.
    """
    net = Network(batch, **network)
    ways = modes(net)
    one_by_one = ways["operator by operator"]
    found = []
    with dtr():
        one_by_one()
        mx.dtr.stats(reset=True)
        want = one_by_one()
        whole = mx.dtr.stats(reset=True)
        peak, seconds = whole["peak_bytes"], whole["operator_seconds"]
        for mode, step in ways.items():
            for share, goal in GOALS.items():
                limit = int(share * peak)
                row = {"mode": mode, "share": share, "goal": goal, "limit": limit, "whole": peak}
                found.append(row)
                try:
                    row.update(_measure(step, one_by_one, limit, seconds, want, repeats))
                except MemoryError as error:
                    row["error"] = str(error)
    return found


def _measure(
    step: Callable[[], Any],
    plain: Callable[[], Any],
    limit: int,
    seconds: float,
    want: list[np.ndarray],
    repeats: int,
) -> dict[str, Any]:
    times: dict[str, list[float]] = {"plain": [], "limited": []}
    for turn in range(repeats + 1):  # the first compiles
        mx.dtr.eviction_threshold = 0
        spent, _ = timed(plain)
        times["plain"].append(spent)
        mx.dtr.eviction_threshold = limit
        mx.dtr.stats(reset=True)
        try:
            spent, got = timed(step)
        finally:
            mx.dtr.eviction_threshold = 0
            stats = mx.dtr.stats(reset=True)
        times["limited"].append(spent)
        del turn
    return {
        "peak": stats["peak_bytes"],
        "within": stats["peak_bytes"] <= limit,
        "ratio": stats["operator_seconds"] / seconds,
        "cpu": min(times["limited"][1:]) / min(times["plain"][1:]),
        "evictions": stats["evictions"],
        "recomputations": stats["recomputations"],
        "equal": all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)),
    }


def table(found: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        f"Peak without a limit: {found[0]['whole'] / 2**20:.1f} MiB",
        "",
        "| mode | limit | operator time | goal | | CPU time | recomputed | live peak / limit | gradients |",
        "|---|--:|--:|--:|---|--:|--:|--:|---|",
    ]
    for r in found:
        goal = "" if r["goal"] is None else f"{r['goal']:.2f}"
        head = f"| {r['mode']} | {r['share']:.0%} |"
        if "error" in r:
            lines.append(
                f"{head} - | {goal} | {'miss' if goal else ''} | - | - | - | MemoryError |"
            )
            continue
        kept = r["within"] and r["equal"]
        verdict = "" if r["goal"] is None else "ok" if kept and r["ratio"] <= r["goal"] else "miss"
        lines.append(
            f"{head} {r['ratio']:.3f} | {goal} | {verdict} | {r['cpu']:.2f} | {r['recomputations']} | "
            f"{r['peak'] / r['limit']:.3f} | {'equal' if r['equal'] else 'differ'} |"
        )
    return "\n".join(lines)


def goals(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The figures with their goals, as in the table of all parts."""
    for r in found:
        if r["goal"] is None:
            continue
        what = f"DTR at {r['share']:.0%}, {r['mode']}"
        yield row(f"{what}: operator time", r.get("ratio", float("inf")), "x", at_most=r["goal"])
        yield row(
            f"{what}: live peak / limit", r.get("peak", float("inf")) / r["limit"], "x", at_most=1
        )
        yield row(f"{what}: gradients bitwise equal", float(r.get("equal", False)), "", at_least=1)


if __name__ == "__main__":
    results = rows(*map(int, sys.argv[1:2]))
    print(table(results))
    print(json.dumps(list(goals(results))))
