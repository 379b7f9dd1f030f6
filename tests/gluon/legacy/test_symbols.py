"""Blocks on symbols, and the shapes that symbols infer, against MXNet 1.9.1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn

NAMES = json.loads((Path(__file__).parents[2] / "data" / "gluon_names.json").read_text())


def test_layers_are_called_as_in_mxnet_1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        for text, prefix, outputs, params in NAMES:
            layer = eval(text, {"nn": nn})
            out = layer(mx.sym.var("data"))
            found = [layer.prefix, out.get_internals().list_outputs(), list(layer.collect_params())]
            assert found == [prefix, outputs, params], text


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(4, activation="relu"), nn.BatchNorm())
            self.weight = self.params.get("weight", shape=(3, 0), allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(0,), init="ones", allow_deferred_init=True)

    def hybrid_forward(self, F, x, weight, bias):
        return F.FullyConnected(self.body(x), weight, bias, num_hidden=3)


@pytest.mark.parametrize("kind", [mx.nd, mx.np])
def test_deferred_shapes_and_the_symbol(kind):
    net = Net(prefix="net_")
    net.initialize(mx.init.Normal(1.0))
    x = kind.array(onp.arange(10.0).reshape(2, 5))
    made = net(x)
    assert made.shape == (2, 3) and net.weight.shape == (3, 4) and net.bias.shape == (3,)
    data = mx.sym.var("data")
    out = net(data if kind is mx.nd else data.as_np_ndarray())
    assert set(out.list_arguments()) | set(out.list_auxiliary_states()) == {
        "data",
        *net.collect_params(),
    }
    arrays = {name: p.data().as_nd_ndarray() for name, p in net.collect_params().items()}
    states = {name: arrays.pop(name) for name in out.list_auxiliary_states()}
    bound = out.bind(mx.cpu(), {"data": x.as_nd_ndarray(), **arrays}, aux_states=states)
    onp.testing.assert_allclose(bound.forward()[0].asnumpy(), made.asnumpy(), rtol=1e-5)


def test_shapes_that_cannot_be_inferred():
    class Lost(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.gain = self.params.get("gain", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, gain):
            return F.dot(x, gain)

    net = Lost()
    net.initialize()
    with pytest.raises(ValueError, match="Deferred initialization failed"):
        net(mx.nd.ones((2, 3)))


def test_arrays_and_symbols_do_not_mix():
    class Two(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return x + y

    with pytest.raises(ValueError, match="mixed NDArrays and Symbols"):
        Two()(mx.sym.var("a"), mx.nd.ones((1,)))
    assert Two()(mx.sym.var("a"), mx.sym.var("b")).list_arguments() == ["a", "b"]


def test_types_are_inferred():
    net = Net(prefix="net_")
    net.infer_type(mx.nd.ones((2, 5), dtype="float64"))
    assert net.weight.dtype == onp.float64
    dense = nn.Dense(2)
    dense.infer_type(mx.nd.ones((2, 5), dtype="float16"))
    assert dense.weight.dtype == onp.float16
    with pytest.raises(NotImplementedError):
        gluon.HybridBlock().hybrid_forward(mx.nd, mx.nd.ones((1,)))
