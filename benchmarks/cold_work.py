"""Work that runs before it is compiled, in a process of its own; prints one JSON object. `cold.py` starts it.

    python benchmarks/cold_work.py mxjax|mxnet expressions|ragged|elements|numbers
    python benchmarks/cold_work.py mxjax|mxnet programs [count]

The same lines run with mxjax and with real MXNet 2. Seconds of process CPU time, from the first line of the work on:
importing is not in it, compiling is. ``programs``: megabytes of memory.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy


def expressions(mx: Any) -> dict[str, float]:
    """Ten small expressions on each of 20 new shapes; seconds of one expression."""
    np, npx = mx.np, mx.npx
    works: list[Callable[[Any], Any]] = [
        lambda x: np.tanh(x) + 1,
        lambda x: x.sum(0),
        lambda x: np.dot(x, x.T),
        lambda x: npx.softmax(x),
        lambda x: np.argsort(x, 1),
        lambda x: np.concatenate([x, x]),
        lambda x: np.where(x > 0, x, 0),
        lambda x: x.mean(),
        lambda x: np.exp(x) * 2 - x,
        lambda x: x[1:, :-1],
    ]
    rng = numpy.random.RandomState(0)
    arrays = [np.array(rng.randn(23 + k, 5 + k).astype("float32")) for k in range(20)]
    npx.waitall()
    start = time.process_time()
    for x in arrays:
        for work in works:
            work(x).asnumpy()
    return {"expressions": (time.process_time() - start) / (len(arrays) * len(works))}


def ragged(mx: Any) -> dict[str, float]:
    """Training on 100 sentences of different lengths, one at a time: the first epoch and the second."""
    np, gluon = mx.np, mx.gluon
    rng = numpy.random.RandomState(0)
    sentences = [
        np.array(rng.randint(0, 1000, 5 + k).astype("int32")) for k in rng.permutation(100)
    ]
    labels = [np.array([k % 2], dtype="int32") for k in range(100)]
    embedding, dense = gluon.nn.Embedding(1000, 32), gluon.nn.Dense(2)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    for block in (embedding, dense):
        block.initialize()
    trainers = [
        gluon.Trainer(b.collect_params(), "adam", {"learning_rate": 0.01})
        for b in (embedding, dense)
    ]
    found = {}
    for epoch in ("first", "second"):
        start = time.process_time()
        for words, label in zip(sentences, labels, strict=True):
            with mx.autograd.record():
                scores = dense(np.expand_dims(embedding(words).mean(axis=0), 0))
                loss = loss_fn(scores, label)
            loss.backward()
            for trainer in trainers:
                trainer.step(1)
            float(loss.item())
        found[f"ragged_{epoch}"] = time.process_time() - start
    return found


def elements(mx: Any) -> dict[str, float]:
    """A Python loop over 1,000 elements."""
    np = mx.np
    x = np.array(numpy.random.RandomState(0).randn(1000).astype("float32"))
    mx.npx.waitall()
    start = time.process_time()
    total = np.zeros(())
    for i in range(1000):
        v = x[i]
        total = total + v * np.cos(0.1 * v)
    float(total.item())
    return {"elements": time.process_time() - start}


def numbers(mx: Any) -> dict[str, float]:
    """Three loops whose Python numbers are new each time: seconds of each."""
    np, rng = mx.np, numpy.random.RandomState(0)

    def policy() -> None:
        """40 episodes of 40 steps, each weighted by a number of its own."""
        w = np.zeros((8,))
        x = np.array(rng.randn(40, 8).astype("float32"))
        w.attach_grad()
        for _ in range(40):
            with mx.autograd.record():
                total = np.zeros(())
                for k in range(40):
                    total = total + np.log(mx.npx.sigmoid((w * x[k]).sum())) * float(rng.rand())
            total.backward()
            w[:] = w + 0.01 * w.grad

    def adam() -> None:
        """200 steps of textbook Adam for ten parameters."""
        params = [np.ones((16, 16)) * (k + 1) for k in range(10)]
        states = [(np.zeros((16, 16)), np.zeros((16, 16))) for _ in params]
        for p in params:
            p.attach_grad()
        for t in range(1, 201):
            with mx.autograd.record():
                loss = sum((p * p).sum() for p in params)
            loss.backward()
            for k, (p, (m, v)) in enumerate(zip(params, states, strict=True)):
                m = 0.9 * m + (1 - 0.9) * p.grad
                v = 0.999 * v + (1 - 0.999) * p.grad**2
                states[k] = m, v
                p[:] = p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)

    def replay() -> None:
        """300 steps with a buffer that grows, noise that decays and a temperature that is annealed."""
        memory = np.array(rng.randn(1000, 4).astype("float32"))
        w = np.array(rng.randn(4, 3).astype("float32"))
        for k in range(300):
            picked = np.random.randint(0, 10 + k, size=(8,))
            scores = np.dot(memory[picked], w) + np.random.normal(0, 0.5 * 0.99**k, size=(8, 3))
            chance = mx.npx.softmax(scores, temperature=1.0 + 1.0 / (1 + k))
            w = w + 0.01 * (1 - 0.99**k) * chance.mean(axis=0)

    found = {}
    for loop in (policy, adam, replay):
        start = time.process_time()
        loop()
        mx.npx.waitall()
        found[f"numbers_{loop.__name__}"] = time.process_time() - start
    return found


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


def main() -> None:
    framework, work, *count = sys.argv[1:]
    warnings.filterwarnings("ignore")
    mx = importlib.import_module(framework)
    mx.npx.set_np()
    parts: dict[str, Callable[[Any], dict[str, float]]] = {
        "expressions": expressions, "ragged": ragged, "elements": elements, "numbers": numbers,
    }  # fmt: skip
    found: dict[str, Any] = {"framework": f"{framework} {mx.__version__}"}
    if work == "programs":
        found["programs"] = programs(mx, int(count[0]) if count else 400)
    else:
        found |= parts[work](mx)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
