"""What operators compute in, by the numbers and by the text of the programs."""

import re

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.effects.precision import converted
from mxjax.gluon import nn
from mxjax.settings import SettingError

TINY = 2.0**-12  # too small beside 1 for float16 and bfloat16, not for float32


def square():
    x = mx.np.array([[1 + TINY]])
    return float(mx.np.dot(x, x)) - 1


def dense():
    net = nn.Dense(3, in_units=4)
    net.initialize(mx.init.Constant(1 + TINY))
    return net


def lost(value):
    return value == 0


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "loses"),
    [
        ({}, False),
        ({"MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION": 1}, True),
        (
            {"MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION": 1, "MXNET_CUDA_ALLOW_TENSOR_CORE": 0},
            False,
        ),
        ({"precision_mode": "cube_fp16in_fp32out"}, True),
        ({"precision_mode": "force_fp16"}, True),
        ({"precision_mode": "must_keep_origin_dtype"}, False),
        ({"precision_mode_v2": "mixed_bfloat16"}, True),
        (
            {
                "precision_mode_v2": "mixed_float16",
                "modify_mixlist": {"black-list": {"to-add": ["MatMul"]}},
            },
            False,
        ),
        (
            {
                "precision_mode_v2": "mixed_float16",
                "modify_mixlist": {"white-list": {"to-remove": ["dot"]}},
            },
            False,
        ),
    ],
)
def test_products_lose_what_the_precision_does_not_hold(given, loses):
    with mx.config.scope(given):
        assert lost(square()) is loses


@pytest.mark.observes
@pytest.mark.parametrize("hybridize", [False, True])
def test_mixed_precision_trains_with_gradients_of_float32(programs, hybridize):
    net = dense()
    if hybridize:
        net.hybridize()
    x = mx.np.array(np.linspace(0, 1, 8).reshape(2, 4))
    x.attach_grad()

    def gradient():
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        return x.grad.asnumpy()

    exact = gradient()
    assert "f16[" not in programs.text
    programs.clear()
    with mx.config.scope(precision_mode="allow_mix_precision_fp16"):
        mixed = gradient()
    assert "f16[" in programs.text and mixed.dtype == np.float32
    assert (mixed != exact).any()
    np.testing.assert_allclose(mixed, exact, rtol=5e-3)
    np.testing.assert_array_equal(gradient(), exact)  # back again


@pytest.mark.observes
def test_only_what_is_on_the_white_list_is_rounded():
    x = mx.np.array([1 + TINY])
    with mx.config.scope(precision_amp="mixed_float16"):
        assert float(x * x) != 1
        assert float((x * 1).sum()) != 1
    with mx.config.scope(
        precision_amp="mixed_float16", precision_lists={"white-list": {"to-add": ["Mul"]}}
    ):
        assert float(x * x) == 1
    with mx.config.scope(precision_amp="float16"):
        assert float(x * x) == 1


@pytest.mark.observes
def test_dtypes_of_single_operators_by_type_and_by_place(tmp_path):
    file = tmp_path / "dtypes.cfg"
    net = nn.HybridSequential()
    net.add(nn.Dense(1, in_units=1, use_bias=False), nn.Dense(1, in_units=1, use_bias=False))
    net.initialize(mx.init.Constant(1 + TINY))
    x = mx.np.array([[1.0]])

    def losses():
        outs = []
        for layer in net:
            layer.register_forward_hook(lambda block, given, out: outs.append(out))
        net(x)
        first, second = (float(out) for out in outs[:2])
        return lost(first - 1), lost(second / first - 1)

    assert losses() == (False, False)
    file.write_text("OpType::FullyConnected:InputDtype:float16,float16,OutputDtype:float16\n")
    with mx.config.scope(customize_dtypes=str(file)):
        assert losses() == (True, True)
    file.write_text(
        "OpType::FullyConnected:InputDtype:float16,OutputDtype:float16\n"
        "dense1/FullyConnected::InputDtype:float32,OutputDtype:float32\n"
    )
    with mx.config.scope(customize_dtypes=str(file)):
        assert losses() == (True, False)


def precisions(programs):
    return set(re.findall(r"operand_precision=\{(\w+),", programs.text))


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "dots", "others"),
    [
        ({}, False, False),
        ({"MXNET_CUDA_ALLOW_TENSOR_CORE": 0}, True, True),
        ({"op_select_implmode": "high_precision"}, True, True),
        ({"op_select_implmode": "high_precision", "optypelist_for_implmode": "dot"}, True, False),
        ({"op_precision_mode": {"batch_dot": "high_precision"}}, False, True),
        (
            {
                "op_select_implmode": "high_precision",
                "op_precision_mode": {"dot": "high_performance"},
            },
            False,
            True,
        ),
    ],
)
def test_exact_products_ask_for_the_highest_precision(programs, given, dots, others):
    x = mx.np.ones((2, 3, 3))
    with mx.config.scope({**given, "compiler.cpu_library": False}):
        mx.np.dot(x[0], x[1]).asnumpy()
        dot = "highest" in precisions(programs)
        programs.clear()
        mx.npx.batch_dot(x, x).asnumpy()
        batch = "highest" in precisions(programs)
    assert (dot, batch) == (dots, others)


