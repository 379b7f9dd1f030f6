"""Inference in 8 bits by the operators: quantize, a product of int8, requantize, dequantize."""

import json

from common import normal
from mxnet import nd


def quantized(x):
    limit = nd.max(nd.abs(x)).reshape((1,))
    return nd.contrib.quantize(x, -limit, limit, out_type="int8")


def main():
    errors = []
    for k in range(20):
        x, w = nd.array(normal(60 + k, 4, 32)), nd.array(normal(90 + k, 8, 32))
        exact = nd.FullyConnected(x, w, num_hidden=8, no_bias=True)
        (qx, x0, x1), (qw, w0, w1) = quantized(x), quantized(w)
        out, low, high = nd.contrib.quantized_fully_connected(
            qx, qw, x0, x1, w0, w1, num_hidden=8, no_bias=True
        )
        out, low, high = nd.contrib.requantize(
            out, low, high, min_calib_range=-30.0, max_calib_range=30.0
        )
        back = nd.contrib.dequantize(out, low, high, out_type="float32")
        errors.append(nd.abs(back - exact).mean().asscalar())
    return errors


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
