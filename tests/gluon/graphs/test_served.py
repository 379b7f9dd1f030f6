"""Calls in prediction that come again are recorded without asking everything anew, and heed every change."""

import threading
import weakref

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn
from mxjax.gluon.graphs.cached_graph import CachedGraph


def expected(net, x, active="relu"):
    """Two dense layers by NumPy."""
    w, b, v, c = [p.data().asnumpy().astype(np.float64) for p in net.collect_params().values()]
    h = x.asnumpy().astype(np.float64) @ w.T + b
    return np.maximum(h, 0) @ v.T + c


@pytest.fixture
def served(monkeypatch):
    """A small network that was called three times, its input, and the calls that went the whole way since then."""
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="relu", in_units=3), nn.Dense(2, in_units=5))
    net.initialize(mx.init.Normal(1.0))
    x = mx.np.array([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]])
    net.optimize_for(x)
    for _ in range(3):
        net(x).wait_to_read()
    whole = []
    known = CachedGraph.__call__

    def counting(self, *args):
        whole.append(self)
        return known(self, *args)

    monkeypatch.setattr(CachedGraph, "__call__", counting)
    return net, x, whole


def test_the_same_call_again(served):
    net, x, whole = served
    other = mx.np.array([[3.0, 0.0, -1.0], [1.0, 1.0, 1.0]])
    for given in (x, other, x):
        out = net(given)
        assert type(out) is type(x) and out.shape == (2, 2)
        np.testing.assert_allclose(out.asnumpy(), expected(net, given), rtol=1e-5, atol=1e-6)
    assert not whole


def test_a_call_among_others(served):
    net, x, whole = served
    one, two = net(x * 2), net(x)
    np.testing.assert_allclose(one.asnumpy(), expected(net, x * 2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((two + 1).asnumpy(), expected(net, x) + 1, rtol=1e-5, atol=1e-6)
    assert len(whole) == 2  # neither was the first of its segment
    net(x).wait_to_read()
    net(x).wait_to_read()
    assert len(whole) <= 3


def test_weights_that_are_set(served):
    net, x, whole = served
    before = net(x).asnumpy()
    net[1].bias.set_data(mx.np.array([10.0, 20.0]))
    out = net(x)
    net[1].bias.set_data(mx.np.array([0.0, 0.0]))  # after the call: no matter to it
    np.testing.assert_allclose(out.asnumpy(), before + [[10, 20]], rtol=1e-5)
    np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-5)
    net[1].weight.data()[:] = 0
    assert not net(x).asnumpy().any()


def test_training_between(served):
    net, x, _ = served
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(3):
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(2)
        np.testing.assert_allclose(net(x).asnumpy(), expected(net, x), rtol=1e-5, atol=1e-5)
    assert not net(x)._v.tape


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.register_forward_hook(lambda block, args, out: heard.append(out)),
        lambda net: net.register_forward_pre_hook(lambda block, args: heard.append(args)),
        lambda net: net.register_op_hook(lambda name, op, array: heard.append(name)),
    ],
    ids=["hook", "pre_hook", "op_hook"],
)
def test_hooks_are_called(served, change):
    net, x, _ = served
    del heard[:]
    change(net)
    out = net(x)
    assert heard
    np.testing.assert_allclose(out.asnumpy(), expected(net, x), rtol=1e-5, atol=1e-6)


heard: list = []


def test_modes_shapes_and_kinds_of_arrays(served):
    net, x, whole = served
    with autograd.train_mode():
        net(x).wait_to_read()
    assert len(whole) == 1
    longer = mx.np.concatenate([x, x])
    assert net(longer).shape == (4, 2)
    assert type(net(x.as_nd_ndarray())) is mx.nd.NDArray
    with autograd.record():
        assert net(x)._v.tape is not None
    with pytest.raises(ValueError):
        net(mx.np.ones((2, 7)))
    np.testing.assert_allclose(net(x).asnumpy(), expected(net, x), rtol=1e-5, atol=1e-6)


def test_settings_and_structure(served):
    net, x, whole = served
    with mx.config.scope("engine.jit", "false"):  # imperatively, by the blocks' own forward
        net(x).wait_to_read()
    assert not whole
    with mx.config.scope("engine.type", "NaiveEngine"):
        net(x).wait_to_read()
    assert len(whole) == 1
    net(x).wait_to_read()
    net[0].act = nn.Activation("sigmoid")
    want = net[1](net[0](x)).asnumpy()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5)
    net.cast("float64")
    assert net(x.astype("float64")).dtype == np.float64
    net.hybridize(False)
    assert net._served is None
    assert net(x.astype("float64")).shape == (2, 2)


def test_an_input_that_failed(served):
    net, x, _ = served
    bad = mx.np.random.normal(0.0, -1.0, (2, 3))
    with pytest.raises(mx.MXNetError):
        net(bad).wait_to_read()
    np.testing.assert_allclose(net(x).asnumpy(), expected(net, x), rtol=1e-5, atol=1e-6)


def test_a_weight_as_input():
    square = nn.Dense(3, in_units=3, use_bias=False)
    square.initialize(mx.init.Normal(1.0))
    x = mx.np.array(np.arange(9.0, dtype=np.float32).reshape(3, 3))
    square.optimize_for(x)
    for given in (x, x, square.weight.data(), x):
        want = given.asnumpy() @ square.weight.data().asnumpy().T
        np.testing.assert_allclose(square(given).asnumpy(), want, rtol=1e-5, atol=1e-6)


def test_no_weight_is_held(served):
    net, x, _ = served
    value = weakref.ref(net[0].weight.data()._v)
    net(x).wait_to_read()
    net[0].weight.set_data(mx.np.ones((5, 3)))
    mx.waitall()
    assert value() is None


def test_weights_of_numpy_are_sent_once(served):
    net, x, whole = served
    rng = np.random.default_rng(7)
    net[0].weight.set_data(mx.np.array(rng.normal(size=(5, 3)).astype(np.float32)))
    mx.waitall()
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), expected(net, x), rtol=1e-5, atol=1e-6)
    weights = [p.data()._v.arr for p in net.collect_params().values()]
    assert not whole and not any(isinstance(w, np.ndarray) for w in weights)


def test_waitall_waits_for_a_network_by_itself():
    deep = nn.HybridSequential()
    deep.add(nn.Dense(600, in_units=600), nn.Dense(1, in_units=600))
    deep.initialize()
    x = mx.np.ones((64, 600))
    deep.optimize_for(x)
    for _ in range(3):
        out = deep(x)
        mx.waitall()
        assert out._v.arr.is_ready()


def test_eight_threads(served):
    net, x, _ = served
    want, found = expected(net, x), []

    def serve():
        for _ in range(50):
            found.append(net(x).asnumpy())

    threads = [threading.Thread(target=serve) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(found) == 400 and all(np.array_equal(f, found[0]) for f in found)
    np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=1e-6)
