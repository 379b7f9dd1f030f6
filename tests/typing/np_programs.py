"""Programs of mx.np, with the types that a checker finds: read by mypy, not run."""

from typing import Any, assert_type

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn


def arrays() -> None:
    x = np.ones((2, 3), dtype="float32")
    assert_type(x, np.ndarray)
    assert_type(x[0], np.ndarray)
    assert_type(x[1:, :2] + 1, np.ndarray)
    assert_type(np.sum(x, axis=(0, 1), keepdims=True), np.ndarray)
    assert_type(npx.softmax(x, axis=-1), np.ndarray)
    assert_type(x.mean(axis=0), np.ndarray)
    assert_type(np.split(x, 3, axis=1), list[np.ndarray])
    assert_type(x.shape, tuple[int, ...])


def rows() -> None:
    for row in np.ones((2, 3)):
        assert_type(row, np.ndarray)


def layers() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    assert_type(net(np.ones((2, 3))), np.ndarray)
    assert_type(nn.Conv2D(4, 3)(np.ones((1, 3, 8, 8))), np.ndarray)
    assert_type(nn.BatchNorm()(np.ones((2, 3))), np.ndarray)


def training() -> None:
    net = nn.Dense(2)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = np.ones((4, 3)), np.zeros((4,))
    with autograd.record():
        found = loss(net(x), y)
    assert_type(found, np.ndarray)
    found.backward()
    trainer.step(4)


class Net(nn.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Dense(4)
        self.out = nn.Dense(2)

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.out(npx.relu(self.hidden(x)))


def of_the_user() -> None:
    made: Any = Net()(np.ones((2, 3)))
    print(made)
