"""Layers, losses and cells whose subclasses define `hybrid_forward`, as programs of MXNet 1 do (values of 1.9.1)."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd, sym
from mxjax.gluon import loss, nn, rnn

X = np.random.RandomState(0).randn(4, 3)


class Absolute(nn.Conv2D):
    def hybrid_forward(self, F, x, weight, bias=None):
        return super().hybrid_forward(F, x, F.abs(weight), bias)


class Normed(nn.Dense):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.g = self.params.get("g", shape=(self._units, 1), init="ones")

    def hybrid_forward(self, F, x, weight, bias=None, g=None):
        v = F.broadcast_div(weight, F.norm(weight, axis=1, keepdims=True))
        return F.FullyConnected(
            x, F.broadcast_mul(v, g), bias, num_hidden=self._units, flatten=self._flatten
        )


class Sharper(loss.SoftmaxCELoss):
    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return super().hybrid_forward(F, pred * 2, label, sample_weight) + 1


class Shifted(nn.BatchNorm):
    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        return super().hybrid_forward(F, x, gamma * 2, beta, running_mean, running_var) + 1


class Tripled(nn.HybridSequential):
    def hybrid_forward(self, F, x):
        return super().hybrid_forward(F, x) * 3


class Cell(rnn.LSTMCell):
    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        out, states = super().hybrid_forward(
            F, inputs, states, i2h_weight, F.abs(h2h_weight), i2h_bias, h2h_bias
        )
        return out * 2, states


def results(hybridize):
    for net, args, init in (
        (Absolute(2, 3, in_channels=1), (nd.ones((1, 1, 4, 4)),), mx.init.Constant(-0.1)),
        (Normed(2, in_units=3), (nd.array(X),), mx.init.One()),
        (Sharper(), (nd.array([[1.0, 2]]), nd.array([1])), None),
        (Shifted(in_channels=3), (nd.array(X),), mx.init.One()),
        (Tripled(), (nd.array(X),), mx.init.One()),
    ):
        if isinstance(net, Tripled):
            net.add(nn.Dense(2, in_units=3))
        net.initialize(init)
        net.hybridize(hybridize)
        yield net(*args).asnumpy()


@pytest.mark.parametrize("hybridize", [False, True])
def test_what_they_compute_is_theirs(hybridize):
    absolute, normed, sharper, shifted, tripled = results(hybridize)
    np.testing.assert_allclose(absolute, np.full((1, 2, 2, 2), 0.9), rtol=1e-5)
    np.testing.assert_allclose(normed[:, 0], [1.8146, 1.8078, 0.40155, 1.1598], rtol=1e-4)
    np.testing.assert_allclose(sharper, [1.1269], rtol=1e-4)
    np.testing.assert_allclose(shifted.ravel()[:4], [4.5281, 1.8003, 2.9575, 5.4818], rtol=1e-4)
    np.testing.assert_allclose(tripled[:, 1], 3 * X.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_cells(hybridize):
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        cell = Cell(4, input_size=3)
        cell.initialize(mx.init.Constant(-0.1))
        cell.hybridize(hybridize)
        out, states = cell.unroll(
            2, nd.array(X).reshape((2, 2, 3)), layout="TNC", merge_outputs=True
        )
        np.testing.assert_allclose(
            out.asnumpy().ravel()[[0, 4, 8]], [-0.10784, -0.10761, -0.099538], rtol=1e-4
        )
        np.testing.assert_allclose(states[0].asnumpy()[:, 0], [-0.049769, -0.068041], rtol=1e-4)
        composed, _ = cell.unroll(2, sym.var("x"), layout="TNC", merge_outputs=True)
        names = ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"]
        assert composed.list_arguments() == ["x", *[cell.prefix + name for name in names]]


def test_parameters_that_are_handed_over():
    dense = nn.Dense(2, in_units=3)
    dense.initialize("ones")
    x = nd.array(X)
    wanted = np.repeat(2 * X.sum(axis=1, keepdims=True), 2, axis=1)
    found = dense.hybrid_forward(nd, x, nd.ones((2, 3)) * 2, nd.zeros(2))
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)
    found = dense.hybrid_forward(nd, x, weight=nd.ones((2, 3)) * 2, bias=None)
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)
    assert nn.Activation("relu").hybrid_forward(nd, x).asnumpy().min() == 0
    composed = dense.hybrid_forward(sym, sym.var("x"), sym.var("w"), sym.var("b"))
    assert composed.list_arguments() == ["x", "w", "b"]
    np.testing.assert_allclose(dense(x).asnumpy(), wanted / 2, rtol=1e-5)


def test_a_modifier_of_cells():
    class Plus(rnn.ModifierCell):
        def _alias(self):
            return "plus"

        def hybrid_forward(self, F, inputs, states):
            out, states = self.base_cell(inputs, states)
            return out + 1, states

    cell = Plus(rnn.GRUCell(3, input_size=3))
    cell.initialize(mx.init.Constant(0.1))
    out, _ = cell.unroll(2, nd.array(X).reshape((2, 2, 3)), layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(
        out.asnumpy().ravel()[[0, 3, 6]], [1.1285, 1.1281, 1.1101], rtol=1e-4
    )


class Reader(nn.HybridBlock):
    """A base of a program with a forward of its own, which fills in what was not given."""

    def forward(self, query, key=None):
        return super().forward(query, query * 2 if key is None else key)

    def hybrid_forward(self, F, query, key):
        return query + key


class Scaled(Reader):
    def hybrid_forward(self, F, query, key):
        return super().hybrid_forward(F, query, key) * 10


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("cls", "found"), [(Reader, 3), (Scaled, 30)])
def test_a_forward_of_the_programs_own_base_is_called(cls, found, hybridize):
    net = cls()
    net.hybridize(hybridize)
    assert net(nd.ones(1)).asscalar() == found
