"""The compiler's price as `core/run/price.py` estimates it, beside what the compiler takes: `make bench-price`.

    python -m benchmarks.price [PART ...]     # parts: ops, networks, and the jobs of `make bench-jobs`

Every program of the parts, each in a process of its own pinned to one core, is compiled as its optimised and as its
quick form, and lowered to each; the least process CPU time of three counts where it is short. Nothing is left to
NumPy meanwhile, and a part ends when it has compiled for two minutes. The table: how many estimates are within a factor
of 1.5 of what was measured, and below half of it, by part, where one factor stands for the machine: the median, which
is printed. Then what a least-squares fit gives each kind of `core/run/kernels.py`, beside the table of
`core/run/constants.py`. The status is 1 where fewer than 90 % are within 1.5, or any is below half.
``bench_output/price.json`` keeps figures.
"""

from __future__ import annotations

import collections
import json
import os
import runpy
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.run import HERE, OUTPUT, pin, processor, say

WITHIN, SHARE, BELOW = 1.5, 0.9, 0.5
LARGEST = 4000  # equations: what takes longer than half a minute is left out
#: Of more programs of one name and length no more is learned.
ALIKE = 2
#: What takes less is compiled so often, and the least counts.
SHORT, TIMES = 0.15, 3
#: Seconds that a part's programs are compiled; the others of it are left out.
LONGEST = 120.0
ZOO = ("mobilenet0.25", "mobilenetv2_0.25")


def main(asked: list[str]) -> int:
    from benchmarks.jobs import JOBS

    pin()
    found: dict[str, list[dict[str, Any]]] = {}
    for part in asked or ["ops", "networks", *[job.name for job in JOBS]]:
        say(part)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.price", "--in", part],
            capture_output=True, text=True, cwd=HERE.parent,
            env={**os.environ, "MXJAX_CACHE_DIR": "", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("PRICE ")]
        if done.returncode or not lines:
            print(f"{part} ended with an error:\n{done.stderr[-2000:]}", file=sys.stderr)
            return 1
        found[part] = json.loads(lines[-1][6:])
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "price.json").write_text(json.dumps({"processor": processor(), "parts": found}))
    return report(found)


def report(found: dict[str, list[dict[str, Any]]]) -> int:
    """Print the table; the status."""
    everything = [p for programs in found.values() for p in programs]
    scale = statistics.median(
        p[k] / p[f"{k}_price"] for p in everything for k in ("whole", "quick")
    )
    print(f"This machine: `engine.compile_price` {scale:.2f}, for which the shares stand.")
    heads = f"optimised: within {WITHIN}  below half   quick: within  below half"
    print(f"{'part':18} {'programs':>8}   {heads}")
    bad = 0
    for part, programs in [*found.items(), ("all", everything)]:
        shares = []
        for kind in ("whole", "quick"):
            ratios = [scale * p[f"{kind}_price"] / p[kind] for p in programs]
            within = sum(1 / WITHIN <= r <= WITHIN for r in ratios) / max(1, len(ratios))
            shares += [within, sum(r < BELOW for r in ratios)]
        print(
            f"{part:18} {len(programs):8} {shares[0]:22.0%} {shares[1]:11} {shares[2]:15.0%} {shares[3]:11}"
        )
        if part == "all":
            bad = int(min(shares[0], shares[2]) < SHARE or shares[1] + shares[3] > 0)
    for kind in ("whole", "quick"):
        print(f"\n{kind}: milliseconds by a fit of what was measured, and by the table")
        for name, (value, by_table) in fit(everything, kind).items():
            print(f"  {name:24} {value:8.2f} {by_table * scale:8.2f}")
        worst = sorted(everything, key=lambda p: p[f"{kind}_price"] / p[kind])
        for p in [*worst[:8], *worst[-8:]]:
            print(
                f"  {p['name'][:40]:40} {scale * p[f'{kind}_price']:8.1f} for {p[kind]:8.1f} ms, "
                f"{p['equations']} equations"
            )
    return bad


