"""Reads digits off an image's columns: LSTMs unrolled by hand, CTC in a symbol, Module.fit with metrics of functions."""

import collections
import json

import mxnet as mx
import numpy as np
from common import start

State = collections.namedtuple("State", ["c", "h"])
Weights = collections.namedtuple("Weights", ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"])
STEPS, BATCH, HIDDEN, CLASSES = 6, 4, 5, 5


def lstm(x, last, weights, t, layer):
    name = "t%d_l%d_" % (t, layer)
    i2h = mx.sym.FullyConnected(
        data=x, weight=weights.i2h_weight, bias=weights.i2h_bias, num_hidden=HIDDEN * 4, name=name + "i2h"
    )  # fmt: skip
    h2h = mx.sym.FullyConnected(
        data=last.h, weight=weights.h2h_weight, bias=weights.h2h_bias, num_hidden=HIDDEN * 4, name=name + "h2h"
    )  # fmt: skip
    gates = mx.sym.SliceChannel(i2h + h2h, num_outputs=4, name=name + "slice")
    enter = mx.sym.Activation(gates[0], act_type="sigmoid")
    new = mx.sym.Activation(gates[1], act_type="tanh")
    keep = mx.sym.Activation(gates[2], act_type="sigmoid")
    leave = mx.sym.Activation(gates[3], act_type="sigmoid")
    c = keep * last.c + enter * new
    return State(c=c, h=leave * mx.sym.Activation(c, act_type="tanh"))


def network(layers=2):
    weights, states, hidden = [], [], []
    for k in range(layers):
        weights.append(Weights(*[mx.sym.Variable("l%d_%s" % (k, n)) for n in Weights._fields]))
        states.append(State(mx.sym.Variable("l%d_init_c" % k), mx.sym.Variable("l%d_init_h" % k)))
    columns = mx.sym.SliceChannel(mx.sym.Variable("data"), num_outputs=STEPS, squeeze_axis=1)
    for t in range(STEPS):
        x = columns[t]
        for k in range(layers):
            states[k] = lstm(x, states[k], weights[k], t, k)
            x = states[k].h
        hidden.append(x)
    scores = mx.sym.FullyConnected(mx.sym.Concat(*hidden, dim=0), num_hidden=CLASSES, name="pred")
    by_step = mx.sym.Reshape(scores, shape=(-4, STEPS, -1, 0))
    loss = mx.sym.MakeLoss(mx.sym.contrib.ctc_loss(data=by_step, label=mx.sym.Variable("label")))
    return mx.sym.Group([mx.sym.BlockGrad(mx.symbol.softmax(data=scores, axis=1)), loss])


INITIAL = [("l%d_init_%s" % (k, s), (BATCH, HIDDEN)) for k in range(2) for s in "ch"]


class Captchas(mx.io.DataIter):
    def __init__(self, batches):
        super(Captchas, self).__init__()
        rng = np.random.RandomState(0)
        self.images = rng.normal(size=(batches, BATCH, STEPS, 6))
        self.labels = rng.randint(0, CLASSES, (batches, BATCH, 3))
        self.batch_size, self.at = BATCH, 0
        self.provide_data = [("data", (BATCH, STEPS, 6))] + INITIAL
        self.provide_label = [("label", (BATCH, 3))]

    def reset(self):
        self.at = 0

    def next(self):
        if self.at == len(self.images):
            raise StopIteration
        self.at += 1
        states = [mx.nd.zeros(shape) for _, shape in INITIAL]
        return mx.io.DataBatch(
            [mx.nd.array(self.images[self.at - 1])] + states,
            [mx.nd.array(self.labels[self.at - 1])],
            pad=0,
        )


def main():
    batches, seen = Captchas(3), []
    module = mx.mod.Module(
        network(), data_names=["data"] + [n for n, _ in INITIAL], label_names=["label"]
    )
    module.bind(batches.provide_data, batches.provide_label)
    start(module)

    def likeliest(label, pred):
        return float(pred.max(axis=1).mean()) if pred.ndim > 1 else 0.0

    def note(param):
        seen.append(param.eval_metric.get()[1])
        seen.append(module.get_outputs()[1].asnumpy().mean())

    module.fit(
        batches, eval_metric=mx.metric.np(likeliest, allow_extra_outputs=True), optimizer="adam",
        optimizer_params={"learning_rate": 0.02}, num_epoch=4, batch_end_callback=note,
    )  # fmt: skip
    return seen


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
