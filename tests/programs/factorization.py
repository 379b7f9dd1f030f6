"""A factorization machine on a LibSVM file: CSR batches, row-sparse weights pulled and pushed by rows."""

import json
import os
import tempfile

import mxnet as mx
import numpy as np
from common import normal


def write(path, rows, features):
    rng = np.random.RandomState(15)
    with open(path, "w") as out:
        for k in range(rows):
            at = sorted(rng.choice(features, 5, replace=False))
            out.write("%d %s\n" % (k % 2, " ".join("%d:%.3f" % (i, rng.uniform()) for i in at)))


def machine(features, factors):
    x = mx.sym.var("data", stype="csr")
    v = mx.sym.var("v", shape=(features, factors), stype="row_sparse")
    w = mx.sym.var("w", shape=(features, 1), stype="row_sparse")
    bias = mx.sym.var("bias", shape=(1,))
    linear = mx.sym.broadcast_add(mx.sym.sparse.dot(x, w), bias)
    squares = mx.sym.sum(mx.sym.square(mx.sym.sparse.dot(x, v)), axis=1, keepdims=1)
    v2 = mx.sym.sum(mx.sym._internal._square_sum(v, axis=1, keepdims=True), axis=1, keepdims=1)
    squared = mx.sym.sparse.dot(mx.sym.sparse.square(x), v2)
    return mx.sym.LogisticRegressionOutput(
        linear + 0.5 * (squares - squared), mx.sym.var("softmax_label"), name="fm"
    )


def main():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "train.libsvm")
    write(path, 24, 30)
    data = mx.io.LibSVMIter(data_libsvm=path, data_shape=(30,), batch_size=8)
    mod = mx.mod.Module(machine(30, 4))
    mod.bind(data_shapes=data.provide_data, label_shapes=data.provide_label)
    mod.init_params(
        arg_params={
            "v": mx.nd.array(0.3 * normal(16, 30, 4)).tostype("row_sparse"),
            "w": mx.nd.array(0.3 * normal(17, 30, 1)).tostype("row_sparse"),
            "bias": mx.nd.zeros((1,)),
        },
        aux_params={},
    )
    mod.init_optimizer(
        optimizer="adagrad",
        optimizer_params={"learning_rate": 0.1, "rescale_grad": 1.0 / 8, "wd": 1e-4},
    )
    metric = mx.metric.Loss()
    losses = []
    for _ in range(20):
        data.reset()
        metric.reset()
        for batch in data:
            mod.forward(batch, is_train=True)
            p, y = mod.get_outputs()[0].reshape((-1,)), batch.label[0].reshape((-1,))
            metric.update(None, -(y * mx.nd.log(p) + (1 - y) * mx.nd.log(1 - p)))
            mod.backward()
            mod.update()
        losses.append(metric.get()[1])
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
