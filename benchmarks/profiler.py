"""`make bench-profiler`: what the profiler costs, and how much of the device's time it attributes.

Pinned to one core; figures are process CPU time, the least of several turns, on and off alternating.
Goals: a LeNet step at batch 64 at most 1.10 of its time without, the chain at most 1.30; 90 % of the
device's time exact or sole.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable

from bench_ours import own_lenet

import mxjax as mx
from mxjax import profiler


def chain() -> Callable[[], None]:
    """Thirty small operators, synchronised."""
    x = mx.np.ones((16, 16))

    def step() -> None:
        y = x
        for _ in range(10):
            y = mx.np.tanh(y * 1.5 + x)
        y.wait_to_read()

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


def pin() -> None:
    """One core, and no threads beside it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    pin()
    os.chdir(tempfile.mkdtemp())
    heads = ("off ms", "on ms", "on/off", "goal", "stop s", "dumps s", "dump s")
    print(f"{'work':<22}" + "".join(f"{head:>9}" for head in heads))
    shares = {}
    for name, make, calls, goal in (
        ("chain of 30 operators", chain, 300, 1.3),
        ("LeNet step, batch 4", lambda: own_lenet(4, False, "sgd"), 50, None),
        ("LeNet step, batch 64", lambda: own_lenet(64, False, "sgd"), 5, 1.1),
        ("... hybridized", lambda: own_lenet(64, True, "sgd"), 5, 1.1),
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
        if name != "chain of 30 operators":
            shares[name] = profiler.attribution()
        dumps = timed(lambda: profiler.dumps(reset=True))
        dump = timed(profiler.dump)
        cells = f"{min(off):9.3f}{min(on):9.3f}{min(on) / min(off):9.2f}{goal or '':>9}{min(stop):9.2f}"
        print(f"{name:<22}{cells}{dumps:9.2f}{dump:9.2f}", flush=True)
    print("\nshares of the device's time")
    for name, known in shares.items():
        print(f"{name:<22}" + "  ".join(f"{how} {100 * share:.1f} %" for how, share in known.items()))


if __name__ == "__main__":
    main()
