"""Records training runs of MXNet 2.0: losses step by step, and the parameters at the end.

Run with a Python that has Apache MXNet 2.0.0b1: ``python trainer.py``. Writes
``../data/trainer.json``: the data, the parameters at the start, and cases
``{optimizer, kwargs, schedule, mults, losses, end}``.
"""

import mxnet as mx
import numpy as onp
from codec import array, save
from mxnet import autograd, gluon

STEPS = 8
rng = onp.random.RandomState(11)
X = rng.normal(size=(8, 3)).astype("float32")
Y = rng.randint(0, 2, 8).astype("int32")
START = {
    "0.weight": rng.normal(size=(4, 3)).astype("float32"),
    "0.bias": rng.normal(size=4).astype("float32"),
    "1.weight": rng.normal(size=(2, 4)).astype("float32"),
    "1.bias": rng.normal(size=2).astype("float32"),
}
CASES = [
    ("sgd", {"learning_rate": 0.3}, None, {}),
    ("sgd", {"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01}, None, {}),
    ("sgd", {"momentum": 0.5}, ("FactorScheduler", {"step": 2, "factor": 0.5}), {}),
    ("nag", {"learning_rate": 0.2, "momentum": 0.9}, None, {}),
    ("adam", {"learning_rate": 0.05}, None, {}),
    (
        "adam",
        {"learning_rate": 0.05, "wd": 0.1},
        None,
        {"0.bias": {"lr_mult": 0.0, "wd_mult": 0.0}, "1.weight": {"lr_mult": 0.5}},
    ),
    (
        "adam",
        {"clip_gradient": 0.1},
        ("CosineScheduler", {"max_update": 8, "base_lr": 0.1, "warmup_steps": 2}),
        {},
    ),
    ("rmsprop", {"learning_rate": 0.02}, None, {}),
    ("adagrad", {"learning_rate": 0.1}, None, {}),
]


def case(optimizer, kwargs, schedule, mults):
    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(4, activation="relu", in_units=3), gluon.nn.Dense(2, in_units=4))
    net.initialize()
    params = net.collect_params()
    for name, value in START.items():
        params[name].set_data(mx.np.array(value))
    for name, own in mults.items():
        for key, value in own.items():
            setattr(params[name], key, value)
    arguments = dict(kwargs)
    if schedule:
        scheduler = getattr(mx.lr_scheduler, schedule[0])(**schedule[1])
        arguments.update(lr_scheduler=scheduler, learning_rate=None)
    trainer = gluon.Trainer(params, optimizer, arguments)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(STEPS):
        with autograd.record():
            loss = loss_fn(net(mx.np.array(X)), mx.np.array(Y, dtype="int32"))
        loss.backward()
        trainer.step(len(X))
        losses.append(float(loss.mean().item()))
    return {
        "optimizer": optimizer,
        "kwargs": kwargs,
        "schedule": schedule,
        "mults": mults,
        "losses": losses,
        "end": {k: array(p.data()) for k, p in params.items()},
    }


if __name__ == "__main__":
    save(
        "trainer.json",
        {
            "x": array(X),
            "y": array(Y),
            "start": {k: array(v) for k, v in START.items()},
            "cases": [case(*c) for c in CASES],
        },
    )
