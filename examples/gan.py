"""A generative adversarial network: one network draws points, another tells them from those of a ring."""

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


def mlp(units, out):
    net = nn.HybridSequential()
    net.add(nn.Dense(units, activation="relu"), nn.Dense(units, activation="relu"), nn.Dense(out))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def ring(count):
    angle = mx.np.random.uniform(0, 2 * np.pi, size=(count, 1))
    radius = mx.np.random.normal(1.0, 0.05, size=(count, 1))
    return mx.np.concatenate([radius * mx.np.cos(angle), radius * mx.np.sin(angle)], axis=1)


def main():
    mx.random.seed(1)
    batch = 128
    generator, critic = mlp(64, 2), mlp(64, 1)
    options = {"learning_rate": 2e-3, "beta1": 0.5}
    draws = gluon.Trainer(generator.collect_params(), "adam", options)
    tells = gluon.Trainer(critic.collect_params(), "adam", options)
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    real, fake = mx.np.ones(batch), mx.np.zeros(batch)
    for step in range(1500):
        noise = mx.np.random.normal(size=(batch, 4))
        with autograd.record():
            loss = loss_of(critic(ring(batch)), real) + loss_of(
                critic(generator(noise).detach()), fake
            )
        loss.backward()
        tells.step(batch)
        with autograd.record():
            fooled = loss_of(critic(generator(noise)), real)
        fooled.backward()
        draws.step(batch)
        if step % 300 == 0:
            print(
                f"step {step}: critic {loss.mean().item():.3f}, generator {fooled.mean().item():.3f}"
            )
    points = generator(mx.np.random.normal(size=(1000, 4)))
    radius = mx.np.sqrt((points**2).sum(axis=1))
    spread = points.std(axis=0)
    print(
        f"radius {radius.mean().item():.2f} +- {radius.std().item():.2f}, spread {spread.tolist()}"
    )
    assert 0.7 < radius.mean().item() < 1.3 and spread.min().item() > 0.3


if __name__ == "__main__":
    main()
