"""Symbols of 8-bit operators: names of results, shapes and dtypes are what MXNet 1.9.1 says of the same."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx

sym = mx.sym
CONTRIB = sym.contrib
ONE = (1,)
BYTES, FLOATS = "int8", "float32"

#: A symbol, how many of its arrays are bytes, the shapes of the others and of its result for data (2, 4, 6, 6), and the
#: result's dtype.
CASES = {
    "conv": (
        lambda d: CONTRIB.quantized_conv(d, kernel=(1, 1), num_filter=1, name="q"),
        3, [(1, 4, 1, 1), ONE, *[ONE] * 6], (2, 1, 6, 6), "int32"),
    "conv_without_bias": (
        lambda d: CONTRIB.quantized_conv(d, kernel=(3, 3), pad=(1, 1), num_filter=5, no_bias=True, name="q"),
        2, [(5, 4, 3, 3), *[ONE] * 4], (2, 5, 6, 6), "int32"),
    "dense": (
        lambda d: CONTRIB.quantized_fully_connected(d, num_hidden=3, name="q"),
        3, [(3, 144), (3,), *[ONE] * 6], (2, 3), "int32"),
    "dense_of_the_last_axis": (
        lambda d: CONTRIB.quantized_fully_connected(d, num_hidden=5, flatten=False, no_bias=True, name="q"),
        2, [(5, 6), *[ONE] * 4], (2, 4, 6, 5), "int32"),
    "pooling": (
        lambda d: CONTRIB.quantized_pooling(d, kernel=(2, 2), stride=(2, 2), name="q"),
        1, [ONE, ONE], (2, 4, 3, 3), "int8"),
    "act": (lambda d: CONTRIB.quantized_act(d, act_type="relu", name="q"), 1, [ONE, ONE], (2, 4, 6, 6), "int8"),
    "flatten": (lambda d: CONTRIB.quantized_flatten(d, name="q"), 1, [ONE, ONE], (2, 144), "int8"),
    "embedding": (
        lambda d: CONTRIB.quantized_embedding(d, input_dim=7, output_dim=2, name="q"),
        2, [(7, 2), ONE, ONE], (2, 4, 6, 6, 2), "int8"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layers(name):
    make, whole, shapes, result, dtype = CASES[name]
    symbol = make(sym.Variable("data"))
    assert symbol.list_outputs() == ["q_output", "q_min_output", "q_max_output"]
    args, outs, _ = symbol.infer_shape(data=(2, 4, 6, 6))
    assert args == [(2, 4, 6, 6), *shapes] and outs == [result, ONE, ONE]
    args, outs, _ = symbol.infer_type(data="int8")
    expected = [BYTES] * whole + [FLOATS] * (len(shapes) + 1 - whole)
    assert [np.dtype(t).name for t in args] == expected
    assert [np.dtype(t).name for t in outs] == [dtype, FLOATS, FLOATS]


def test_steps_between_floats_and_bytes():
    data = sym.Variable("data")
    for make, given, dtype in [
        (CONTRIB.quantize, "float32", "uint8"),
        (CONTRIB.quantize_v2, "float32", "int8"),
        (CONTRIB.requantize, "int32", "int8"),
    ]:
        symbol = make(data, name="q")
        assert symbol.list_outputs() == ["q_output0", "q_output1", "q_output2"]
        assert symbol.infer_shape(data=(2, 3))[1] == [(2, 3), ONE, ONE]
        types = symbol.infer_type(data=given)[1]
        assert [np.dtype(t).name for t in types] == [dtype, FLOATS, FLOATS]
    args, outs, _ = CONTRIB.dequantize(data, name="q").infer_type(data="uint8")
    assert [np.dtype(t).name for t in (*args, *outs)] == ["uint8", FLOATS, FLOATS, FLOATS]


def test_results_of_detection_have_their_names():
    data = sym.Variable("data")
    target = CONTRIB.MultiBoxTarget(data, name="q")
    assert target.list_outputs() == ["q_loc_target", "q_loc_mask", "q_cls_target"]
    for make in (CONTRIB.Proposal, CONTRIB.MultiProposal):
        assert make(data, output_score=True, name="q").list_outputs() == ["q_output", "q_score"]
        assert make(data, name="q").list_outputs() == ["q_output"]
    assert CONTRIB.hawkesll(data, name="q").list_outputs() == ["q_output", "q_out_state"]


def test_a_quantized_network_is_bound_by_the_shape_of_its_data():
    data = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    rng = np.random.default_rng(0)
    args = {
        "fc_weight": mx.nd.array(rng.normal(size=(4, 6))),
        "fc_bias": mx.nd.array(rng.normal(size=4)),
    }
    x = mx.nd.array(rng.normal(size=(5, 6)))
    found, params, aux = mx.contrib.quantization.quantize_model(
        data, args, {}, calib_mode="naive", calib_data=mx.io.NDArrayIter(x, None, 5),
        quantized_dtype="int8", label_names=None,
    )  # fmt: skip
    module = mx.mod.Module(found, label_names=None)
    module.bind([("data", (5, 6))], for_training=False)
    module.set_params(params, aux)
    module.forward(mx.io.DataBatch([x], None))
    exact = x.asnumpy() @ args["fc_weight"].asnumpy().T + args["fc_bias"].asnumpy()
    # 8 bits of data and of weights: each of six products is off by at most 1 / 127, and they do not err alike.
    np.testing.assert_allclose(
        module.get_outputs()[0].asnumpy(), exact, atol=3 / 127 * abs(exact).max()
    )
