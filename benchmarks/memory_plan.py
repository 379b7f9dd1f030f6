"""Plans at shares of a network's temporary bytes: within the budget, how near, and at what cost.

    python benchmarks/memory_plan.py [transformer] [resnet] [unet] [translator]

Shares are of the same step with barriers between its units and nothing recomputed. Bytes and
arithmetic are XLA's own counts; nothing runs. Each row says how many compilations it took beside those
of the rows before (arrangements that were compiled once are known).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks import memory_networks
from mxjax.memonger import InfeasibleBudget
from mxjax.memonger._fit import search
from mxjax.memonger._session import Session

SHARES = (0.6, 0.4, 0.25, 0.15)


def rows(name: str, shares: Sequence[float] = SHARES, **sizes: Any) -> Iterator[dict[str, Any]]:
    """One row per share: budget, bytes, slack, recomputation over the relaxed optimum, arithmetic over
    that of the plain step, compilations, seconds of wall and processor time. Where nothing fits,
    ``bytes`` is the least that was found and ``feasible`` is False."""
    # Random weights would be drawn by one more program, which takes as long to compile as a plan.
    net, inputs = getattr(memory_networks, name)(init=mx.init.Constant(0.01), **sizes)
    wall, cpu = time.perf_counter(), time.process_time()
    session = Session(net, inputs, "sgd")
    for share in shares:
        row: dict[str, Any] = {"network": name, "share": share}
        try:
            found = search(session, share, "temp", 5)
        except InfeasibleBudget as error:
            row.update(feasible=False, bytes=error.least_bytes)
        else:
            trial, plain = found.trial, found.baseline
            row.update(
                feasible=True,
                budget=found.budget,
                bytes=trial.bytes("temp"),
                slack=1 - trial.bytes("temp") / found.budget,
                over_relaxed=trial.cost / found.bound if found.bound else 1.0,
                arithmetic=trial.measured.flops / plain.measured.flops,
                compilations=found.compilations,
            )
        row.update(seconds=time.perf_counter() - wall, cpu_seconds=time.process_time() - cpu)
        wall, cpu = time.perf_counter(), time.process_time()
        yield row


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    head = f"{row['network']:<12} {row['share']:>4.0%}"
    tail = f"{row['seconds']:>6.0f} s ({row['cpu_seconds']:.0f} s of processor time)"
    if not row["feasible"]:
        return f"{head}  infeasible: the least found is {row['bytes'] / 2**20:.1f} MiB {tail}"
    return (
        f"{head}  {row['bytes'] / 2**20:>7.2f} of {row['budget'] / 2**20:>7.2f} MiB, slack {row['slack']:>5.1%}, "
        f"recompute {row['over_relaxed']:.3f} x relaxed, arithmetic {row['arithmetic']:.3f} x, "
        f"{row['compilations']} compilations {tail}"
    )


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ("transformer", "resnet"):
        for found_row in rows(chosen):
            print(line(found_row), flush=True)
