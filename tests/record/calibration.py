"""Records MXNet's calibrated thresholds: run with a Python that has MXNet 2.0.0b1.

    python tests/record/calibration.py tests/data/calibration.json

Histograms of numbers drawn from ``RandomState(3)`` (normal, one-sided, with outliers), and what
``nd.contrib.calibrate_entropy`` gives for them: threshold and divergence.
"""

import json
import sys

import mxnet as mx
import numpy as np


def samples():
    rng = np.random.RandomState(3)
    return {
        "normal": rng.normal(0, 1, 20000),
        "relu": np.maximum(rng.normal(0, 1, 20000), 0),
        "outliers": np.concatenate([rng.normal(0, 1, 20000), [40.0, -35.0]]),
    }


def main(path):
    out = []
    for name, x in samples().items():
        reach = float(np.abs(x).max())
        hist, edges = np.histogram(x, bins=1001, range=(-reach, reach))
        for levels in (255, 511):
            threshold, divergence = mx.nd.contrib.calibrate_entropy(
                hist=mx.nd.array(hist), hist_edges=mx.nd.array(edges), num_quantized_bins=levels
            )
            out.append([name, levels, float(threshold.asnumpy()), float(divergence.asnumpy())])
    with open(path, "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main(sys.argv[1])
