"""A symbol that a Module trains, as programs of MXNet 1 do: read by type checkers, not run."""

from typing import assert_type

import numpy as onp

import mxjax as mx


def symbol() -> mx.sym.Symbol:
    data = mx.sym.var("data")
    hidden = mx.sym.FullyConnected(data, num_hidden=64, name="hidden")
    active = mx.sym.Activation(hidden, act_type="relu")
    assert_type(active, mx.sym.Symbol)
    assert_type(active * 2 + hidden, mx.sym.Symbol)
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(active, num_hidden=10), name="softmax")
    assert_type(out.list_arguments(), list[str])
    return out


def fit(x: onp.ndarray, y: onp.ndarray) -> mx.mod.Module:
    train = mx.io.NDArrayIter(x, y, batch_size=32, shuffle=True)
    module = mx.mod.Module(symbol(), context=mx.cpu())
    module.fit(
        train,
        num_epoch=2,
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.1},
        eval_metric="acc",
        batch_end_callback=mx.callback.Speedometer(32, 10),
    )
    train.reset()
    for batch in train:
        module.forward(batch, is_train=False)
        assert_type(batch.data[0], mx.nd.NDArray)
    return module


def run(x: mx.nd.NDArray) -> list[mx.nd.NDArray]:
    executor = symbol().simple_bind(mx.cpu(), data=x.shape)
    return executor.forward(is_train=False, data=x)
