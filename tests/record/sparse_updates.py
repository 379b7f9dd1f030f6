"""Records what MXNet 2.0.0b1's optimizers make of row_sparse gradients: tests/data/sparse_updates.json.

    <a Python with MXNet 2> tests/record/sparse_updates.py
"""

import json
import os

import mxnet as mx
import numpy as np

CASES = [
    ("sgd", {}), ("sgd", {"lazy_update": True}), ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.9, "lazy_update": True}), ("adam", {}), ("adam", {"lazy_update": True}),
    ("adagrad", {"wd": 0}), ("ftrl", {}), ("groupadagrad", {"wd": 0}), ("lars", {"lazy_update": True}), ("nag", {}),
    ("rmsprop", {}), ("signum", {}),
]  # fmt: skip


def updated(name, options, stype):
    """The weight after two updates from a gradient of two rows of four."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **options))
    weight = mx.nd.array(np.arange(1, 9).reshape(4, 2)).tostype(stype)
    grad = mx.nd.sparse.row_sparse_array(([[1, 2.0], [3, 4]], [0, 2]), shape=(4, 2))
    for _ in range(2):
        updater(0, grad, weight)
    return weight.asnumpy().tolist()


mx.npx.reset_np()
found = []
for name, given in CASES:
    options = {"learning_rate": 0.1, "wd": 0.01, **given}
    for stype in ("default", "row_sparse"):
        found.append([name, options, stype, updated(name, options, stype)])
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "sparse_updates.json")
with open(here, "w") as file:
    json.dump(found, file, indent=1)
    file.write("\n")
