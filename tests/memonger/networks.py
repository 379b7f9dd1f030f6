"""Networks that the tests of rematerialisation train."""

from __future__ import annotations

from typing import Any

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


class Residual(nn.HybridBlock):
    """Two 3x3 convolutions with BatchNorm and relu, and a way around them."""

    def __init__(self, channels: int):
        super().__init__()
        for k in range(2):
            conv = nn.Conv2D(channels, 3, padding=1, in_channels=channels, use_bias=False)
            setattr(self, f"conv{k}", conv)
            setattr(self, f"bn{k}", nn.BatchNorm(in_channels=channels))

    def forward(self, x: Any) -> Any:
        y = mx.npx.relu(self.bn0(self.conv0(x)))
        return mx.npx.relu(x + self.bn1(self.conv1(y)))


def residual_network(blocks: int, channels: int = 16, dropout: float = 0.0) -> nn.HybridSequential:
    """A stem, residual blocks, and a head of ten classes."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(channels, 3, padding=1, in_channels=3))
    for _ in range(blocks):
        net.add(Residual(channels))
    net.add(nn.GlobalAvgPool2D())
    if dropout:
        net.add(nn.Dropout(dropout))
    net.add(nn.Dense(10, in_units=channels))
    mx.random.seed(3)
    net.initialize(mx.init.Xavier())
    return net


def batch(size: int, side: int) -> tuple[Any, Any]:
    """Images and labels."""
    rng = np.random.RandomState(0)
    x = rng.randn(size, 3, side, side).astype("float32")
    return mx.np.array(x), mx.np.array(rng.randint(0, 10, size).astype("float32"))


class Training:
    """Steps of SGD on one batch."""

    def __init__(self, net: nn.HybridSequential, x: Any, y: Any):
        self.net, self.x, self.y = net, x, y
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        params = net.collect_params()
        self.trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        self.losses: list[Any] = []

    def step(self) -> None:
        with autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.trainer.step(self.y.shape[0])
        self.losses.append(loss)

    def run(self, steps: int) -> list[np.ndarray]:
        """The losses, then all parameters and moving statistics, after so many steps."""
        for _ in range(steps):
            self.step()
        params = self.net.collect_params().values()
        return [a.asnumpy() for a in self.losses] + [p.data().asnumpy() for p in params]


class Perceptron(nn.HybridBlock):
    """Two dense layers with GELU between, and a way around them."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Dense(4 * width, in_units=width, flatten=False)
        self.act = nn.GELU(approximation="tanh")
        self.down = nn.Dense(width, in_units=4 * width, flatten=False)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(x)))


def perceptrons(blocks: int, width: int) -> nn.HybridSequential:
    """A chain of them, for costs: all weights are the same."""
    net = nn.HybridSequential()
    net.add(*[Perceptron(width) for _ in range(blocks)])
    net.initialize(mx.init.Constant(0.01))
    return net
