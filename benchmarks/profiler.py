"""`make bench-profiler`: what the profiler costs, and how much of the device's time it attributes.

Pinned to one core; figures are process CPU time, the least of several turns, on and off alternating.
Goals: a LeNet step at batch 64 at most 1.10 of its time without, the chain at most 1.30; of the device's
time 90 % exact (an instruction of one operator) or sole (a nameless one that serves one operator alone).

    python benchmarks/profiler.py [cost] [shares]
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable

from bench_ours import own_lenet, training
from memory_networks import resnet18

import mxjax as mx
from mxjax import profiler

ATTRIBUTED = 0.9


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


def own_resnet(batch: int, hybridize: bool) -> Callable[[], None]:
    """One step of ResNet-18 on 32x32 images."""
    net, (x,) = resnet18(batch=batch)
    return training(net, x, hybridize)


def mark(good: bool) -> str:
    return "ok" if good else "miss"


def costs() -> None:
    """On against off, and what follows a run: `stop`, `dumps` and `dump` of about 7 x calls steps."""
    heads = ("off ms", "on ms", "on/off", "goal", "", "stop s", "dumps s", "dump s")
    print(f"{'work':<28}" + "".join(f"{head:>9}" for head in heads))
    for name, make, calls, turns, goal in (
        ("chain of 30 operators", chain, 100, 30, 1.3),
        ("LeNet step, batch 4", lambda: own_lenet(4, False, "sgd"), 20, 15, None),
        ("LeNet step, batch 64", lambda: own_lenet(64, False, "sgd"), 4, 9, 1.1),
        ("... hybridized", lambda: own_lenet(64, True, "sgd"), 4, 9, 1.1),
    ):
        step = make()
        for _ in range(5):
            step()
        profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
        off, on, stop = [], [], []
        for _ in range(turns):  # in turns: the machine's mood changes
            off.append(cost(step, calls))
            profiler.set_state("run")
            on.append(cost(step, calls))
            stop.append(timed(lambda: profiler.set_state("stop")))
        ratio = min(on) / min(off)
        dumps = timed(lambda: profiler.dumps(reset=True))
        dump = timed(profiler.dump)
        verdict = mark(ratio <= goal) if goal else ""
        cells = f"{min(off):9.3f}{min(on):9.3f}{ratio:9.2f}{goal or '':>9}{verdict:>9}{min(stop):9.2f}"
        print(f"{name:<28}{cells}{dumps:9.2f}{dump:9.2f}", flush=True)


def shares() -> None:
    """How much of the device's time goes to operators with certainty."""
    hows = ("exact", "sole", "shared", "inherited", "none")
    print(f"{'share of device time':<28}" + "".join(f"{h:>10}" for h in ("known", "goal", "", *hows)))
    for name, make in (
        ("LeNet, batch 4", lambda hybrid: own_lenet(4, hybrid, "sgd")),
        ("LeNet, batch 64", lambda hybrid: own_lenet(64, hybrid, "sgd")),
        ("ResNet-18, batch 4", lambda hybrid: own_resnet(4, hybrid)),
    ):
        for hybrid in (False, True):
            step = make(hybrid)
            for _ in range(4):
                step()
            mx.npx.waitall()
            profiler.set_config(profile_all=True, continuous_dump=False)
            profiler.set_state("run")
            for _ in range(10):
                step()
            mx.npx.waitall()
            profiler.set_state("stop")
            found = profiler.attribution()
            profiler.dump()
            known = found["exact"] + found["sole"]
            cells = f"{known:10.1%}{ATTRIBUTED:10.0%}{mark(known >= ATTRIBUTED):>10}"
            title = f"{name}, hybridized" if hybrid else name
            print(f"{title:<28}{cells}" + "".join(f"{found[h]:10.1%}" for h in hows), flush=True)


def main() -> None:
    pin()
    os.chdir(tempfile.mkdtemp())
    parts = {"cost": costs, "shares": shares}
    for part in sys.argv[1:] or parts:
        parts[part]()
        print()


if __name__ == "__main__":
    main()
