"""What the profiler costs: off, on, at the stop, and when its files are written.

Run it pinned to one core; figures are process CPU time, the least of several repeats::

    OMP_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false \
        taskset -c 1 python benchmarks/profiler_cost.py
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.gluon import nn


def chain() -> Callable[[], None]:
    """Thirty small operators, synchronised."""
    x = mx.np.ones((16, 16))

    def step() -> None:
        y = x
        for _ in range(10):
            y = mx.np.tanh(y * 1.5 + x)
        y.wait_to_read()

    return step


def lenet(batch: int) -> Callable[[], None]:
    """An imperative training step of LeNet."""
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    x = mx.np.random.uniform(size=(batch, 1, 28, 28))
    y = mx.np.zeros(batch, dtype="int32")

    def step() -> None:
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(batch)

    return step


def cost(step: Callable[[], None], calls: int) -> float:
    """CPU milliseconds per call."""
    start = time.process_time()
    for _ in range(calls):
        step()
    mx.npx.waitall()
    return (time.process_time() - start) / calls * 1e3


def timed(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    heads = ("off ms", "on ms", "on/off", "stop s", "dumps s", "dump s")
    print(f"{'work':<22}" + "".join(f"{head:>9}" for head in heads))
    for name, make, calls in (
        ("chain of 30 operators", chain, 300),
        ("LeNet step, batch 4", lambda: lenet(4), 50),
        ("LeNet step, batch 64", lambda: lenet(64), 5),
    ):
        step = make()
        for _ in range(5):
            step()
        profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
        off, on, stop = [], [], []
        for _ in range(7):  # in turns: the machine's mood changes
            off.append(cost(step, calls))
            profiler.set_state("run")
            on.append(cost(step, calls))
            stop.append(timed(lambda: profiler.set_state("stop")))
        dumps = timed(lambda: profiler.dumps(reset=True))
        dump = timed(profiler.dump)
        cells = f"{min(off):9.3f}{min(on):9.3f}{min(on) / min(off):9.2f}{min(stop):9.2f}"
        print(f"{name:<22}{cells}{dumps:9.2f}{dump:9.2f}")


if __name__ == "__main__":
    main()
