"""The compiler's price as `core/run/price.py` estimates it, beside what the compiler takes: `make bench-price`.

    python -m benchmarks.price [PART ...]     # parts: ops, networks, and the jobs of `make bench-jobs`

Every program of the parts, each in a process of its own pinned to one core, is compiled as its optimised and as its
quick form; each takes process CPU time, tracing left out. The table: how many estimates are within a factor of 1.5 of
what was measured, and below half of it, by part; then the kinds of equations and what a least-squares fit gives each.
The status is 1 where fewer than 90 % are within 1.5, or any is below half. ``bench_output/price.json`` keeps figures.
"""

from __future__ import annotations

import collections
import json
import os
import runpy
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
#: Equations that the fit takes apart from others.
KINDS = {
    "convolution": (
        "conv_general_dilated", "convolution", "convolution_input_gradient", "convolution_weight_gradient",
    ),
    "product": ("dot_general",),
    "draw": ("random_bits", "threefry2x32"),
    "loop": ("scan", "while"),
    "windows": (
        "select_and_scatter_add", "reduce_window_max", "reduce_window_sum", "max_pool_pick", "max_pool_pick_transpose",
    ),
    "placed": ("scatter", "scatter-add", "dynamic_update_slice", "concatenate", "pad"),
    "gather": ("gather", "dynamic_slice"),
    "reduction": ("reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin"),
    "view": ("reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "iota"),
}  # fmt: skip
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
    heads = f"optimised: within {WITHIN}  below half   quick: within  below half"
    print(f"{'part':18} {'programs':>8}   {heads}")
    bad = 0
    everything = [p for programs in found.values() for p in programs]
    for part, programs in [*found.items(), ("all", everything)]:
        shares = []
        for kind in ("whole", "quick"):
            ratios = [p[f"{kind}_price"] / p[kind] for p in programs]
            within = sum(1 / WITHIN <= r <= WITHIN for r in ratios) / max(1, len(ratios))
            shares += [within, sum(r < BELOW for r in ratios)]
        print(
            f"{part:18} {len(programs):8} {shares[0]:22.0%} {shares[1]:11} {shares[2]:15.0%} {shares[3]:11}"
        )
        if part == "all":
            bad = int(min(shares[0], shares[2]) < SHARE or shares[1] + shares[3] > 0)
    for kind in ("whole", "quick"):
        print(f"\n{kind}: milliseconds by a fit of what was measured")
        for name, value in fit(everything, kind).items():
            print(f"  {name:20} {value:8.2f}")
        worst = sorted(everything, key=lambda p: p[f"{kind}_price"] / p[kind])
        for p in [*worst[:4], *worst[-4:]]:
            print(
                f"  {p['name'][:40]:40} {p[f'{kind}_price']:8.1f} for {p[kind]:8.1f} ms, {p['equations']} equations"
            )
    return bad


def fit(programs: list[dict[str, Any]], kind: str) -> dict[str, float]:
    """What each kind of equation adds, in milliseconds, so that relative errors are small; none is negative."""
    names = [
        n for n, _ in collections.Counter(k for p in programs for k in p["kinds"]).most_common()
    ]
    columns = np.array([[1.0, *(p["kinds"].get(n, 0) for n in names)] for p in programs])
    took = np.array([p[kind] for p in programs])
    scaled, ones = columns / took[:, None], np.ones(len(took))
    value = np.full(columns.shape[1], 1.0)
    for _ in range(3000):  # multiplicative updates keep the signs
        value *= (scaled.T @ ones) / np.maximum(scaled.T @ (scaled @ value), 1e-12)
    return dict(zip(["program", *names], value, strict=True))


def within(part: str) -> list[dict[str, Any]]:
    """The programs of a part, in this process."""
    import mxjax as mx
    from mxjax.core.compile import kept
    from mxjax.core.run import price, tiers

    seen: collections.Counter[Any] = collections.Counter()
    programs: list[dict[str, Any]] = []
    better = tiers.better

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
        seen[name, size.equations] += 1
        if size.equations <= LARGEST and seen[name, size.equations] <= ALIKE:
            made = {
                "name": name,
                "equations": size.equations,
                "kinds": dict(kinds_of(closed.jaxpr)),
            }
            prices = price.on(device.platform)
            costs = {"quick": prices.quick(*size[:2]), "whole": prices.whole(size)}
            for kind, how in (("quick", {**options, **(prices.options or {})}), ("whole", options)):
                start = time.process_time()
                kept.compile_or_load(lowered, how, closed)
                made[kind] = (time.process_time() - start) * 1e3
                made[f"{kind}_price"] = costs[kind] * 1e-3
            programs.append(made)
        return better(form, name, device, lowered, options, closed, size, *paid)

    tiers.better = spy
    if part in ("ops", "networks"):  # which NumPy would begin with
        mx.config.set("engine.cold", "compile")
        (_operators if part == "ops" else _networks)()
    else:
        _job(part)
    return programs


def kinds_of(jaxpr: Any) -> collections.Counter[str]:
    """How many equations of each kind there are (`KINDS`), loops and bodies of calls included."""
    from mxjax.core.graph.jaxprs import bodies

    found: collections.Counter[str] = collections.Counter()
    todo = [jaxpr]
    while todo:
        for e in todo.pop().eqns:
            inner = list(bodies(e.params))
            todo += inner
            kind = next((kind for kind, names in KINDS.items() if e.primitive.name in names), None)
            if kind is not None or not inner:
                found[kind or "other"] += 1
    return found


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
