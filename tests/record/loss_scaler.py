"""Records how MXNet's loss scale moves: run with a Python that has MXNet 2.0.0b1.

    python tests/record/loss_scaler.py tests/data/loss_scaler.json

Per step whether the gradients were finite, and after it the scale; the scale grows after 3 finite steps here.
"""

import json
import sys

import mxnet as mx
import numpy as np
from mxnet.amp.loss_scaler import LossScaler

FINITE = [1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]


class Holder:
    def __init__(self, grad):
        self._grad = [mx.np.array(grad)]


def main(path):
    scaler = LossScaler()
    scaler._scale_seq_len = 3
    scaler._max_loss_scale = 2.0**17
    out = []
    for finite in FINITE:
        found = scaler.has_overflow([Holder([1.0, 2.0]), Holder([1.0 if finite else np.inf])])
        out.append([bool(finite), bool(found), scaler.loss_scale])
    with open(path, "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main(sys.argv[1])
