"""Two tasks of one body in Module, with a metric of its own and a callback."""

import json
import logging

import mxnet as mx
import numpy as np
from common import normal, start


class MultiLoss(mx.metric.EvalMetric):
    def __init__(self, num=2):
        self.parts = num
        super(MultiLoss, self).__init__("multi-loss")

    def update(self, labels, preds):
        for label, pred in zip(labels, preds):
            p, y = pred.asnumpy(), label.asnumpy().astype("int")
            self.sum_metric += (
                -np.log(p[np.arange(len(y)), y] + 1e-12).sum()
                if p.shape[1] > 1
                else ((p[:, 0] - y) ** 2).sum()
            )
        self.num_inst += labels[0].shape[0]


def symbol():
    data = mx.symbol.Variable("data")
    body = mx.symbol.Activation(
        mx.symbol.FullyConnected(data=data, name="fc1", num_hidden=16), act_type="tanh"
    )
    body = mx.symbol.BatchNorm(body, name="bn", fix_gamma=False)
    kind = mx.symbol.SoftmaxOutput(
        mx.symbol.FullyConnected(body, num_hidden=4, name="fc2"), name="kind"
    )
    size = mx.symbol.LinearRegressionOutput(
        mx.symbol.FullyConnected(body, num_hidden=1, name="fc3"), name="size", grad_scale=0.5
    )
    return mx.symbol.Group([kind, size])


def main():
    rng = np.random.RandomState(53)
    data = mx.io.NDArrayIter(
        {"data": normal(52, 32, 6)},
        {"kind_label": rng.randint(0, 4, 32), "size_label": rng.randint(0, 3, 32)},
        batch_size=16,
    )
    mod = mx.mod.Module(
        symbol(), data_names=("data",), label_names=("kind_label", "size_label"), logger=logging
    )
    mod.bind(data.provide_data, data.provide_label)
    start(mod, 54)
    losses, metric = [], MultiLoss()

    def after_epoch(epoch, sym, arg, aux):
        losses.append(metric.get()[1])

    mod.fit(
        data,
        eval_metric=metric,
        num_epoch=20,
        optimizer="sgd",
        epoch_end_callback=after_epoch,
        optimizer_params={"learning_rate": 0.02, "momentum": 0.9, "wd": 1e-3},
        batch_end_callback=[mx.callback.Speedometer(16, 1, auto_reset=False)],
    )
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
