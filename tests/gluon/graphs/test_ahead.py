"""`HybridBlock.compile`: what calls run is compiled before the first of them."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn

X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)


def network(*more):
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="relu"), nn.BatchNorm(), *more, nn.Dense(2))
    net.initialize()
    return net


def compiled():
    mx.waitall()
    return mx.engine.stats()["compiled"]


def plain(net, x):
    """What the network gives without a program of its own."""
    net.hybridize(False)
    out = net(mx.np.array(x)).asnumpy()
    net.hybridize()
    return out


@pytest.mark.parametrize("cold", ["auto", "compile"])
@pytest.mark.parametrize("known", [False, True])
def test_the_first_call_compiles_nothing(known, cold):
    net = network()
    if known:  # the shapes of its parameters
        net(mx.np.array(X))
    mx.engine.reset()
    net.compile((4, 3))
    before = compiled()
    with mx.config.scope({"engine.cold": cold}):  # the input may be overwritten: not foreseen
        out = net(mx.np.array(X)).asnumpy()
    assert before > 0 and compiled() == before
    net(mx.np.array(X[:2])).wait_to_read()  # another shape was not promised
    np.testing.assert_allclose(out, plain(net, X), rtol=1e-5, atol=1e-6)


def test_training_compiles_nothing_either_and_nothing_has_changed():
    net = network(nn.Dropout(0.5))
    net(mx.np.array(X))
    net.hybridize()
    mx.np.random.seed(3)
    before = {k: p.data().asnumpy() for k, p in net.collect_params().items()}
    mx.engine.reset()
    net.compile((4, 3), train=True)
    for k, p in net.collect_params().items():
        np.testing.assert_array_equal(p.data().asnumpy(), before[k])
        if p.grad_req != "null":
            assert not p.grad().asnumpy().any()

    def step():
        x = mx.np.array(X)
        x.wait_to_read()
        with autograd.record():
            out = net(x)
        out.backward()
        return out.asnumpy(), net[0].weight.grad().asnumpy()

    count = compiled()
    found = step()
    assert count > 0 and compiled() == count
    # The same random numbers as without.
    for k, p in net.collect_params().items():
        p.set_data(mx.np.array(before[k]))
    mx.np.random.seed(3)
    for got, want in zip(step(), found, strict=True):
        np.testing.assert_array_equal(got, want)


def test_inputs_may_be_arrays_or_anything_with_a_shape_and_a_dtype():
    class Two(nn.HybridBlock):
        def forward(self, x, n):
            return x * 2 + n

    for given in ((X, np.arange(3)), (mx.np.array(X), mx.np.arange(3))):
        net = Two()
        net.compile(*given)
        arrays = mx.np.array(X), mx.np.array(given[1], dtype=given[1].dtype)
        before = compiled()
        out = net(*arrays)
        np.testing.assert_allclose(out.asnumpy(), X * 2 + np.arange(3))
        assert compiled() == before


def test_a_forward_that_asks_for_numbers_is_refused():
    class Asks(nn.HybridBlock):
        def forward(self, x):
            return x * 2 if float(x.sum()) > 0 else x

    with pytest.raises(mx.MXNetError, match="asks for numbers"):
        Asks().compile((2, 2))
