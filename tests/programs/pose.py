"""Key points: heat maps by deconvolution, a weighted squared error, learning rates by a schedule."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd


def gaussian(points, size):
    y, x = np.mgrid[:size, :size]
    return np.exp(
        -((x - points[..., 0, None, None]) ** 2 + (y - points[..., 1, None, None]) ** 2) / 4.0
    )


def main():
    net = gluon.nn.HybridSequential(prefix="pose_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(8, 3, padding=1, strides=2, in_channels=3, activation="relu"))
        net.add(gluon.nn.Conv2DTranspose(8, 4, strides=2, padding=1, in_channels=8, use_bias=False))
        net.add(gluon.nn.BatchNorm(in_channels=8), gluon.nn.Activation("relu"))
        net.add(gluon.nn.Conv2D(4, 1, in_channels=8))
    net.initialize()
    fill(net, 6)
    net.hybridize()
    rng = np.random.RandomState(7)
    target = nd.array(gaussian(rng.uniform(0, 12, (4, 4, 2)), 12))
    weight = nd.array(rng.randint(0, 2, (4, 4, 1, 1)))
    x = nd.array(normal(8, 4, 3, 12, 12))
    schedule = mx.lr_scheduler.MultiFactorScheduler(step=[8, 14], factor=0.5, base_lr=0.02)
    trainer = gluon.Trainer(
        net.collect_params(), mx.optimizer.Adam(learning_rate=0.02, lr_scheduler=schedule)
    )
    l2 = gluon.loss.L2Loss()
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = l2(net(x), target, weight.broadcast_like(target))
        autograd.backward([loss])
        trainer.step(4)
        losses.append(nd.mean(loss).asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
