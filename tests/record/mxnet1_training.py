"""Records what MXNet 1 has for training and 2 has no more: run with a Python that has MXNet 1.9.1.

    python tests/record/mxnet1_training.py tests/data/mxnet1_training.json

``lbsgd``: a weight after each of ten updates; starting weight and gradients come from ``RandomState(7)``.
``optimizers``: a weight after six updates, of the optimizers that 2.x changed.
``losses``: of each that 2.x changed, the numbers and the shape.
``fused_rnn``: the names that `FusedRNN` hands to its initializer with shape and place, read back from the vector.
``metrics``: `get` and `get_global` after two batches, `reset_local` and a third.
"""

import json
import sys

import mxnet as mx
import numpy as np

STEPS = 10
LBSGD = [
    {"learning_rate": 0.05},
    {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "batch_scale": 2,
        "warmup_epochs": 1,
        "updates_per_epoch": 6,
    },
    {
        "learning_rate": 0.05,
        "wd": 0.1,
        "batch_scale": 3,
        "warmup_strategy": "power2",
        "warmup_epochs": 2,
        "updates_per_epoch": 4,
        "rescale_grad": 0.5,
        "clip_gradient": 0.4,
    },
    {
        "learning_rate": 0.05,
        "batch_scale": 2,
        "warmup_strategy": "sqrt",
        "begin_epoch": 1,
        "updates_per_epoch": 4,
    },
    {"learning_rate": 0.05, "momentum": 0.5, "wd": 0.01, "warmup_strategy": "lars"},
]
OPTIMIZERS = "sgd nag adam adagrad adadelta rmsprop ftml adamax nadam dcasgd lars test".split()
DECAYED = {"learning_rate": 0.1, "wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.5}
LOSSES = {
    "KLDivLoss": [{}, {"from_logits": False, "weight": 0.5}],
    "PoissonNLLLoss": [{}, {"compute_full": True}],
    "CosineEmbeddingLoss": [{"margin": 0.1}],
    "SDMLLoss": [{}],
}
RNN = [("lstm", 2, False), ("lstm", 1, True), ("gru", 1, False), ("rnn_tanh", 2, True)]
# Not rmse and mcc, which 1.x averages over batches: here they are of all samples, as in 2.x.
METRICS = ["acc", "mae", "mse", "ce", "nll_loss", "f1", "pcc", "perplexity", "loss", "caffe"]


def lbsgd(kwargs):
    rng = np.random.RandomState(7)
    updater = mx.optimizer.get_updater(mx.optimizer.create("lbsgd", **kwargs))
    weight, out = mx.nd.array(rng.uniform(-1, 1, (3, 4))), []
    for _ in range(STEPS):
        updater(0, mx.nd.array(rng.uniform(-2, 2, (3, 4))), weight)
        out.append(weight.asnumpy().ravel().tolist())
    return {"kwargs": kwargs, "weights": out}


def optimizer(name, kwargs):
    rng = np.random.RandomState(7)
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **kwargs))
    weight = mx.nd.array(rng.uniform(-1, 1, (3, 4)))
    for _ in range(6):
        updater(0, mx.nd.array(rng.uniform(-2, 2, (3, 4))), weight)
    return {"name": name, "kwargs": kwargs, "weight": weight.asnumpy().ravel().tolist()}


def loss(name, kwargs):
    rng = np.random.RandomState(5)
    one, other, label = (
        rng.uniform(0.1, 0.9, (4, 5)),
        rng.uniform(0.1, 3, (4, 5)),
        np.sign(rng.uniform(-1, 1, 4)),
    )
    given = [one, other, label] if name == "CosineEmbeddingLoss" else [one, other]
    got = getattr(mx.gluon.loss, name)(**kwargs)(*[mx.nd.array(a) for a in given])
    return {
        "name": name,
        "kwargs": kwargs,
        "shape": list(got.shape),
        "values": got.asnumpy().ravel().tolist(),
    }


def fused(mode, layers, both):
    seen = []

    class Numbered(mx.init.Initializer):
        def _init_weight(self, name, arr):
            seen.append((str(name), list(arr.shape)))
            arr[:] = len(seen)

        _init_bias = _init_weight

    mx.init.register(Numbered)
    cell = mx.rnn.FusedRNNCell(3, layers, mode, both, prefix="")
    size = {"lstm": 4, "gru": 3}.get(mode, 1) * 3 * (2 if both else 1)
    total = size * (2 + 3 + 2) + (layers - 1) * size * (3 * (2 if both else 1) + 3 + 2)
    arr = mx.nd.zeros((total,))
    mx.init.FusedRNN(Numbered(), 3, layers, mode, both, 7.0)(
        mx.init.InitDesc("parameters_weight"), arr
    )
    return {
        "mode": mode,
        "layers": layers,
        "both": both,
        "seen": seen,
        "vector": arr.asnumpy().tolist(),
        "cell": cell.__class__.__name__,
    }


def metric(name):
    rng = np.random.RandomState(3)
    kwargs = {"ignore_label": None} if name == "perplexity" else {}
    if name == "f1":
        kwargs["average"] = "micro"
    made, out = mx.metric.create(name, **kwargs), []
    for batch in range(3):
        if batch == 2:
            made.reset_local()
        pred = rng.uniform(0.1, 1, (6, 2)).astype("float32")
        pred /= pred.sum(axis=1, keepdims=True)
        label = rng.randint(0, 2, (6,)).astype("float32")
        if name in ("mae", "mse", "rmse"):
            label = rng.uniform(0, 1, (6, 2)).astype("float32")
        made.update([mx.nd.array(label)], [mx.nd.array(pred)])
        out.append([float(made.get()[1]), float(made.get_global()[1])])
    return {"name": name, "kwargs": kwargs, "title": made.get()[0], "values": out}


def main(path):
    made = {
        "lbsgd": [lbsgd(k) for k in LBSGD],
        "fused_rnn": [fused(*r) for r in RNN],
        "metrics": [metric(m) for m in METRICS],
        "optimizers": [optimizer(n, k) for n in OPTIMIZERS for k in ({}, DECAYED)]
        + [
            optimizer("nag", {"momentum": 0.9, "wd": 0.5}),
            optimizer("rmsprop", {"centered": True, **DECAYED}),
        ],
        "losses": [loss(n, k) for n, kinds in LOSSES.items() for k in kinds],
    }
    with open(path, "w") as file:
        json.dump(made, file)


if __name__ == "__main__":
    main(sys.argv[1])
