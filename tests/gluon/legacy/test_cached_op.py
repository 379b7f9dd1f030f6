"""Classes that override a step of MXNet 1's cached operator: `_call_cached_op`, `_build_cache`, `_get_graph`."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax.gluon import HybridBlock, nn


@pytest.fixture(autouse=True)
def generation():
    with mx.config.scope(compat_version="1.9"):
        yield


def test_the_steps_are_called_in_order():
    heard = []

    class Net(nn.HybridSequential):
        def _call_cached_op(self, *args):
            heard.append("call")
            return super()._call_cached_op(*args)

        def _build_cache(self, *args):
            heard.append("build")
            return super()._build_cache(*args)

        def _get_graph(self, *args):
            heard.append("graph")
            return super()._get_graph(*args)

    net = Net()
    net.add(nn.Dense(2))
    net.initialize(mx.init.One())
    x = mx.nd.ones((1, 3))
    assert net(x).asnumpy().tolist() == [[3, 3]]
    assert heard == []  # it is not hybridized
    net.hybridize()
    for _ in range(2):
        assert net(x).asnumpy().tolist() == [[3, 3]]
    assert heard == ["call", "build", "graph", "call"]


def test_the_graph_of_a_program_is_the_one_that_runs():
    class Net(nn.HybridSequential):
        def _get_graph(self, *args):
            inputs, out = super()._get_graph(*args)
            return inputs, out * 3

    net = Net()
    net.add(nn.Dense(2, in_units=3))
    net.initialize(mx.init.One())
    net.hybridize()
    with mx.autograd.record():
        out = net(mx.nd.ones((1, 3)))
    out.backward()
    assert out.asnumpy().tolist() == [[9, 9]]
    assert net[0].weight.grad().asnumpy().tolist() == [[3, 3, 3]] * 2


def test_statistics_move_once_where_the_graph_is_made():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm(in_channels=3)

        def hybrid_forward(self, F, x):  # noqa: N803
            return self.norm(x), x

        def _build_cache(self, *args):
            return super()._build_cache(*args)

    net = Net()
    net.initialize()
    net.hybridize()
    with mx.autograd.record():
        out, given = net(mx.nd.array([[1, 2, 3], [2, 3, 5]]))
    out.backward()
    assert given.shape == (2, 3)
    onp.testing.assert_allclose(
        net.norm.running_mean.data().asnumpy(), [0.15, 0.25, 0.4], rtol=1e-5
    )
