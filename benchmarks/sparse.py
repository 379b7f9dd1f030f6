"""What a training step of a large embedding costs with sparse gradients, beside dense ones.

    make bench-sparse

A table of 1,000,000 x 64 numbers, 256 ids a step; forward, backward and update. CPU time of the process per step, the
median of eight steps after the first four; and the bytes of the gradient. The goal: sparse at most 1/20 of dense.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon

ROWS, WIDTH, IDS = 1_000_000, 64, 256
SETTLE, STEPS = 4, 8
GOAL = 1 / 20


def step_time(optimizer: str, sparse: bool) -> tuple[float, int]:
    """Seconds of CPU time a step, and bytes of the gradient."""
    net = gluon.nn.Embedding(ROWS, WIDTH, sparse_grad=sparse, weight_initializer="zeros")
    net.initialize()
    options: dict[str, Any] = {"learning_rate": 0.1}
    if sparse and optimizer != "adagrad":  # which is always lazy
        options["lazy_update"] = True
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    rng = np.random.default_rng(0)
    times = []
    for _ in range(SETTLE + STEPS):
        ids = mx.np.array(rng.integers(0, ROWS, IDS), dtype="int32")
        begin = time.process_time()
        with autograd.record():
            loss = (net(ids) ** 2).sum()
        loss.backward()
        trainer.step(IDS)
        net.weight.data().wait_to_read()
        times.append(time.process_time() - begin)
    return statistics.median(times[SETTLE:]), net.weight.grad().nbytes


def main() -> int:
    print("| optimizer | sparse, CPU ms | dense, CPU ms | ratio | goal | gradient, bytes | dense |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    missed = 0
    for optimizer in ("sgd", "adam", "adagrad"):
        (ours, small), (dense, large) = step_time(optimizer, True), step_time(optimizer, False)
        missed += ours > GOAL * dense
        ratio = f"1/{dense / ours:.0f}"
        print(
            f"| {optimizer} | {1e3 * ours:.2f} | {1e3 * dense:.1f} | {ratio} | 1/20 | {small:,} | {large:,} |"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
