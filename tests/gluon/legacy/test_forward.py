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
