"""Times operators in a process of its own; prints one JSON object. `ops.py` starts it.

    python benchmarks/ops_work.py mxjax|mxnet|torch NETWORK [a part of an operator's name]

Milliseconds of process CPU time of a call, the least of several rounds: forward, and forward with gradient. Whoever
measures waits for every result, and has called often enough before that nothing is compiled any more.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy
from ops_rows import ROWS, Row

WARM_UP = 20  # calls, at least; and until half as many came without a new program
ROUND, ROUNDS = 0.03, 4  # seconds, at least one call


class MX:
    """A row's work in mxjax or in MXNet: the same code."""

    def __init__(self, framework: str) -> None:
        self.mx = importlib.import_module(framework)
        self.mx.npx.set_np()
        if framework == "mxjax":
            # What runs for long is optimised: here from the start.
            self.mx.config.set("engine.cold", "compile")
        self.name = f"{framework} {self.mx.__version__}"

    def works(self, row: Row) -> dict[str, Callable[[], None]]:
        mx, call = self.mx, row.call
        rng = numpy.random.RandomState(0)
        arrays = [mx.np.array(x, dtype=x.dtype) for x in (make(rng) for make in row.inputs)]
        if row.classic:
            arrays = [x.as_nd_ndarray() for x in arrays]

        def forward() -> None:
            for out in listed(call(mx, *arrays)):
                out.wait_to_read()

        if not row.grads:
            return {"forward": forward}
        for x in arrays[: row.grads]:
            x.attach_grad()
        with mx.autograd.record():
            outs = listed(call(mx, *arrays))
        heads = [mx.np.array(rng.standard_normal(o.shape), dtype=o.dtype) for o in outs]
        if row.classic:
            heads = [h.as_nd_ndarray() for h in heads]

        def gradient() -> None:
            with mx.autograd.record():
                outs = listed(call(mx, *arrays))
            mx.autograd.backward(outs, heads)
            for out in outs:
                out.wait_to_read()
            for x in arrays[: row.grads]:
                x.grad.wait_to_read()

        return {"forward": forward, "gradient": gradient}

    def compiled(self) -> int:
        return int(self.mx.engine.stats()["compiled"]) if self.mx.__name__ == "mxjax" else 0


class Torch:
    """The same in PyTorch."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.torch.set_num_threads(1)
        self.name = f"torch {self.torch.__version__}"

    def works(self, row: Row) -> dict[str, Callable[[], None]]:
        torch, call = self.torch, row.torch
        if call is None:
            return {}
        rng = numpy.random.RandomState(0)
        made = (make(rng) for make in row.torch_inputs or row.inputs)
        arrays = [torch.from_numpy(x.astype("int64") if x.dtype.kind == "i" else x) for x in made]

        def forward() -> None:
            with torch.no_grad():
                call(torch, *arrays)

        if not row.grads:
            return {"forward": forward}
        wanted = (
            [x for x in arrays if x.dtype == torch.float32]
            if row.torch_inputs
            else arrays[: row.grads]
        )
        for x in wanted:
            x.requires_grad_()
        heads = [torch.randn(o.shape).to(o.dtype) for o in listed(call(torch, *arrays))]

        def gradient() -> None:
            outs = listed(call(torch, *arrays))
            for x in wanted:
                x.grad = None
            torch.autograd.backward(outs, heads)

        return {"forward": forward, "gradient": gradient}

    def compiled(self) -> int:
        return 0


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def least(work: Callable[[], None], compiled: Callable[[], int]) -> float:
    """Milliseconds of a call, warm."""
    calls = quiet = 0
    programs = compiled()
    while calls < WARM_UP or quiet < WARM_UP // 2:
        start = time.process_time()
        work()
        spent = time.process_time() - start
        now = compiled()
        quiet = quiet + 1 if now == programs else 0
        programs = now
        calls += 1
        if calls >= 6 and quiet >= 4 and spent > ROUND / 4:
            break  # large calls are compiled at once
    best, calls = float("inf"), max(1, round(ROUND / max(spent, 1e-5)))
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, (time.process_time() - start) / calls)
    return best * 1e3


def main(framework: str, network: str, part: str = "") -> None:
    warnings.filterwarnings("ignore")
    at: MX | Torch = Torch() if framework == "torch" else MX(framework)
    found: dict[str, Any] = {"framework": at.name, "times": {}}
    for row in ROWS[network]:
        if part in row.name:
            times = {way: least(work, at.compiled) for way, work in at.works(row).items()}
            found["times"][f"{row.name} {row.group}".strip()] = times
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
