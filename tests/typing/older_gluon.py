"""Gluon as MXNet 1 has it, with mx.nd and hybrid_forward: read by type checkers, not run."""

from typing import Any, assert_type

import mxjax as mx
from mxjax import autograd, gluon, nd
from mxjax.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.fc1 = nn.Dense(8)
            self.fc2 = nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.fc2(F.relu(self.fc1(x)))


def train(context: mx.Context) -> nd.NDArray:
    net = Net(prefix="net_")
    net.initialize(mx.init.Normal(0.01), ctx=context)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    x = nd.random.uniform(shape=(4, 3), ctx=context)
    assert_type(x, nd.NDArray)
    y = nd.array([0, 1, 0, 1], ctx=context)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        loss = loss_of(nd.dot(x, x.T), y)
    assert_type(loss, nd.NDArray)
    loss.backward()
    trainer.step(batch_size=4)
    return loss.mean()


def gradients(x: nd.NDArray) -> nd.NDArray:
    x.attach_grad()
    with autograd.record():
        z = (nd.exp(x) * 2).sum()
    z.backward()
    assert x.grad is not None
    assert_type(x.grad[0], nd.NDArray)
    return x.grad


def lists(x: nd.NDArray) -> None:
    nd.save("arrays.nd", {"x": x})
    parts = nd.split(x, num_outputs=2, axis=0)
    print(parts)
    print(nd.concat(x, x, dim=0).asnumpy().sum(), nd.stack(x, x, axis=0).shape[0])
