"""Times the bench's work in real MXNet 2.0 and prints one JSON object.

Run it with a Python that has MXNet (``make bench`` does, where MXJAX_BENCH_MXNET names one)::

    OMP_NUM_THREADS=1 taskset -c 1 /path/to/python benchmarks/lenet_mxnet.py [repeats]

Milliseconds, the least of several repeats; ``cpu`` is process CPU time, ``wall`` wall time.
"""

import json
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon, np, npx  # noqa: E402

npx.set_np()


def best_of(step, sync, calls, repeats):
    """Least milliseconds per call, by CPU and by wall clock, over `repeats` rounds of `calls`."""
    for _ in range(3):
        step()
    sync()
    cpu = wall = float("inf")
    for _ in range(repeats):
        c, w = time.process_time(), time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        cpu = min(cpu, (time.process_time() - c) / calls)
        wall = min(wall, (time.perf_counter() - w) / calls)
    return {"cpu": cpu * 1e3, "wall": wall * 1e3}


def lenet(batch, hybridize, optimizer):
    """One LeNet training step as a function without arguments."""
    nn = gluon.nn
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    if hybridize:
        net.hybridize(static_alloc=True, static_shape=True)
        loss_fn.hybridize(static_alloc=True, static_shape=True)
    x = np.random.uniform(size=(batch, 1, 28, 28))
    y = np.zeros(batch, dtype="int32")
    net(x)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 1e-3})

    def step():
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(batch)

    return step


def chain(size):
    """Thirty small elementwise operators, one after the other, then a synchronisation."""
    x = np.random.uniform(size=(size,))

    def step():
        y = x
        for _ in range(10):
            y = np.tanh(y * 1.01 + 0.1)
        y.wait_to_read()

    return step


def one_operator():
    x = np.ones((8, 8))
    return lambda: (x * x).wait_to_read()


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    out = {"framework": "mxnet " + mx.__version__}
    for optimizer in ("adam", "sgd"):
        for batch, calls in ((64, 10), (4, 40)):
            for mode, hyb in (("imperative", False), ("hybridized", True)):
                key = f"lenet_{optimizer}_{batch}_{mode}"
                out[key] = best_of(lenet(batch, hyb, optimizer), npx.waitall, calls, repeats)
    out["chain_30_small"] = best_of(chain(16), npx.waitall, 100, repeats)
    out["chain_30_million"] = best_of(chain(1_000_000), npx.waitall, 2, max(3, repeats // 2))
    out["one_operator_sync"] = best_of(one_operator(), npx.waitall, 500, repeats)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
