"""Names, prefixes and dictionaries of parameters, as real MXNet 1.9.1 makes them."""

from __future__ import annotations

import copy
import pickle

import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn


@pytest.fixture
def fresh_names():
    with mx.name.NameManager():
        yield


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="body_")
            with self.body.name_scope():
                self.body.add(nn.Dense(4, in_units=3), nn.Dense(4, in_units=4))
            self.scale = self.params.get("scale", shape=(4,), init="ones")
            self.one = self.params.get_constant("one", [1.0])
            self.out = nn.Dense(2, in_units=4)

    def hybrid_forward(self, F, x, scale, one):
        return self.out(F.broadcast_mul(self.body(x), scale + one))


NAMES = [
    "net_scale", "net_one", "net_body_dense0_weight", "net_body_dense0_bias", "net_body_dense1_weight",
    "net_body_dense1_bias", "net_dense0_weight", "net_dense0_bias",
]  # fmt: skip


def test_long_names(fresh_names):
    net = Net(prefix="net_")
    assert list(net.collect_params()) == NAMES
    assert (net.name, net.prefix, net.out.name, net.body.prefix) == (
        "net",
        "net_",
        "net_dense0",
        "net_body_",
    )
    assert net.scale.name == "net_scale" and list(net.params) == ["net_scale", "net_one"]
    assert list(net.collect_params(".*body.*weight")) == [
        n for n in NAMES if "body" in n and "weight" in n
    ]
    assert repr(net.out.params) == (
        "net_dense0_ (\n  Parameter net_dense0_weight (shape=(2, 4), dtype=float32)\n"
        "  Parameter net_dense0_bias (shape=(2,), dtype=float32)\n)"
    )


def test_automatic_names_count(fresh_names):
    assert [nn.Dense(1).prefix, nn.Dense(1).prefix, Net().prefix, Net().name] == [
        "dense0_", "dense1_", "net0_", "net1",
    ]  # fmt: skip
    with mx.name.Prefix("a_"):
        assert nn.Dense(1).prefix == "a_dense0_"
    empty = nn.HybridSequential(prefix="")
    with empty.name_scope():
        empty.add(nn.Dense(1))
    assert empty.prefix == "" and empty[0].prefix == "dense2_"


def test_names_that_a_symbol_gave_stay(fresh_names):
    symbol = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc")
    with mx.config.scope(compat_version="1.9"):
        outer = nn.HybridSequential(prefix="net_")
        with outer.name_scope():
            outer.add(gluon.SymbolBlock(symbol, symbol.get_internals()["x"]))
            outer.add(nn.Dense(1))
        assert outer[0].prefix == "" and list(outer[0].collect_params()) == ["fc_weight", "fc_bias"]
        assert list(outer.collect_params()) == [
            "fc_weight",
            "fc_bias",
            "net_dense0_weight",
            "net_dense0_bias",
        ]


def test_both_spellings_find_a_parameter(fresh_names):
    net = Net(prefix="net_")
    params = net.collect_params()
    assert (
        params["body.0.weight"] is params["net_body_dense0_weight"]
        and "scale" in params
        and "no" not in params
    )
    assert "body.0.bias" in net.collect_params("net_body.*")
    modern = nn.HybridSequential()
    modern.add(nn.Dense(4, in_units=3))
    params = modern.collect_params()
    assert list(params) == ["0.weight", "0.bias"] and params["dense0_weight"] is params["0.weight"]
    assert (
        params.get("missing") is None
        and params.get("missing", 3) == 3
        and params.get("0.bias") is params["0.bias"]
    )
    assert modern[0].params["weight"].name == "weight" and "dense0_bias" in modern[0].params
    with pytest.raises(KeyError, match=r"did you mean '0\.weight'"):
        params["0.wieght"]


def test_parameters_are_shared(fresh_names):
    one = Net(prefix="net_")
    two = Net(prefix="other_", params=one.collect_params())
    assert two.out.weight is one.out.weight and two.scale is one.scale and two.one is one.one
    layer = nn.Dense(2, params=one.out.params)
    assert layer.weight is one.out.weight and layer.prefix == "dense0_"
    plain = nn.Dense(2, in_units=4)
    assert nn.Dense(2, params=plain.params).weight is plain.weight
    with pytest.raises(AssertionError, match="desired"):
        nn.Dense(3, in_units=5, params=plain.params)


def test_get():
    params = gluon.ParameterDict("p_")
    a = params.get("a", shape=(0, 3), allow_deferred_init=True)
    assert (
        params.get("a", shape=(2, 0)) is a
        and a.shape == (2, 3)
        and params.get("a", dtype="float32") is a
    )
    with pytest.raises(AssertionError, match="Cannot retrieve Parameter 'p_a'"):
        params.get("a", shape=(4, 3))
    with pytest.raises(AssertionError, match="not a constant"):
        params.get_constant("a", 1.0)
    with pytest.raises(KeyError, match="No constant named 'p_c'"):
        params.get_constant("c")
    c = params.get_constant("c", [1.0, 2.0])
    assert params.get_constant("c", mx.nd.array([1, 2])) is c
    with pytest.raises(AssertionError, match="doesn't match"):
        params.get_constant("c", [1.0, 3.0])
    assert gluon.ParameterDict("p_", shared=params).get("a") is a
    other = gluon.ParameterDict("p_")
    other.get("a", shape=(1,))
    with pytest.raises(AssertionError, match="different Parameters with the same name"):
        params.update(other)


def test_a_plain_block_asks_its_params(fresh_names):
    """The style of MXNet 1 in a `forward`, without any prefix."""

    class Layer(gluon.Block):
        def __init__(self, units, in_units, **kwargs):
            super().__init__(**kwargs)
            self.weight = self.params.get("weight", shape=(in_units, units), init="ones")

        def forward(self, x):
            return mx.nd.dot(x, self.weight.data()) + self.params.get("weight").data().sum()

    net = Layer(2, 3)
    net.initialize()
    assert list(net.collect_params()) == ["layer0_weight"]
    assert net(mx.nd.ones((1, 3))).asnumpy().tolist() == [[9.0, 9.0]]


def test_all_at_once(fresh_names):
    net = Net(prefix="net_")
    params = net.collect_params()
    params.initialize(mx.init.One(), ctx=mx.cpu(0))
    params.setattr("lr_mult", 0.5)
    net.out.params.setattr("grad_req", "null")
    assert (
        net.out.weight.grad_req == "null"
        and net.scale.lr_mult == 0.5
        and params.list_ctx() == [mx.cpu(0)]
    )
    params.zero_grad()
    params.reset_ctx(mx.cpu(1))
    assert params.list_ctx() == [mx.cpu(1)]


def test_copies_keep_their_names(fresh_names):
    net = Net(prefix="net_")
    net.initialize()
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (
            list(again.collect_params()) == NAMES
            and again.scale is again.params["net_scale"] is not net.scale
        )
        assert again.out.params.prefix == "net_dense0_"


def test_names_are_free_for_the_user():
    """MXNet 2 has no attributes `name` and `prefix`."""

    class Own(gluon.Block):
        def __init__(self, name):
            super().__init__()
            self.name, self.prefix = name, 3

    assert Own("mine").name == "mine" and Own("mine").prefix == 3


def test_parts_of_a_chain_have_its_prefix_and_are_not_counted():
    """As in MXNet 1.9.1."""
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        net = mx.gluon.nn.HybridSequential(prefix="net_")
        net.add(mx.gluon.nn.Dense(2), mx.gluon.nn.Dense(2))
        assert net[:1].prefix == "net_"
        assert mx.gluon.nn.HybridSequential().name == "hybridsequential0"
