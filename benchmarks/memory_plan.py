"""Plans at shares of a network's temporary bytes: within the budget, how near, and at what cost.

    python benchmarks/memory_plan.py [transformer] [resnet] [unet] [translator]

Shares are of the same step with barriers between its units and nothing recomputed; of ResNet-50 also of
that step written in JAX, by which its goals go: ours needs 0.37 of its bytes. Bytes and arithmetic are XLA's
own counts; nothing runs. Each row says how many compilations it took beside those of the rows before
(arrangements that were compiled once are known).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks.memory_jax import resnet_bytes
from benchmarks.memory_sublinear import MIB
from benchmarks.memory_sublinear import line as table_line
from benchmarks.memory_sublinear import row as table_row
from mxjax.memonger import InfeasibleBudget
from mxjax.memonger.trials.fit import search, to_bytes
from mxjax.memonger.trials.rehearse import counting
from mxjax.memonger.trials.session import Session
from tests.memonger import networks

SHARES = (0.6, 0.4, 0.25, 0.15)
#: The goals: the share of a budget that may be left over, and recomputation over the relaxed optimum.
SLACK, OVER_RELAXED = 0.10, 1.10


def rows(
    name: str,
    shares: Sequence[float] = SHARES,
    written: int = 0,
    of_written: Sequence[float] = SHARES,
    **sizes: Any,
) -> Iterator[dict[str, Any]]:
    """One row per share: budget, bytes, slack, recomputation over the relaxed optimum, arithmetic over
    that of the plain step, compilations, seconds of wall and processor time. Where nothing fits,
    ``bytes`` is the least that was found and ``feasible`` is False.

    Then the same for shares of ``written``, where given: the bytes that another step needs.
    """
    # Random weights would be drawn by one more program, which takes as long to compile as a plan.
    net, inputs = getattr(networks, name)(init=mx.init.Constant(0.01), **sizes)
    budgets = [(share, share, "") for share in shares]
    budgets += [(share, int(share * written), " of JAX's") for share in of_written if written]
    wall, cpu = time.perf_counter(), time.process_time()
    session = Session(net, inputs, "sgd")
    for share, budget, of in budgets:
        found_row: dict[str, Any] = {"network": name, "share": share, "of": of}
        try:
            found = search(session, budget, "temp", 5)
        except InfeasibleBudget as error:
            whole = session.measure(session.plain).bytes("temp")  # it was compiled before
            found_row.update(
                feasible=False, bytes=error.least_bytes, budget=to_bytes(budget, whole)
            )
        else:
            trial, plain = found.trial, found.baseline
            found_row.update(
                feasible=True,
                budget=found.budget,
                bytes=trial.bytes("temp"),
                slack=1 - trial.bytes("temp") / found.budget,
                over_relaxed=trial.cost / found.bound if found.bound else 1.0,
                arithmetic=trial.measured.flops / plain.measured.flops,
                compilations=found.compilations,
            )
        found_row.update(seconds=time.perf_counter() - wall, cpu_seconds=time.process_time() - cpu)
        wall, cpu = time.perf_counter(), time.process_time()
        yield found_row


def line(r: dict[str, Any]) -> str:
    """A row for people."""
    head = f"{r['network']:<12} {r['share']:>4.0%}{r['of']:<9}"
    tail = f"{r['seconds']:>6.0f} s ({r['cpu_seconds']:.0f} s of processor time)"
    if not r["feasible"]:
        return f"{head}  infeasible: the least found is {r['bytes'] / 2**20:.1f} MiB {tail}"
    return (
        f"{head}  {r['bytes'] / 2**20:>7.2f} of {r['budget'] / 2**20:>7.2f} MiB, slack {r['slack']:>5.1%}, "
        f"recompute {r['over_relaxed']:.3f} x relaxed, arithmetic {r['arithmetic']:.3f} x, "
        f"{r['compilations']} compilations {tail}"
    )


def goals(r: dict[str, Any], stricter: bool = False) -> Iterator[dict[str, Any]]:
    """A row's figures with their goals, as in the table of all parts."""
    row = partial(table_row, stricter=stricter)
    what = f"plan, {r['network']} at {r['share']:.0%}{r['of']}"
    if not r["feasible"]:
        yield row(
            f"{what}: the least that was found", r["bytes"] / MIB, "MiB", at_most=r["budget"] / MIB
        )
        return
    yield row(f"{what}: bytes / budget", r["bytes"] / r["budget"], "x", at_most=1)
    # Where all is kept, nothing is left to do with more bytes.
    yield row(f"{what}: slack", r["slack"], "", at_most=SLACK if r["arithmetic"] > 1 else None)
    yield row(f"{what}: recompute / relaxed optimum", r["over_relaxed"], "x", at_most=OVER_RELAXED)
    yield row(f"{what}: compilations", r["compilations"], "", at_most=5)
    yield row(f"{what}: processor time", r["cpu_seconds"], "s", at_most=60)


if __name__ == "__main__":
    figures = []
    try:
        for chosen in sys.argv[1:] or ("transformer", "resnet"):
            written = 0
            if chosen == "resnet":
                written, lean = (resnet_bytes(lean, counting()) for lean in (False, True))
                figures += [
                    table_row("ResNet-50 written in JAX, barriers: temp", written / MIB, "MiB"),
                    table_row(
                        "ResNet-50 written in JAX, barriers, order of least memory: temp",
                        lean / MIB,
                        "MiB",
                    ),
                ]
                print("\n".join(map(table_line, figures[-2:])), flush=True)
            for found_row in rows(chosen, written=written):
                print(line(found_row), flush=True)
                figures += goals(found_row, stricter=bool(written and not found_row["of"]))
    finally:  # what is known is told, though the rest failed
        print(json.dumps(figures))
