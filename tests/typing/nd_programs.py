"""Programs of mx.nd and of symbols, with the types that a checker finds: read by mypy, not run."""

from typing import assert_type

import mxjax as mx
from mxjax import gluon, nd
from mxjax.gluon import nn


def arrays() -> None:
    x = nd.ones((2, 3))
    assert_type(x, nd.NDArray)
    assert_type(x[0], nd.NDArray)
    assert_type(nd.softmax(x, axis=1), nd.NDArray)
    assert_type(nd.broadcast_add(x, x), nd.NDArray)
    assert_type(x.sum(axis=1), nd.NDArray)
    assert_type(x * 2 - 1, nd.NDArray)


def rows() -> None:
    for row in nd.ones((2, 3)):
        assert_type(row, nd.NDArray)


def layers() -> None:
    net = nn.Sequential()
    net.add(nn.Dense(3))
    assert_type(net(nd.ones((2, 3))), nd.NDArray)
    assert_type(gluon.loss.L2Loss()(nd.ones((2, 3)), nd.ones((2, 3))), nd.NDArray)


def batches() -> None:
    for batch in mx.io.NDArrayIter(nd.ones((4, 2)), nd.ones((4,)), batch_size=2):
        assert_type(batch, mx.io.DataBatch)


def symbols() -> None:
    x = mx.sym.var("x")
    assert_type(x, mx.sym.Symbol)
    assert_type(nn.Dense(3)(x), mx.sym.Symbol)
