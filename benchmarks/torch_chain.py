"""The bench's work in eager PyTorch on the CPU; prints one JSON object.

    OMP_NUM_THREADS=1 taskset -c 1 /path/to/python/with/torch benchmarks/torch_chain.py [repeats]

Milliseconds, the least of several repeats; ``cpu`` is process CPU time, ``wall`` wall time.
"""

import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


def best_of(step, calls, repeats):
    """Least milliseconds per call, by CPU and by wall clock, over `repeats` rounds of `calls`."""
    for _ in range(3):
        step()
    cpu = wall = float("inf")
    for _ in range(repeats):
        c, w = time.process_time(), time.perf_counter()
        for _ in range(calls):
            step()
        cpu = min(cpu, (time.process_time() - c) / calls)
        wall = min(wall, (time.perf_counter() - w) / calls)
    return {"cpu": cpu * 1e3, "wall": wall * 1e3}


def lenet(batch, optimizer):
    """One LeNet training step as a function without arguments."""
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip
    rule = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](net.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    x, y = torch.rand(batch, 1, 28, 28), torch.zeros(batch, dtype=torch.long)

    def step():
        rule.zero_grad()
        loss_fn(net(x), y).backward()
        rule.step()

    return step


def chain(size):
    """Thirty elementwise operators, one after the other."""
    x = torch.full((size,), 0.5)

    def step():
        y = x
        for _ in range(10):
            y = torch.tanh(y * 1.01 + 0.1)
        return y

    return step


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    out = {"framework": "torch " + torch.__version__}
    for optimizer in ("adam", "sgd"):
        for batch, calls in ((64, 10), (4, 40)):
            out[f"lenet_{optimizer}_{batch}"] = best_of(lenet(batch, optimizer), calls, repeats)
    with torch.no_grad():
        out["chain_30_small"] = best_of(chain(16), 300, repeats)
        out["chain_30_million"] = best_of(chain(1_000_000), 2, max(3, repeats // 2))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
