"""Work that real MXNet does without a compiler, for mxjax and for it alike.

    python benchmarks/cold_work.py programs mxjax 400
    python benchmarks/cold_work.py programs mxnet 400
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any


def resident() -> float:
    """Megabytes of memory that this process holds."""
    with open("/proc/self/status") as status:
        kilobytes = next(line.split()[1] for line in status if line.startswith("VmRSS"))
    return int(kilobytes) / 1024


def programs(mx: Any, count: int, every: int = 100, kind: str = "both") -> list[float]:
    """Train so many small networks, no two alike, three steps each, and drop them; prints memory now and then.

    ``kind``: imperative ones, hybrid ones, or by turns both. Gives the megabytes after each ``every`` networks.
    """
    from_package = importlib.import_module(f"{mx.__name__}.gluon")
    nn, loss_of = from_package.nn, from_package.loss.L2Loss()
    found = []
    for k in range(1, count + 1):
        net = nn.HybridSequential()
        net.add(nn.Dense(4 + k, activation="tanh"), nn.Dense(3))
        net.initialize()
        if kind == "hybrid" or (kind == "both" and k % 2):
            net.hybridize()
        trainer = from_package.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x, y = mx.np.ones((8, 5)), mx.np.ones((8, 3))
        for _ in range(3):
            with mx.autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(8)
            loss.asnumpy()
        del net, trainer, loss
        if k % every == 0:
            gc.collect()
            found.append(resident())
            print(f"{k} networks: {found[-1]:.0f} MB", flush=True)
    return found


if __name__ == "__main__":
    work, package, count = sys.argv[1:4]
    if work != "programs":
        raise SystemExit(__doc__)
    programs(importlib.import_module(package), int(count), *(int(n) for n in sys.argv[4:5]), *sys.argv[5:6])
