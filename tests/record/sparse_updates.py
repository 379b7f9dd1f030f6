"""Records what MXNet's optimizers make of row_sparse gradients: into tests/data/sparse_updates.json, by generation.

    <a Python with MXNet 2.0.0b1> tests/record/sparse_updates.py 2
    <a Python with MXNet 1.9.1> tests/record/sparse_updates.py 1

A case is a name, options, the weight's stype and its dtype, then the weight after three updates, whose gradients have
other rows each.
"""

import json
import os
import sys

import numpy as np

LAZY, MOMENTUM = {"lazy_update": True}, {"momentum": 0.9}
OF_ALL = [
    ("sgd", {}), ("sgd", LAZY), ("sgd", MOMENTUM), ("sgd", {**MOMENTUM, **LAZY}), ("sgd", {**MOMENTUM, "wd": 0}),
    ("sgd", {"clip_gradient": 0.5, "rescale_grad": 0.5, **LAZY}), ("adam", {}), ("adam", LAZY),
    ("adam", {"lazy_update": False}), ("adam", {"wd": 0.1, "clip_gradient": 0.7}), ("adagrad", {"wd": 0}),
    ("ftrl", {}), ("groupadagrad", {"wd": 0}), ("lars", LAZY), ("lars", {**MOMENTUM, **LAZY}), ("nag", {}),
    ("nag", MOMENTUM), ("nag", {"clip_gradient": 0.5}), ("rmsprop", {}), ("rmsprop", {"centered": True}),
    ("signum", {}), ("signum", {"momentum": 0}), ("adadelta", {}), ("adamax", {}), ("nadam", {}), ("ftml", {}),
    ("dcasgd", {}),
]  # fmt: skip
#: Of one generation alone. MXNet 2's LAMB counts an update from a sparse gradient twice, which is left out here.
OF_ONE = {
    1: [("lbsgd", {}), ("lbsgd", MOMENTUM), ("ccsgd", MOMENTUM), ("lamb", {})],
    2: [("adamw", {}), ("lans", {}), ("adabelief", {})],
}
HALVES = [
    ("sgd", {}),
    ("sgd", MOMENTUM),
    ("adam", {}),
    ("nag", MOMENTUM),
    ("adagrad", {"wd": 0}),
    ("rmsprop", {}),
]
#: SGD of 1.9 may be told to be lazy, and is not; that of 2.0 refuses it.
HALVES_OF_ONE = {1: [("sgd", {**MOMENTUM, **LAZY}), ("lbsgd", MOMENTUM)], 2: [("adam", LAZY)]}
ROWS = [[0, 2, 5], [1, 2, 3], [4, 5]]


def updated(mx, name, options, stype, dtype="float32"):
    """The weight after three updates."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **options))
    weight = mx.nd.array(np.arange(1, 13).reshape(6, 2) / 4, dtype=dtype).tostype(stype)
    for k, rows in enumerate(ROWS):
        data = np.array([[1, 2.0], [-3, 4], [0.5, -0.25]])[: len(rows)] * (k + 1)
        updater(0, mx.nd.sparse.row_sparse_array((data, rows), shape=(6, 2), dtype=dtype), weight)
    return weight


if __name__ == "__main__":
    import mxnet as mx

    of = int(sys.argv[1])
    if hasattr(mx, "npx"):
        mx.npx.reset_np()
    cases = [(*case, "float32") for case in OF_ALL + OF_ONE[of]]
    cases += [
        (name, {**more, "multi_precision": True}, "float16")
        for name, more in HALVES + HALVES_OF_ONE[of]
    ]
    found = []
    for name, given, dtype in cases:
        options = {"learning_rate": 0.1, "wd": 0.01, **given}
        for stype in ("default", "row_sparse"):
            weight = updated(mx, name, options, stype, dtype)
            assert weight.stype == stype
            found.append([name, options, stype, dtype, weight.asnumpy().tolist()])
    here = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "data", "sparse_updates.json"
    )
    with open(here) as file:
        kept = json.load(file)
    kept = kept if isinstance(kept, dict) else {}
    with open(here, "w") as file:
        file.write("{\n")
        for key in ("1", "2"):
            rows = found if key == str(of) else kept.get(key, [])
            lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
            file.write(f'"{key}": [\n{lines}\n]' + (",\n" if key == "1" else "\n"))
        file.write("}\n")
    print(len(found))
