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


def close(found, want):
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_what_follows_is_of_the_same_program(served):
    net, x, whole = served
    want = expected(net, x)

    def ran(step):
        before = mx.engine.stats()["segments"]
        close(step(), want)
        return mx.engine.stats()["segments"] - before

    for _ in range(3):
        net(x).wait_to_read()
        assert ran(lambda: (net(x) * 2 - net(x)).asnumpy()) == 1
        assert ran(lambda: (1.0 + net(x) + (-1.0)).asnumpy()) == 1
        assert ran(lambda: mx.np.concatenate([net(x)]).asnumpy()) == 1
    y, z = net(x), x + 1  # z is the first of its segment: y is not
    close(z.asnumpy() - 1, x.asnumpy())
    close((y * 1).asnumpy(), want)
    assert len(whole) == 3


def test_numbers_that_change_beside_a_call(served):
    net, x, _ = served
    want = expected(net, x)
    for k in range(12):
        close((net(x) * (1 + 0.5 * k)).asnumpy(), want * (1 + 0.5 * k))
        if k == 5:
            before = mx.engine.stats()["compiled"]
    assert mx.engine.stats()["compiled"] == before


def test_calls_that_nobody_reads(served):
    net, x, whole = served
    net(x)
    other = mx.np.array([[3.0, 0.0, -1.0], [1.0, 1.0, 1.0]])
    before = mx.engine.stats()["segments"]
    one = net(other)
    assert mx.engine.stats()["segments"] == before and not whole  # the first is forgotten
    two = net(x)
    close(two.asnumpy(), expected(net, x))
    close(one.asnumpy(), expected(net, other))
    net(x)
    value = weakref.ref(net[0].weight.data()._v)
    net[0].weight.set_data(mx.np.ones((5, 3)))
    (net[0].weight.data() + net[1].weight.data().sum()).asnumpy()
    assert value() is None


def test_what_is_written_after_a_call(served):
    net, x, _ = served
    want = expected(net, x)
    y = net(x)
    x[:] = 0
    net[0].bias.data()[:] = 7
    close(y.asnumpy(), want)
    close(net(x).asnumpy(), expected(net, x))


def test_read_elsewhere(served):
    net, x, _ = served
    want, found = expected(net, x), []
    for read in (
        lambda y: found.append(y.asnumpy()),
        lambda y: found.append((y + 0).asnumpy()),
        lambda y: found.append(mx.waitall() or y._v.arr),
        lambda y: found.append(y.copyto(mx.cpu(1)).asnumpy()),
    ):
        y = net(x)
        thread = threading.Thread(target=read, args=(y,))
        thread.start()
        thread.join(60)
        close(y.asnumpy(), want)
        close(np.asarray(found.pop()), want)
        close(net(x).asnumpy(), want)
    y = net(x)
    mx.waitall()
    assert y._v.seg is None and y._v.arr.is_ready()


def test_a_result_under_autograd(served):
    net, x, _ = served
    want = expected(net, x)
    w = mx.np.ones((2, 2))
    w.attach_grad()
    y = net(x)
    with autograd.record():
        z = (y * w).sum()
    z.backward()
    close(w.grad.asnumpy(), want)
    y = net(x)
    y.attach_grad()
    with autograd.record():
        z = (y * y).sum()
    z.backward()
    close(y.grad.asnumpy(), 2 * want)


def test_between_a_call_and_its_read(served, tmp_path):
    net, x, _ = served
    want = expected(net, x)
    y = net(x)
    mx.profiler.set_config(filename=str(tmp_path / "profile.json"))
    mx.profiler.set_state("run")
    close(y.asnumpy(), want)
    y = net(x)
    mx.profiler.set_state("stop")
    close(y.asnumpy(), want)
    y = net(x)
    with mx.config.scope("engine.type", "NaiveEngine"):
        close((y + 0).asnumpy(), want)
    y = net(x)
    net.hybridize()
    close(y.asnumpy(), want)


class Broken:
    """A program that is broken off, or refuses."""

    def __init__(self, run, error):
        self.run, self.error, self.left = run, error, 1

    def __call__(self, *arrays):
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return self.run(*arrays)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no")], ids=["stop", "error"])
def test_a_program_that_is_broken_off(served, error):
    net, x, _ = served
    want = expected(net, x)
    step = net._served.__self__.step
    step.solo = Broken(step.solo, error)
    y = net(x)
    if isinstance(error, RuntimeError):
        with pytest.raises(mx.MXNetError, match="no"):
            y.wait_to_read()
        with pytest.raises(mx.MXNetError, match="no"):
            y.asnumpy()
    else:
        with pytest.raises(KeyboardInterrupt):
            y.wait_to_read()
        close(y.asnumpy(), want)
    close(net(x).asnumpy(), want)
    mx.waitall()


def test_one_array_in_two_places():
    class Both(mx.gluon.HybridBlock):
        def forward(self, a, b):
            return a * 2 + b

    net, a, b = Both(), mx.np.array([1.0, 2.0]), mx.np.array([5.0, -1.0])
    net.optimize_for(a, b)
    for one, two in ((a, b), (a, b), (a, b), (a, a), (a, b), (b, b), (b, a)):
        want = one.asnumpy() * 2 + two.asnumpy()
        close(net(one, two).asnumpy(), want)
        close((net(one, two) * 3).asnumpy(), want * 3)
        y = net(one, two)
        mx.dtr.enable()
        try:
            close(y.asnumpy(), want)
        finally:
            mx.dtr.disable()
