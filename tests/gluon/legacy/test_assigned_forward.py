"""`nn.Dense.hybrid_forward = f`: a layer's class that is given another computation, as MXNet 1 allows."""

from __future__ import annotations

from typing import Any

import pytest

import mxjax as mx
from mxjax.gluon import nn

X = [[1.0, 2.0, 3.0]]


def computed(layer: type = nn.Dense, hybridize: bool = False) -> list[list[float]]:
    net = layer(2, in_units=3, weight_initializer="ones")
    net.initialize()
    if hybridize:
        net.hybridize()
    return net(mx.nd.array(X)).asnumpy().tolist()


@pytest.mark.parametrize("hybridize", [False, True])
def test_an_assigned_hybrid_forward_computes_the_layer_and_its_heirs(monkeypatch, hybridize):
    class Heir(nn.Dense):
        pass

    def sevens(self, F, x, weight, bias=None):  # noqa: N803
        return F.FullyConnected(x, weight, bias, num_hidden=self._units) * 0 + 7

    with monkeypatch.context() as patch:
        patch.setattr(nn.Dense, "hybrid_forward", sevens, raising=False)
        assert computed(hybridize=hybridize) == computed(Heir, hybridize) == [[7.0, 7.0]]
    assert computed(hybridize=hybridize) == computed(Heir, hybridize) == [[6.0, 6.0]]


def test_an_assigned_hybrid_forward_may_call_the_one_before(monkeypatch):
    before = nn.Dense.hybrid_forward

    def more(self, F, x, weight, bias=None):  # noqa: N803
        return before(self, F, x, weight, bias) + 100

    with monkeypatch.context() as patch:
        patch.setattr(nn.Dense, "hybrid_forward", more)
        assert computed() == computed(hybridize=True) == [[106.0, 106.0]]
    assert computed() == [[6.0, 6.0]]


def test_layers_that_are_there_are_computed_by_it_and_get_their_own_back():
    x = mx.nd.ones((1, 3))
    there = nn.Dense(2, in_units=3)
    there.initialize(mx.init.One())
    assert there(x).asnumpy().tolist() == [[3, 3]]
    before = nn.Dense.hybrid_forward

    def tenfold(self, F, x, weight, bias=None):  # noqa: N803
        return F.FullyConnected(x, weight, bias, num_hidden=self._units) * 10

    nn.Dense.hybrid_forward = tenfold
    try:
        assert there(x).asnumpy().tolist() == [[30, 30]]
    finally:
        nn.Dense.hybrid_forward = before
    assert there(x).asnumpy().tolist() == [[3, 3]]


def test_calls_look_at_no_class_again_while_nothing_is_assigned(monkeypatch: Any) -> None:
    """It took a fifth of a small step's Python."""
    asked: list[Any] = []
    monkeypatch.setattr("mxjax.gluon.hybrid_block.follow_assigned", asked.append)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Activation("relu"))
    net.initialize()
    net(mx.np.ones((4, 3)))
    assert asked == []
