"""Convolutions over words in symbols, with windows as long as the sentence, an executor and an updater by hand."""

import json
import math

import mxnet as mx
import numpy as np


def network(batch, length, width, filters=(2, 3), num_filter=4):
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    words = mx.sym.Embedding(data=data, input_dim=15, output_dim=width, name="vocab_embed")
    image, pooled = mx.sym.Reshape(data=words, target_shape=(batch, 1, length, width)), []
    for size in filters:
        conv = mx.sym.Convolution(data=image, kernel=(size, width), num_filter=num_filter)
        relu = mx.sym.Activation(data=conv, act_type="relu")
        pooled.append(
            mx.sym.Pooling(data=relu, pool_type="max", kernel=(length - size + 1, 1), stride=(1, 1))
        )
    flat = mx.sym.Reshape(
        data=mx.sym.Concat(*pooled, dim=1), target_shape=(batch, num_filter * len(filters))
    )
    scores = mx.sym.FullyConnected(
        data=flat, weight=mx.sym.Variable("cls_weight"), bias=mx.sym.Variable("cls_bias"), num_hidden=2
    )  # fmt: skip
    return mx.sym.SoftmaxOutput(data=scores, label=label, name="softmax")


def main():
    net = network(6, 9, 4)
    inputs = ("data", "softmax_label")
    requests = {n: "null" if n in inputs else "write" for n in net.list_arguments()}
    run = net.simple_bind(mx.cpu(), grad_req=requests, data=(6, 9))
    rng, params = np.random.RandomState(0), []
    for k, name in enumerate(net.list_arguments()):
        if name not in inputs:
            weight = run.arg_dict[name]
            weight[:] = mx.nd.array(rng.normal(scale=0.3, size=weight.shape))
            params.append((k, weight, run.grad_dict[name]))
    labels = np.array([0, 1, 1, 0, 1, 0])
    run.arg_dict["data"][:] = mx.nd.array(rng.randint(0, 15, (6, 9)))
    run.arg_dict["softmax_label"][:] = mx.nd.array(labels)
    optimizer = mx.optimizer.create("rmsprop")
    optimizer.lr = 0.005
    update, losses = mx.optimizer.get_updater(optimizer), []
    for _ in range(20):
        run.forward(is_train=True)
        run.backward()
        norm = 0
        for _, _, grad in params:
            grad /= 6
            norm += mx.nd.norm(grad).asscalar() ** 2
        norm = math.sqrt(norm)
        for k, weight, grad in params:
            if norm > 0.5:
                grad *= 0.5 / norm
            update(k, grad, weight)
            grad[:] = 0.0
        losses.append(-np.log(run.outputs[0].asnumpy()[np.arange(6), labels]).mean())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
