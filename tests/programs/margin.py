"""Metric learning in symbols: normalized embeddings, a softmax with an additive angular margin, Module."""

import json

import mxnet as mx
import numpy as np
from common import normal, start


def symbol(classes, scale=16.0, margin=0.3):
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    fc = mx.sym.FullyConnected(data, num_hidden=16, name="fc")
    act = mx.sym.LeakyReLU(fc, act_type="leaky", slope=0.2, name="relu")
    embedding = mx.sym.FullyConnected(act, num_hidden=8, name="embedding")
    weight = mx.sym.Variable("fc7_weight", shape=(classes, 8))
    weight = mx.sym.L2Normalization(weight, mode="instance")
    unit = mx.sym.L2Normalization(embedding, mode="instance", name="unit") * scale
    fc7 = mx.sym.FullyConnected(unit, weight=weight, no_bias=True, num_hidden=classes, name="fc7")
    zy = mx.sym.pick(fc7, label, axis=1)
    cos = zy / scale
    turned = mx.sym.cos(mx.sym.arccos(mx.sym.clip(cos, a_min=-0.999, a_max=0.999)) + margin) * scale
    one_hot = mx.sym.one_hot(label, depth=classes, on_value=1.0, off_value=0.0)
    fc7 = fc7 + mx.sym.broadcast_mul(one_hot, mx.sym.expand_dims(turned - zy, 1))
    out = mx.sym.SoftmaxOutput(fc7, label, name="softmax", normalization="valid")
    return mx.sym.Group([mx.sym.BlockGrad(embedding), out])


def main():
    y = np.random.RandomState(19).randint(0, 5, 16)
    data = mx.io.NDArrayIter(normal(18, 16, 10), y, 16, label_name="softmax_label")
    mod = mx.mod.Module(symbol(5), context=mx.cpu())
    mod.bind(data.provide_data, data.provide_label)
    start(mod, 20)
    mod.init_optimizer(
        optimizer="sgd", optimizer_params=(("learning_rate", 0.05), ("momentum", 0.9), ("wd", 5e-4))
    )
    ce = mx.metric.create("ce")
    losses = []
    for _ in range(20):
        data.reset()
        batch = next(data)
        mod.forward_backward(batch)
        ce.reset()
        ce.update(batch.label, mod.get_outputs()[1:])
        mod.update()
        losses.append(ce.get()[1])
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