@pytest.mark.observes
def test_a_file_of_precisions_has_sections(tmp_path):
    file = tmp_path / "op_precision.ini"
    file.write_text(
        "[ByOpType]\ndot=high_precision\n[ByNodeName]\nnet/dense0/FullyConnected=high_performance\n"
    )
    with mx.config.scope(op_precision_mode=str(file)):
        assert mx.config.get("precision.op_impl") == {
            "dot": ("high_precision",),
            "net/dense0/FullyConnected": ("high_performance",),
        }
    file.write_text("nonsense\n")
    with pytest.raises(SettingError, match="line 1: expected 'operator:value', got 'nonsense'"):
        mx.config.set(op_precision_mode=str(file))
    with pytest.raises(SettingError, match="cannot be read"):
        mx.config.set(op_precision_mode=str(tmp_path / "none.ini"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"modify_mixlist": {"black-list": {"to-add": ["Convolutoin"]}}},
            "did you mean 'Convolution'",
        ),
        ({"modify_mixlist": {"black-list": {"to-remove": ["dot"]}}}, "cannot be removed"),
        ({"modify_mixlist": {"red-list": {"to-add": ["dot"]}}}, "'red-list' is no list"),
        ({"customize_dtypes": {"dto": "float16"}}, "did you mean 'dot'"),
        ({"customize_dtypes": {"dot": "float17"}}, "'float17' is none of float16"),
        ({"precision_mode": "force_fp16", "precision_mode_v2": "origin"}, "contradict each other"),
    ],
)
def test_wrong_lists_are_refused_and_nothing_changes(given, message):
    with pytest.raises(SettingError, match=message):
        mx.config.set(given)
    assert not lost(square())
    assert settings_are_default()


def settings_are_default():
    return not [name for name in mx.config.changed() if name.startswith("precision.")]


@pytest.mark.programs
@pytest.mark.observes
def test_few_channels_make_a_product_of_a_convolution(programs, monkeypatch):
    # As where the windows are too many for the lowering's own choice of a product.
    monkeypatch.setattr("mxjax.ops.lowering.convolution_plan.VALUE_BYTES", 0)
    monkeypatch.setattr("mxjax.ops.lowering.convolution_plan.WEIGHT_BYTES", 0)
    conv = nn.Conv2D(5, (3, 2), strides=(2, 1), padding=(1, 0), dilation=(1, 2), in_channels=3)
    conv.initialize()
    x = mx.np.array(np.random.uniform(size=(2, 3, 9, 8)))
    x.attach_grad()

    def run():
        programs.clear()
        with mx.autograd.record():
            out = conv(x)
            loss = (out * out).sum()
        loss.backward()
        return out.asnumpy(), x.grad.asnumpy(), " convolution(" in programs.text

    out, grad, convolved = run()
    assert convolved
    with mx.config.scope(enable_small_channel=1):
        other, other_grad, convolved = run()
        assert not convolved
    np.testing.assert_allclose(other, out, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other_grad, grad, rtol=1e-5, atol=1e-5)
    wide = nn.Conv2D(2, 1, in_channels=5)
    wide.initialize()
    with mx.config.scope(enable_small_channel=1):  # five channels are not few
        programs.clear()
        wide(mx.np.ones((1, 5, 2, 2))).asnumpy()
        assert "Convolution" in programs.text


MODES = {
    "mixed_bfloat16": (
        {"precision_mode_v2": "mixed_bfloat16"},
        ["cast"] * 3 + ["FullyConnected", "cast", "Activation"],
    ),
    "cube_fp16in_fp32out": (
        {"precision_mode": "cube_fp16in_fp32out"},
        ["round_bits"] * 3 + ["FullyConnected", "Activation"],
    ),
    "float16": (
        {"precision_mode": "force_fp16"},
        ["cast"] * 3 + ["FullyConnected", "cast", "cast", "Activation", "cast"],
    ),
    "origin": ({}, ["FullyConnected", "Activation"]),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_for_a_file_says_what_programs_do(mode):
    """The casts are steps; without the settings they give what the settings give to the graph without casts."""
    given, names = MODES[mode]
    net = nn.Dense(3, activation="tanh", in_units=4)
    net.initialize(mx.init.Normal(1.0))
    net.hybridize()
    x = mx.np.array(np.random.RandomState(3).uniform(-2, 2, (5, 4)))
    with mx.config.scope(given):
        want = net(x).asnumpy()
        graph = converted(net.graph(x))
    assert [step.call.name for step in graph.steps] == names
    assert {step.scope for step in graph.steps} == {"", "act"}  # each cast is where its operator is
    again = core.Graph.read(repr(graph))
    params = {name: p.data().jax for name, p in net.collect_params().items()}
    inputs = {"x": x.jax, "random_count": np.asarray(0), **params}
    with jax.enable_x64(True):
        (got,) = jax.jit(again.run)(*[inputs[name] for name in again.inputs])
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-6)
    if mode != "origin":
        assert not np.allclose(
            np.asarray(got), net(x).asnumpy(), rtol=1e-6, atol=1e-6
        )  # without the settings
