"""Segmentation: a contracting and an expanding path with a skip, softmax for each pixel."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self, classes):
        super(Net, self).__init__()
        with self.name_scope():
            self.down = nn.Conv2D(8, 3, strides=2, padding=1, in_channels=3, use_bias=False)
            self.bn = nn.BatchNorm(in_channels=8)
            self.deep = nn.Conv2D(16, 3, strides=2, padding=1, in_channels=8)
            self.up = nn.Conv2DTranspose(8, 4, strides=2, padding=1, in_channels=16)
            self.head = nn.Conv2D(classes, 1, in_channels=16)

    def hybrid_forward(self, F, x):
        skip = F.Activation(self.bn(self.down(x)), act_type="relu")
        x = F.concat(skip, F.LeakyReLU(self.up(F.relu(self.deep(skip)))), dim=1)
        return F.contrib.BilinearResize2D(self.head(x), height=16, width=16)


def main():
    net = Net(3)
    net.initialize(ctx=mx.cpu())
    fill(net, 3)
    net.hybridize(static_alloc=True)
    x = nd.array(normal(4, 4, 3, 16, 16))
    y = nd.array(np.random.RandomState(5).randint(0, 3, (4, 16, 16)))
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss(axis=1)
    trainer = gluon.Trainer(net.collect_params(), "nag", {"learning_rate": 0.1, "momentum": 0.9})
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        losses.append(loss.mean().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
