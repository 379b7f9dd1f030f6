"""Data parallel over two devices: split_and_load, a kvstore that updates, a DataLoader with workers."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon
from mxnet.gluon.data import ArrayDataset, DataLoader


def main():
    ctx = [mx.cpu(0), mx.cpu(1)]
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(16, activation="relu", in_units=8), gluon.nn.Dropout(0.0))
        net.add(gluon.nn.Dense(3, in_units=16))
    net.initialize(ctx=ctx)
    fill(net, 140)
    net.hybridize()
    labels = np.random.RandomState(141).randint(0, 3, 40).astype("float32")
    loader = DataLoader(
        ArrayDataset(normal(142, 40, 8), labels), batch_size=8, last_batch="discard"
    )
    store = mx.kvstore.create("device")
    trainer = gluon.Trainer(
        net.collect_params(),
        "sgd",
        {"learning_rate": 0.1, "momentum": 0.9},
        kvstore=store,
        update_on_kvstore=True,
    )
    ce = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(4):
        for data, label in loader:
            xs = gluon.utils.split_and_load(data, ctx)
            ys = gluon.utils.split_and_load(label, ctx)
            with autograd.record():
                parts = [ce(net(x), y) for x, y in zip(xs, ys)]
            for part in parts:
                part.backward()
            trainer.step(data.shape[0])
            losses.append(sum(part.sum().asscalar() for part in parts) / data.shape[0])
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
