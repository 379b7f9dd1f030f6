"""`hybrid_forward`, in both kinds of arrays, alone and among blocks of MXNet 2."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon

KINDS = [mx.nd, mx.np]


class Scaled(gluon.HybridBlock):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.gain = self.params.get("gain", shape=(units,), init=mx.init.Constant(2.0))

    def hybrid_forward(self, F, x, gain):
        assert type(gain) is type(x)
        return F.broadcast_mul(F.relu(x), gain) + F.ones((1,))


class Modern(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.old = Scaled(3)
        self.bias = gluon.Parameter("bias", shape=(3,), init="ones")

    def forward(self, x):
        return mx.np.add(self.old(x), self.bias.data(x.device))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hybridize", [False, True])
def test_values_and_gradients(kind, hybridize):
    net = Modern()
    net.initialize()
    if hybridize:
        net.hybridize()
    x = kind.array([[1.0, -2.0, 3.0]])
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
    assert type(y) is type(x)
    assert y.asnumpy().tolist() == [[4.0, 2.0, 8.0]] and x.grad.asnumpy().tolist() == [
        [2.0, 0.0, 2.0]
    ]
    assert net.old.gain.grad().asnumpy().tolist() == [1.0, 0.0, 3.0]


def test_a_hybridized_block_answers_in_the_kind_it_is_given():
    net = Modern()
    net.initialize()
    net.hybridize()
    for kind in (mx.nd, mx.np, mx.nd):
        x = kind.ones((1, 3))
        assert type(net(x)) is type(x)


def test_nested_arguments_and_none():
    class Pair(gluon.HybridBlock):
        def hybrid_forward(self, F, pair, other=None):
            return F.elemwise_add(*pair) if other is None else F.elemwise_add(pair[0], other)

    x = mx.nd.ones((2,))
    for hybridize in (False, True):
        net = Pair()
        net.hybridize(hybridize)
        assert net([x, x]).asnumpy().tolist() == [2.0, 2.0] and net(
            [x, x], x * 3
        ).asnumpy().tolist() == [4.0, 4.0]


def test_nothing_to_run():
    class Empty(gluon.HybridBlock):
        pass

    with pytest.raises(NotImplementedError, match="does not define forward"):
        Empty()(mx.nd.ones((1,)))
    with pytest.raises(ValueError, match="one NDArray or one Symbol"):
        Scaled(3)(4)


def test_training_as_by_hand():
    """One step of SGD on a linear model of MXNet 1, against the formulas."""

    class Linear(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(1, 2), init="zeros")

        def hybrid_forward(self, F, x, weight):
            return F.FullyConnected(x, weight, no_bias=True, num_hidden=1)

    x, y = onp.array([[1.0, 2.0], [3.0, 4.0]], "float32"), onp.array([1.0, 2.0], "float32")
    with mx.np_array(False):
        net = Linear(prefix="lin_")
        net.collect_params().initialize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(mx.nd.array(x)), mx.nd.array(y))
        loss.backward()
        trainer.step(2)
        assert type(net.weight.data()) is mx.nd.NDArray
    expected = 0.1 * (x * y[:, None]).sum(0) / 2
    onp.testing.assert_allclose(net.weight.data().asnumpy()[0], expected, rtol=1e-6)


class Part(gluon.HybridBlock):
    def __init__(self, what):
        super().__init__()
        self.what = what
        self.inner = gluon.nn.HybridLambda(lambda F, x: F.relu(x))
        self.gain = self.params.get("gain", shape=(2, 3), init="ones")

    def hybrid_forward(self, F, x, gain):
        return self.what(self, F, x * gain, gain)


class Row(gluon.HybridBlock):
    def forward(self, x):
        return x[0] * 2


class Outer(gluon.HybridBlock):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x * 2)[0]


X = onp.array([[1, 2, 3.0], [4, 5, 6]], "float32")
# What 1.9.1 gives for X where nothing is hybridized, and where the block is.
PARTS = {
    "operator": (lambda b, F, x, w: (x * 2)[0], X[0] * 2, X * 2),
    "block": (lambda b, F, x, w: b.inner(x)[0], X[0], X),
    "twice": (lambda b, F, x, w: (x * 2)[0][0], [2.0], X * 2),
    "slice": (lambda b, F, x, w: (x * 2)[:1], X[:1] * 2, X * 2),
    "parameter": (lambda b, F, x, w: F.broadcast_mul(x, w[0]), X, X),
    "iterated": (lambda b, F, x, w: F.add_n(*[F.broadcast_mul(x, r) for r in w]), X * 2, X),
    "zipped": (lambda b, F, x, w: F.add_n(*[p * q for p, q in zip(x * 2, w, strict=True)]),
               X[0] * 2 + X[1] * 2, X * 2),
    "length": (lambda b, F, x, w: x * len(x), X * 2, X),
    "reshaped": (lambda b, F, x, w: F.reshape(x, (-1,))[0], [1.0], X.ravel()),
    "body": (lambda b, F, x, w: F.contrib.foreach(
        lambda d, s: (d * 2 + s[0], [s[0] + d[0]]), x, [F.zeros((3,))])[0],
        [[2, 4, 6], [9, 11, 13]], [[2, 4, 6], [9, 12, 15]]),
    "many": (lambda b, F, x, w: F.split(x, num_outputs=3, axis=1)[1], X[:, 1:2], X[:, 1:2]),
    "constant": (lambda b, F, x, w: F.broadcast_mul(x, mx.nd.arange(1, 3)[1]), X * 2, X * 2),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_an_array_of_a_hybridized_forward_of_mxnet_1_is_a_symbol(part):
    what, want, hybridized = PARTS[part]
    with mx.config.scope(compat_version="1.9"):
        for hybridize, expected in ((False, want), (True, hybridized)):
            block = Part(what)
            block.initialize()
            block.hybridize(hybridize)
            onp.testing.assert_array_equal(block(mx.nd.array(X)).asnumpy(), expected)
    block = Part(what)  # those of MXNet 2 are arrays
    block.initialize()
    block.hybridize()
    onp.testing.assert_array_equal(block(mx.nd.array(X)).asnumpy(), want)


def test_where_arrays_are_symbols_and_where_not():
    with mx.config.scope(compat_version="1.9"):
        x = mx.nd.array(X)
        for wrap, want in (
            (lambda b: [b, gluon.nn.HybridLambda(lambda F, x: (x * 2)[0])], X * 2),
            (lambda b: [b, Row()], X * 2),  # within a graph of Symbols
        ):
            net = gluon.nn.HybridSequential()
            net.add(*wrap(Part(lambda b, F, x, w: x)))
            net.initialize()
            net.hybridize()
            onp.testing.assert_array_equal(net(x).asnumpy(), want)
        net = Outer(Part(lambda b, F, x, w: x[0]))  # its own forward runs on arrays
        net.initialize()
        net.hybridize()
        onp.testing.assert_array_equal(net(x).asnumpy(), X[0] * 2)
        refused = [(key, IndexError) for key in (1, -1, True, slice(1, None), slice(0, 2))]
        refused += [(key, TypeError) for key in ((..., 0), (0,), None, ..., 0.0, [0], onp.int64(0))]
        for key, error in [*refused, ("a", ValueError)]:
            net = Part(lambda b, F, x, w, key=key: x[key])
            net.initialize()
            net.hybridize()
            with pytest.raises(error, match="slice_axis") as raised:
                net(x)
            assert isinstance(raised.value, mx.base.MXNetError)
