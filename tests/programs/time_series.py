"""A forecaster: a scan over time by contrib.foreach, the likelihood of a Gaussian and of Student's t."""

import json
import math

import numpy as np
from common import fill
from mxnet import autograd, gluon, nd


class Forecaster(gluon.HybridBlock):
    def __init__(self, hidden, **kwargs):
        super(Forecaster, self).__init__(**kwargs)
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(hidden, input_size=1)
            self.proj = gluon.nn.Dense(3, flatten=False, in_units=hidden)

    def hybrid_forward(self, F, x, h, c):
        outputs, _ = F.contrib.foreach(lambda step, states: self.cell(step, states), x, [h, c])
        mu, sigma, nu = F.split(self.proj(outputs), num_outputs=3, axis=-1)
        return (
            mu,
            F.Activation(sigma, act_type="softrelu") + 1e-3,
            2 + F.Activation(nu, act_type="softrelu"),
        )


def student(x, mu, sigma, nu):
    z = (x - mu) / sigma
    norm = (
        nd.gammaln((nu + 1) / 2) - nd.gammaln(nu / 2) - 0.5 * nd.log(math.pi * nu) - nd.log(sigma)
    )
    return -(norm - (nu + 1) / 2 * nd.log1p(z * z / nu))


def main():
    rng = np.random.RandomState(13)
    series = np.cumsum(rng.normal(size=(13, 4, 1)), 0)
    x, y = nd.array(series[:-1]), nd.array(series[1:])
    net = Forecaster(8)
    net.initialize()
    fill(net, 14)
    net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "rmsprop", {"learning_rate": 0.01, "clip_gradient": 5}
    )
    losses = []
    for k in range(20):
        with autograd.record():
            mu, sigma, nu = net(x, nd.zeros((4, 8)), nd.zeros((4, 8)))
            gauss = nd.log(sigma) + 0.5 * ((y - mu) / sigma) ** 2
            loss = student(y, mu, sigma, nu).mean() + 0.1 * gauss.mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
