"""Symbols and networks with casts in them: where MXNet puts them, and what the results are."""

import json
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import amp, gluon

CASES = json.loads((Path(__file__).parents[1] / "data" / "amp_symbols.json").read_text())


def network():
    sym = mx.sym
    x = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = sym.BatchNorm(x, name="bn")
    x = sym.Activation(x, act_type="relu", name="act")
    x = sym.FullyConnected(x, num_hidden=3, name="fc")
    x = sym.elemwise_add(x, sym.exp(x, name="e"), name="add")
    return sym.softmax(x, name="sm")


def nodes(converted):
    read = json.loads(converted.tojson(remove_amp_cast=False))["nodes"]
    return [
        [n["op"], n["name"], n.get("attrs", {}).get("__dtype__"), [i[0] for i in n["inputs"]]]
        for n in read
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(c["kwargs"]) or "lists")
def test_casts_are_where_mxnet_puts_them(case):
    made = amp.convert_symbol(network(), "float16", data_names=["data"], **case["kwargs"])
    assert nodes(made) == case["nodes"]
    assert json.loads(made.tojson())["nodes"][0]["name"] == "data"
    assert "amp_cast" not in made.tojson()  # files have none unless asked


def test_a_model_computes_nearly_the_same():
    rng = onp.random.RandomState(0)
    sym, shapes = network(), {"data": (2, 3, 6, 6)}
    names, (args, _, states) = sym.list_arguments(), sym.infer_shape(**shapes)
    params = {
        n: mx.nd.array(rng.uniform(-0.5, 0.5, s))
        for n, s in zip(names, args, strict=True)
        if n != "data"
    }
    aux = {n: mx.nd.ones(s) for n, s in zip(sym.list_auxiliary_states(), states, strict=True)}
    x = mx.nd.array(rng.uniform(size=shapes["data"]))
    want = sym.bind(mx.cpu(), {"data": x, **params}, aux_states=aux).forward()[0].asnumpy()
    made, cast, kept = amp.convert_model(sym, params, aux, "float16", cast_optional_params=True)
    assert cast["conv_weight"].dtype == onp.float16
    assert cast["bn_gamma"].dtype == onp.float32
    got = made.bind(mx.cpu(), {"data": x, **cast}, aux_states=kept).forward()[0]
    onp.testing.assert_allclose(got.asnumpy(), want, atol=5e-3)
    assert params["conv_weight"].dtype == onp.float32


def test_a_block_in_mixed_precision(tmp_path):
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Dense(4, in_units=6, activation="tanh"),
        gluon.nn.BatchNorm(in_channels=4),
        gluon.nn.Dense(3, in_units=4),
    )
    net.initialize(mx.init.Xavier())
    x = mx.np.array(onp.random.RandomState(0).uniform(size=(2, 6)), dtype="float32")
    with pytest.raises(RuntimeError, match="hybridize"):
        amp.convert_hybrid_block(net, "bfloat16")
    net.hybridize()
    want = net(x).asnumpy()
    made = amp.convert_hybrid_block(net, "bfloat16", cast_optional_params=True)
    dtypes = {name: str(p.data().dtype) for name, p in made.collect_params().items()}
    assert dtypes["0.weight"] == "bfloat16" and dtypes["1.gamma"] == "float32"
    out = made(x)
    assert out.dtype == "float32"
    onp.testing.assert_allclose(out.asnumpy(), want, atol=2e-2)
    with pytest.raises(AssertionError, match="HybridBlock"):
        amp.convert_hybrid_block(gluon.Block())


def test_results_are_float32_again():
    """Which results MXNet 1.9.1 and 2.0.0b1 cast."""
    sym = mx.sym
    data = sym.var("data")
    low = sym.FullyConnected(data, num_hidden=3, name="f")
    full = sym.exp(low, name="e")
    for head, cast in (
        (low, True),
        (sym.relu(low), True),
        (sym.broadcast_add(low, low), True),
        (sym.Activation(data, act_type="relu"), True),
        (full, False),
        (sym.softmax(sym.relu(low)), False),
        (sym.broadcast_add(low, full), False),
        (sym.broadcast_add(full, full), False),
        (sym.elemwise_add(data, full), False),
        (sym.Activation(full, act_type="relu"), False),
        (sym.Activation(low, act_type="softrelu"), False),
        (sym.LinearRegressionOutput(low, sym.var("label")), False),
    ):
        made = amp.convert_symbol(head)
        nodes = json.loads(made.tojson(remove_amp_cast=False))["nodes"]
        assert (nodes[-1]["op"] == "amp_cast") is cast, head.name
        assert made.infer_type_partial(data="float32")[1] == [onp.float32]


def test_several_results_are_cast_once_each():
    low = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="f")
    parts = mx.sym.SliceChannel(low, num_outputs=2, name="s")
    made = amp.convert_symbol(mx.sym.Group([low, low, parts, mx.sym.exp(low, name="e")]))
    assert made.list_outputs() == [  # MXNet 1.9.1
        "f_output_amp_cast_float32_output", "f_output_amp_cast_float32_output",
        "s_output0_amp_cast_float32_output", "s_output1_amp_cast_float32_output", "e_output",
    ]  # fmt: skip


def test_what_is_refused():
    with pytest.raises(AssertionError, match="Symbol"):
        amp.convert_symbol(3)
    with pytest.raises(AssertionError, match="float64"):
        amp.convert_symbol(network(), "float64")
    with pytest.raises(AssertionError, match="fp32_ops"):
        amp.convert_symbol(network(), fp32_ops="exp")
    with pytest.raises(ValueError, match="exp"):
        amp.convert_symbol(network(), target_dtype_ops=["exp"])
    with pytest.raises(AssertionError, match="dict"):
        amp.convert_model(network(), [], {})


def test_a_converted_blocks_inputs_come_in_the_order_of_its_arguments():
    """Not in the one that its symbol reads them in, and those that it does not read come, too."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, a, b, c):
            return c * 2 + mx.npx.relu(a)

    net = Net()
    net.initialize()
    net.hybridize()
    arrays = [mx.np.array([x]) for x in ([1.0, -5, 3], [7.0, 7, 7], [-1.0, 4, 2])]
    assert net(*arrays).tolist() == [[-1, 8, 7]]
    made = mx.amp.convert_hybrid_block(net, target_dtype="bfloat16")
    assert made(*arrays).astype("float32").tolist() == [[-1, 8, 7]]
