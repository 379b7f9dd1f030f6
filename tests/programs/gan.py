"""A GAN whose discriminator has spectral norms, by power iteration on a constant of its own."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class SNConv2D(nn.Block):
    def __init__(self, in_channels, channels, kernel, strides, padding, **kwargs):
        super(SNConv2D, self).__init__(**kwargs)
        self._channels, self._how = (
            channels,
            dict(kernel=(kernel,) * 2, stride=(strides,) * 2, pad=(padding,) * 2),
        )
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(channels, in_channels, kernel, kernel))
            self.u = self.params.get("u", init=mx.init.One(), shape=(1, channels), grad_req="null")

    def _normed(self):
        w = self.weight.data().reshape((self._channels, -1))
        with autograd.pause():
            v = nd.L2Normalization(nd.dot(self.u.data(), w))
            u = nd.L2Normalization(nd.dot(v, w, transpose_b=True))
            self.u.set_data(u)
        sigma = nd.sum(nd.dot(u, w) * v)
        return self.weight.data() / sigma

    def forward(self, x):
        return nd.Convolution(
            x, self._normed(), num_filter=self._channels, no_bias=True, **self._how
        )


def main():
    g, d = nn.HybridSequential(), nn.Sequential()
    with g.name_scope():
        g.add(
            nn.Dense(8 * 4 * 4, in_units=6),
            nn.HybridLambda(lambda F, x: F.reshape(x, (-1, 8, 4, 4))),
        )
        g.add(nn.BatchNorm(in_channels=8), nn.Activation("relu"))
        g.add(nn.Conv2DTranspose(1, 4, 2, 1, in_channels=8), nn.Activation("tanh"))
    with d.name_scope():
        d.add(SNConv2D(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), SNConv2D(8, 1, 4, 1, 0), nn.Flatten())
    for net, seed in ((g, 27), (d, 28)):
        net.initialize(mx.init.Normal(0.02))
        fill(net, seed)
    g.hybridize()
    bce = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    tg = gluon.Trainer(g.collect_params(), "adam", {"learning_rate": 0.01, "beta1": 0.5})
    td = gluon.Trainer(d.collect_params(), "adam", {"learning_rate": 0.01, "beta1": 0.5})
    real, losses = nd.array(np.tanh(normal(29, 8, 1, 8, 8))), []
    for k in range(20):
        z = nd.array(normal(30 + k, 8, 6))
        with autograd.record():
            fake = g(z)
            loss_d = bce(d(real), nd.ones((8, 1))) + bce(d(fake.detach()), nd.zeros((8, 1)))
        loss_d.backward()
        td.step(8)
        with autograd.record():
            loss_g = bce(d(g(z)), nd.ones((8, 1)))
        loss_g.backward()
        tg.step(8)
        losses.append(loss_d.mean().asscalar() + loss_g.mean().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
