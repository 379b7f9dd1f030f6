"""Capsules with routing by agreement, in symbols: weights with shapes and initializers of their own, a metric with several values."""

import mxnet as mx
from common import normal, start

BATCH, CAPSULES, LENGTH = 4, 5, 6


def squash(data, axis):
    squares = mx.sym.sum(mx.sym.square(data), axis=axis, keepdims=True)
    return mx.sym.broadcast_mul(squares / (1 + squares) / mx.sym.sqrt(squares + 1e-8), data)


def routed(data, rounds, count, length):
    weight = mx.sym.Variable(
        "Weight", shape=(1, count, CAPSULES, LENGTH, length), init=mx.init.Xavier()
    )
    data = mx.sym.expand_dims(mx.sym.expand_dims(data, axis=2), axis=2)
    data = mx.sym.tile(data, reps=(1, 1, CAPSULES, LENGTH, 1))
    votes = mx.sym.sum(mx.sym.broadcast_mul(data, weight), axis=4, keepdims=True)
    votes = mx.sym.reshape(votes, shape=(-1, count, CAPSULES, 1, LENGTH))
    fixed = mx.sym.BlockGrad(votes)
    logits = mx.sym.zeros((BATCH, count, CAPSULES, 1, 1))
    for k in range(rounds):
        shares = mx.sym.softmax(logits, axis=2)
        last = k == rounds - 1
        total = mx.sym.sum(
            mx.sym.broadcast_mul(shares, votes if last else fixed), axis=1, keepdims=True
        )
        out = squash(total, 4)
        if not last:
            agreement = mx.sym.broadcast_mul(out, fixed)
            logits = logits + mx.sym.sum(agreement, axis=4, keepdims=True)
    return mx.sym.reshape(out, shape=(-1, CAPSULES, LENGTH))


def symbol():
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    net = mx.sym.Convolution(data, num_filter=8, kernel=(5, 5), name="conv1")
    net = mx.sym.Activation(net, act_type="relu")
    net = mx.sym.Convolution(net, num_filter=8, kernel=(3, 3), stride=(2, 2), name="primary")
    net = mx.sym.reshape(mx.sym.transpose(net, axes=(0, 2, 3, 1)), shape=(0, -1, 4))
    net = routed(squash(net, 2), 3, 18, 4)
    lengths = mx.sym.sqrt(mx.sym.sum(mx.sym.square(net), axis=2))
    wanted = mx.sym.one_hot(label, CAPSULES)
    margin = wanted * mx.sym.square(mx.sym.maximum(0.0, 0.9 - lengths))
    margin = margin + 0.5 * (1 - wanted) * mx.sym.square(mx.sym.maximum(0.0, lengths - 0.1))
    chosen = mx.sym.sum(mx.sym.broadcast_mul(net, mx.sym.expand_dims(wanted, 2)), axis=1)
    again = mx.sym.FullyConnected(chosen, num_hidden=144, name="decoder")
    again = mx.sym.Activation(again, act_type="sigmoid")
    far = mx.sym.mean(mx.sym.square(mx.sym.reshape(data, shape=(BATCH, -1)) - again))
    loss = mx.sym.mean(mx.sym.sum(margin, axis=1)) + 0.392 * far
    return mx.sym.Group([mx.sym.MakeLoss(loss), mx.sym.BlockGrad(lengths)])


class Losses(mx.metric.EvalMetric):
    def __init__(self):
        self.right = 0
        super(Losses, self).__init__("losses")

    def reset(self):
        self.right, self.sum_metric, self.num_inst = 0, 0.0, 0

    def update(self, labels, preds):
        self.right += int((preds[1].asnumpy().argmax(1) == labels[0].asnumpy()).sum())
        self.sum_metric += preds[0].asnumpy().sum()
        self.num_inst += 1

    def get(self):
        return ["right", "loss"], [float(self.right), float(self.sum_metric) / self.num_inst]


def main():
    data = mx.io.NDArrayIter(
        normal(80, 12, 1, 12, 12), mx.nd.array([k % 5 for k in range(12)]), BATCH
    )
    mod = mx.mod.Module(symbol())
    mod.bind(data.provide_data, data.provide_label)
    start(mod, 81, 0.2)
    schedule = mx.lr_scheduler.FactorScheduler(4, 0.9)
    mod.init_optimizer("local", "adam", {"learning_rate": 0.01, "lr_scheduler": schedule})
    found, metric = [], Losses()
    for _ in range(10):
        data.reset()
        metric.reset()
        for batch in data:
            mod.forward_backward(batch)
            mod.update()
            mod.update_metric(metric, batch.label)
        found += [value for _, value in metric.get_name_value()]
    return found
