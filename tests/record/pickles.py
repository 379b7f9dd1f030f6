"""Records pickles of MXNet's objects: run on MXNet 1.9.1 and on 2.0.0b1.

    python tests/record/pickles.py tests/data/pickles.json

Each run replaces what the file says of its own version.
"""

import base64
import json
import pathlib
import pickle
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd, sym

TWO = mx.__version__.startswith("2")
if TWO:
    mx.npx.set_np()
X = np.arange(12, dtype="float32").reshape(4, 3)
made = mx.np.array if TWO else nd.array


def numbers(a):
    return a.asnumpy().tolist()


def trained():
    net = gluon.nn.HybridSequential(prefix="net_") if not TWO else gluon.nn.HybridSequential()
    with net.name_scope() if not TWO else mx.util.np_array(True):
        net.add(gluon.nn.Dense(4, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    for _ in range(2):
        with autograd.record():
            loss = (net(made(X)) ** 2).mean()
        loss.backward()
        trainer.step(4)
    return net, trainer


def objects():
    """Name, object, and what is known of it."""
    for dtype in ("float32", "float16", "int64", "uint8"):
        a = nd.array(np.arange(6).reshape(2, 3), dtype=dtype)
        yield f"nd {dtype}", a, numbers(a)
    if not TWO:
        for stype in ("csr", "row_sparse"):
            a = nd.array(np.eye(3)).tostype(stype)
            yield f"nd {stype}", a, numbers(a)
    if TWO:
        yield "np", mx.np.array([[1.0, 2.0]]), [[1.0, 2.0]]
        yield "np scalar", mx.np.array(3.0), 3.0
    s = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    yield "symbol", s, s.list_arguments()
    yield "group", sym.Group([s, s * 2]), 2
    yield "context", mx.cpu(1), ["cpu", 1]
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", momentum=0.9, learning_rate=0.5))
    w = made([1.0, 1.0])
    updater(0, w * 1, w)
    data = pickle.dumps(updater)
    updater(0, made([1.0, 1.0]), w)
    yield "updater", data, numbers(w)
    net, trainer = trained()
    if not TWO:  # there weak references are in the way
        yield (
            "parameter",
            net[0].weight,
            [numbers(net[0].weight.data()), numbers(net[0].weight.grad())],
        )
        yield "trainer", trainer, [trainer.learning_rate, trainer.optimizer.num_update]
        yield "network", net, None
    alone = gluon.nn.Dense(2, in_units=3)
    alone.initialize(mx.init.One())
    yield (
        "parameters",
        alone.collect_params(),
        {k: numbers(p.data()) for k, p in alone.collect_params().items()},
    )
    yield "batch", mx.io.DataBatch([made(X)], [made(X)]), X.tolist()
    yield "iterator", mx.io.NDArrayIter(X, np.arange(4), 2), [[0.0, 1.0], [2.0, 3.0]]
    yield "schedule", mx.lr_scheduler.MultiFactorScheduler([2, 3]), None


def main(path):
    file = pathlib.Path(path)
    found = json.loads(file.read_text()) if file.exists() else {}
    found["2.0.0b1" if TWO else "1.9.1"] = {
        name: {
            "pickle": base64.b64encode(
                it if isinstance(it, bytes) else pickle.dumps(it, 4)
            ).decode(),
            "expected": expected,
        }
        for name, it, expected in objects()
    }
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
