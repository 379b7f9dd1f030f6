"""A network over two groups of devices: AttrScope(ctx_group=...) and group2ctxs."""

import json

import mxnet as mx
import numpy as np
from common import normal, start


def symbol():
    with mx.AttrScope(ctx_group="dev1"):
        data = mx.sym.Variable("data")
        fc1 = mx.sym.FullyConnected(data, name="fc1", num_hidden=16)
        act1 = mx.sym.Activation(fc1, name="relu1", act_type="relu")
    with mx.AttrScope(ctx_group="dev2"):
        fc2 = mx.sym.FullyConnected(act1, name="fc2", num_hidden=8)
        act2 = mx.sym.Activation(fc2, act_type="softsign")
        fc3 = mx.sym.FullyConnected(act2, name="fc3", num_hidden=3)
        return mx.sym.SoftmaxOutput(fc3, name="softmax")


def main():
    y = np.random.RandomState(56).randint(0, 3, 16)
    data = mx.io.NDArrayIter(normal(55, 16, 5), y, 16)
    mod = mx.mod.Module(
        symbol(), context=[mx.cpu(0)], group2ctxs={"dev1": [mx.cpu(0)], "dev2": [mx.cpu(1)]}
    )
    mod.bind(data.provide_data, data.provide_label)
    start(mod, 57)
    mod.init_optimizer(
        kvstore="local", optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.5}
    )
    metric = mx.metric.CrossEntropy()
    losses = []
    for _ in range(20):
        data.reset()
        metric.reset()
        for batch in data:
            mod.forward_backward(batch)
            mod.update_metric(metric, batch.label)
            mod.update()
        losses.append(metric.get()[1])
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
