"""`make bench-profiler`: what the profiler costs, and how much of the device's time it attributes.

Pinned to one core. Ratios are of process CPU time, the least of several turns, on and off alternating.
What it costs while it is off is counted, not timed: the instructions of Python and the calls of compiled
functions in one chain, before the profiler was ever imported and after it has run. Shares are the median
of several recordings, since an instruction that is interrupted looks longer than it is.

    python benchmarks/profiler.py [off] [cost] [shares]
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the networks are those of tests

from bench_ours import own_lenet, training

import mxjax as mx
from tests.memonger.networks import resnet18

OFF = 1.01
CHAIN = 1.3
LENET = 1.1
# Exact (an instruction of one operator) or sole (a nameless one that serves one operator alone).
ATTRIBUTED = 0.9

Verdict = tuple[str, str, str, bool]


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


def work_of(step: Callable[[], None]) -> int:
    """Instructions of Python and calls of compiled functions in one step; the same in every run."""
    counted = 0

    def instruction(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return instruction

    def call(_frame: FrameType, event: str, _: Any) -> None:
        nonlocal counted
        counted += event == "c_call"

    for start, how in ((sys.settrace, instruction), (sys.setprofile, call)):
        gc.disable()
        start(how)
        try:
            step()
        finally:
            start(None)
            gc.enable()
    return counted


def off() -> list[Verdict]:
    """What a chain does before the profiler was imported, and after it has run and stopped."""
    if "mxjax.profiler" in sys.modules:
        raise SystemExit("the part `off` comes first: the profiler is imported already")
    step = chain()
    for _ in range(50):
        step()
    never = min(work_of(step) for _ in range(5))
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
    mx.profiler.set_state("run")
    for _ in range(5):
        step()
    mx.profiler.dump()
    for _ in range(50):
        step()
    after = min(work_of(step) for _ in range(5))
    ratio = after / never
    print(
        f"instructions of a chain, profiler never imported {never}, off after a run {after}",
        flush=True,
    )
    return [("off: instructions of the chain", f"{ratio:.3f}", f"<= {OFF:.2f}", ratio <= OFF)]


def costs() -> list[Verdict]:
    """On against off, and what follows a run: `stop`, `dumps` and `dump` of about 7 x calls steps."""
    heads = ("off ms", "on ms", "on/off", "stop s", "dumps s", "dump s")
    print(f"{'work':<28}" + "".join(f"{head:>9}" for head in heads))
    found: list[Verdict] = []
    for name, make, calls, turns, goal in (
        ("chain of 30 operators", chain, 100, 30, CHAIN),
        ("LeNet step, batch 4", lambda: own_lenet(4, False, "sgd"), 20, 15, None),
        ("LeNet step, batch 64", lambda: own_lenet(64, False, "sgd"), 4, 12, LENET),
        ("... hybridized", lambda: own_lenet(64, True, "sgd"), 4, 12, LENET),
    ):
        step = make()
        for _ in range(5):
            step()
        mx.profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
        off, on, stop = [], [], []
        for _ in range(turns):  # in turns: the machine's mood changes
            off.append(cost(step, calls))
            mx.profiler.set_state("run")
            on.append(cost(step, calls))
            stop.append(timed(lambda: mx.profiler.set_state("stop")))
        ratio = min(on) / min(off)
        dumps = timed(lambda: mx.profiler.dumps(reset=True))
        dump = timed(mx.profiler.dump)
        cells = (f"{min(off):9.3f}", f"{min(on):9.3f}", f"{ratio:9.2f}", f"{min(stop):9.2f}")
        print(f"{name:<28}" + "".join(cells) + f"{dumps:9.2f}{dump:9.2f}", flush=True)
        if goal is not None:
            title = "LeNet step, batch 64, hybridized" if name == "... hybridized" else name
            found.append((f"on: {title}", f"{ratio:.2f}", f"<= {goal:.2f}", ratio <= goal))
    return found


def shares() -> list[Verdict]:
    """How much of the device's time goes to operators with certainty."""
    hows = ("exact", "sole", "shared", "inherited", "none")
    print(
        f"{'share of device time':<32}"
        + "".join(f"{h:>10}" for h in hows)
        + f"{'known':>10}{'from':>8}{'to':>8}"
    )
    found: list[Verdict] = []
    for name, make in (
        ("LeNet, batch 4", lambda hybrid: own_lenet(4, hybrid, "sgd")),
        ("LeNet, batch 64", lambda hybrid: own_lenet(64, hybrid, "sgd")),
        ("ResNet-18, batch 4", lambda hybrid: own_resnet(4, hybrid)),
    ):
        for hybrid in (False, True):
            title = f"{name}, hybridized" if hybrid else name
            every = recorded(make(hybrid))
            known = [each["exact"] + each["sole"] for each in every]
            middle = statistics.median(known)
            cells = "".join(f"{statistics.median(e[h] for e in every):10.1%}" for h in hows)
            print(f"{title:<32}{cells}{middle:10.1%}{min(known):8.1%}{max(known):8.1%}", flush=True)
            good = middle >= ATTRIBUTED
            found.append((f"attributed: {title}", f"{middle:.1%}", f">= {ATTRIBUTED:.0%}", good))
    return found


def recorded(step: Callable[[], None]) -> list[dict[str, float]]:
    """The attribution of nine recordings of five steps."""
    for _ in range(4):
        step()
    mx.npx.waitall()
    mx.profiler.set_config(profile_all=True, continuous_dump=False)
    found = []
    for _ in range(9):
        mx.profiler.set_state("run")
        for _ in range(5):
            step()
        mx.npx.waitall()
        mx.profiler.set_state("stop")
        found.append(mx.profiler.attribution())
        mx.profiler.dump()
    return found


def main() -> None:
    pin()
    os.chdir(tempfile.mkdtemp())
    parts = {"off": off, "cost": costs, "shares": shares}
    verdicts: list[Verdict] = []
    for part in sys.argv[1:] or parts:
        verdicts += parts[part]()
        print()
    print(f"{'':<48}{'measured':>10}{'goal':>10}")
    for what, measured, goal, good in verdicts:
        print(f"{what:<48}{measured:>10}{goal:>10}  {'ok' if good else 'MISS'}")


if __name__ == "__main__":
    main()