def fit(programs: list[dict[str, Any]], kind: str) -> dict[str, tuple[float, float]]:
    """What each kind adds, in milliseconds, so that relative errors are small; and what the table says it does."""
    from mxjax.core.run import constants

    counts = "unlike" if kind == "whole" else "each"
    names = [
        n for n, _ in collections.Counter(k for p in programs for k in p[counts]).most_common()
    ]
    columns = np.array([[1.0, *(p[counts].get(n, 0) for n in names)] for p in programs])
    took = np.array([p[kind] for p in programs])
    scaled, ones = columns / took[:, None], np.ones(len(took))
    value = np.full(columns.shape[1], 1.0)
    for _ in range(3000):  # multiplicative updates keep the signs
        value *= (scaled.T @ ones) / np.maximum(scaled.T @ (scaled @ value), 1e-12)
    base = constants.CPU_BASE if kind == "whole" else constants.CPU_QUICK_BASE
    of = [base, *(constants.CPU_CODE.get(n, (0.0, 0.0))[kind == "quick"] for n in names)]
    return {n: (v, t * 1e-3) for n, v, t in zip(["program", *names], value, of, strict=True)}


def _least(lowered: Any, options: dict[str, Any]) -> float:
    """Milliseconds of compiling it."""
    best = float("inf")
    for k in range(TIMES):
        # An option that changes nothing: JAX would have the program already.
        start = time.process_time()
        lowered.compile(compiler_options={**options, "xla_dump_max_hlo_modules": k})
        took = time.process_time() - start
        best = min(best, took)
        if took > SHORT:
            break
    return best * 1e3


def within(part: str) -> list[dict[str, Any]]:
    """The programs of a part, in this process."""
    import mxjax as mx
    from mxjax.core.run import kernels, price, tiers

    seen: collections.Counter[Any] = collections.Counter()
    programs: list[dict[str, Any]] = []
    better = tiers.better
    spent = 0.0

    def spy(
        form: Any,
        name: str,
        device: Any,
        lowered: Any,
        options: Any,
        closed: Any,
        size: Any,
        *paid: Any,
    ) -> Any:
        nonlocal spent
        seen[name, size.equations] += 1
        if size.equations <= LARGEST and seen[name, size.equations] <= ALIKE and spent < LONGEST:
            prices, code = price.on(device.platform), kernels.code_of(closed.jaxpr)
            made = {
                "name": name,
                "equations": size.equations,
                "each": code.each,
                "unlike": code.unlike,
            }
            start = time.process_time()
            whole = lowered.whole
            made["whole"] = (time.process_time() - start) * 1e3
            start = time.process_time()
            quickly = lowered.quickly().whole
            made["quick"] = (time.process_time() - start) * 1e3
            how = {**options, **(prices.options or {})}
            made["quick"] += _least(quickly, how)
            made["whole"] += _least(whole, options)
            made["quick_price"] = prices.quick(size) * 1e-3
            made["whole_price"] = prices.whole(size) * 1e-3
            programs.append(made)
            spent += (made["quick"] + made["whole"]) * 1e-3
        return better(form, name, device, lowered, options, closed, size, *paid)

    tiers.better = spy
    mx.config.set("engine.cold", "compile")  # NumPy would begin with many
    if part == "ops":
        _operators()
    elif part == "networks":
        _networks()
    else:
        _job(part)
    return programs


def _operators() -> None:
    sys.path.insert(0, str(HERE))
    from ops_rows import ROWS
    from ops_work import MX

    framework = MX("mxjax")
    for rows in ROWS.values():
        for row in rows:
            for work in framework.works(row).values():
                work()


def _networks() -> None:
    import mxjax as mx
    from mxjax import autograd, gluon

    for name in (*ZOO, "resnet18_v1"):
        net = gluon.model_zoo.vision.get_model(name, classes=10)
        net.initialize()
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x = mx.np.zeros((2, 3, 64, 64))
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        y = mx.np.zeros(2)
        for _ in range(2):
            with autograd.record():
                out = loss(net(x), y)
            out.backward()
            trainer.step(2)
            out.wait_to_read()
    for cell in (gluon.rnn.LSTM(32, 2), gluon.rnn.GRU(32, bidirectional=True)):
        cell.initialize()
        x = mx.np.zeros((12, 4, 16))
        trainer = gluon.Trainer(cell.collect_params(), "adam")
        for _ in range(40):
            with autograd.record():
                out = cell(x).sum()
            out.backward()
            trainer.step(4)


def _job(name: str) -> None:
    from benchmarks.jobs import JOBS
    from mxjax import as_mxnet

    job = next(j for j in JOBS if j.name == name)
    as_mxnet.install(job.version)
    path = HERE / "jobs" / f"{name}.py"
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        print("PRICE " + json.dumps(within(sys.argv[2])))
    else:
        sys.exit(main(sys.argv[1:]))
