"""Shapes that a hybridized block meets once: they run imperatively, and give what a graph gives."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn
from mxjax.gluon.graphs.newcomers import RECORDED

SHAPES = (3, 4, 5, 6, 7)


@pytest.fixture(autouse=True)
def auto():
    """With programs alone every shape is recorded."""
    mx.config.set({"engine.cold": "auto"})


class Attends(nn.HybridBlock):
    """Its first input grows; counts how often its forward ran as Python."""

    def __init__(self):
        super().__init__()
        self.inner = nn.HybridSequential()
        self.inner.add(
            nn.Dense(4, in_units=3, flatten=False),
            nn.Dropout(0.5),
            nn.BatchNorm(axis=-1, in_channels=4),
        )
        self.ran = 0

    def forward(self, cache, scale):
        self.ran += 1
        h = self.inner(cache) * scale
        weights = mx.npx.softmax(mx.np.dot(h, h[-1]))
        return mx.np.dot(weights, h), (cache, h.shape[0] * weights)


def nets():
    made = []
    for _ in range(2):
        net = Attends()
        net.initialize(mx.init.Constant(0.25))
        made.append(net)
    made[1].hybridize()
    return made


def cache(n):
    return mx.np.array(np.random.RandomState(n).uniform(-1, 1, (n, 3)).astype("float32"))


def test_new_shapes_run_imperatively_and_are_recorded_when_they_come_back():
    plain, net = nets()
    scale = mx.np.array([1.0, 2.0, 3.0, 4.0])
    for n in SHAPES:
        expected, (same, weights) = plain(cache(n), scale)
        got, (given, taken) = net(cache(n), scale)
        np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-6)
        np.testing.assert_allclose(taken.asnumpy(), weights.asnumpy(), rtol=1e-6)
        np.testing.assert_array_equal(given.asnumpy(), same.asnumpy())
    assert (len(net._graphs), net.ran) == (RECORDED, len(SHAPES))
    assert not net.inner._graphs and not net.inner[0]._graphs
    for n in SHAPES:
        net(cache(n), scale)
    assert len(net._graphs) == len(SHAPES) and net.ran == 2 * len(SHAPES) - RECORDED


def test_results_are_lists_and_new_arrays_as_those_of_graphs():
    _, net = nets()
    scale = mx.np.ones(4)
    for n in SHAPES:
        x = cache(n)
        before = x.asnumpy()
        out = net(x, scale)
        assert type(out) is list and type(out[1]) is list
        out[1][0][:] = 7  # it is x's numbers, and not x
        np.testing.assert_array_equal(x.asnumpy(), before)


def test_random_numbers_and_statistics_are_those_of_the_block_without_graphs():
    found = []
    for net in nets():
        mx.random.seed(7)
        with autograd.train_mode():
            drawn = [net(cache(n), mx.np.ones(4))[0].asnumpy() for n in SHAPES]
        found.append([*drawn, net.inner[2].running_mean.data().asnumpy()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_with_gradients_every_shape_is_recorded():
    """In a graph `autograd.pause` keeps nothing from gradients, as in MXNet's graphs: d(x w x)/dw is there."""

    class Pauses(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(1, in_units=3, use_bias=False)

        def forward(self, x):
            with autograd.pause():
                y = self.dense(x)
            return y * x

    net = Pauses()
    net.initialize(mx.init.One())
    net.hybridize()
    for n in SHAPES:
        net(cache(n))  # shapes that prediction has met
        x = mx.np.ones((n, 3))
        with autograd.record():
            out = net(x)
        out.backward()
        assert net.dense.weight.grad().asnumpy().tolist() == [
            [3.0 * n] * 3
        ]  # MXNet 2.0.0b1 gives it


def test_other_results_than_arrays_are_refused():
    class Sometimes(nn.HybridBlock):
        def forward(self, x):
            return x * 2 if x.shape[0] < 6 else "none"

    net = Sometimes()
    net.hybridize()
    for n in (3, 4, 5):
        net(cache(n))
    with pytest.raises(TypeError, match="returns arrays"):
        net(cache(6))


@pytest.mark.parametrize("cold", ["compile", "auto"])
def test_programs_are_recorded_at_once(cold):
    """Under engine.cold=compile, and where a plan or mirroring asks for a program."""
    _, net = nets()
    net.hybridize(mirror=cold == "auto")
    with mx.config.scope({"engine.cold": cold}):
        for n in SHAPES:
            net(cache(n), mx.np.ones(4))
    assert len(net._graphs) == len(SHAPES)


def test_code_of_mxnet_1_that_indexes_symbols_keeps_its_graphs():
    """``x[0]`` of a Symbol with one output is x, where an array's is its first row (MXNet 1.9.1 gives 2 x)."""

    class First(nn.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return x[0] + x

    with mx.config.scope({"compat.version": "1.9"}):
        net = First()
        net.initialize()
        net.hybridize()
        for n in SHAPES:
            x = mx.nd.array(np.arange(3.0 * n).reshape(n, 3))
            np.testing.assert_array_equal(net(x).asnumpy(), 2 * x.asnumpy())


def test_hybrid_forward_of_mxnet_1_runs_imperatively_too():
    class Rows(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(3,), init="ones")

        def hybrid_forward(self, F, x, scale):  # noqa: N803
            return F.broadcast_mul(F.cumsum(x, axis=0), F.expand_dims(scale, 0))

    with mx.config.scope({"compat.version": "1.9"}):
        net = Rows()
        net.initialize()
        net.hybridize()
        for n in SHAPES:
            given = np.arange(3.0 * n).reshape(n, 3)
            np.testing.assert_array_equal(net(mx.nd.array(given)).asnumpy(), given.cumsum(0))
        assert len(net._graphs) == RECORDED
