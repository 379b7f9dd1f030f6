"""Initializers against what MXNet 2.0 filled arrays with."""

import json
import math
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import initializer

ROWS = json.loads((Path(__file__).parent / "data" / "initializers.json").read_text())


def row_id(row):
    return f"{row['init']}-{row['name']}-{row['kwargs']}"


def filled(row):
    arr = mx.np.empty(tuple(row["shape"]))
    init = initializer.create(row["init"], **row["kwargs"])
    init(initializer.InitDesc(row["name"]), arr)
    return init, arr.asnumpy()


@pytest.mark.parametrize("row", [r for r in ROWS if "exact" in r], ids=row_id)
def test_fixed_values(row):
    init, got = filled(row)
    want = onp.array(row["exact"]["data"], "float32").reshape(row["exact"]["shape"])
    onp.testing.assert_allclose(got, want, rtol=1e-6)
    assert init.dumps() == row["dumps"]


@pytest.mark.parametrize("row", [r for r in ROWS if "mean" in r], ids=row_id)
def test_random_values(row):
    init, got = filled(row)
    assert init.dumps() == row["dumps"]
    if "scale2" in row:  # orthogonal: the rows' products are exact
        flat = got.reshape(got.shape[0], -1)
        if flat.shape[0] > flat.shape[1]:
            flat = flat.T
        eye = row["kwargs"].get("scale", 1.414) ** 2 * onp.eye(flat.shape[0])
        onp.testing.assert_allclose(flat @ flat.T, eye, atol=1e-4)
        return
    count = got.size
    assert abs(got.mean() - row["mean"]) < 10 * row["std"] / math.sqrt(count)
    assert abs(got.std() / row["std"] - 1) < 10 / math.sqrt(count)
    assert got.min() == pytest.approx(row["min"], rel=0.5)
    assert got.max() == pytest.approx(row["max"], rel=0.5)
    assert len(onp.unique(got)) > 0.9 * min(count, 10_000)


@pytest.mark.parametrize("row", [r for r in ROWS if "error" in r], ids=row_id)
def test_errors(row):
    with pytest.raises(ValueError) as caught:
        filled(row)
    assert isinstance(caught.value, mx.MXNetError)
    if row["name"] in str(caught.value):  # where MXNet names it, so does the text
        assert str(caught.value)[:40] == row["text"][:40]
    else:
        assert all(repr(v) in str(caught.value) for v in row["kwargs"].values())


def test_every_kind_of_row_was_used():
    assert all({"exact", "mean", "error"} & set(row) for row in ROWS)


def test_an_initializer_in_the_description_decides():
    arr = mx.np.zeros(3)
    desc = initializer.InitDesc("net_running_var", {"__init__": initializer.One().dumps()})
    initializer.Uniform()(desc, arr)
    assert arr.asnumpy().tolist() == [1, 1, 1]


def test_plain_names_still_work():
    arr = mx.np.ones(3)
    with pytest.warns(DeprecationWarning, match="InitDesc"):
        initializer.Uniform()("batchnorm_moving_mean", arr)
    assert arr.asnumpy().tolist() == [0, 0, 0]


def test_mixed_takes_the_first_pattern_that_matches():
    init = initializer.Mixed([".*special.*", ".*"], [initializer.One(), initializer.Zero()])
    for name, value in (("special_weight", 1), ("other_weight", 0)):
        arr = mx.np.full((2,), 5.0)
        init(initializer.InitDesc(name), arr)
        assert arr.asnumpy().tolist() == [value, value]
    with pytest.raises(ValueError, match="did not match"):
        initializer.Mixed(["bias"], [initializer.Zero()])("weight", arr)


def test_load_takes_the_values_and_the_default_for_the_rest():
    init = initializer.Load({"arg:w": mx.np.array([1.0, 2.0])}, initializer.One())
    arr = mx.np.zeros(2)
    init("w", arr)
    assert arr.asnumpy().tolist() == [1, 2]
    init(initializer.InitDesc("other_weight"), arr)
    assert arr.asnumpy().tolist() == [1, 1]
    with pytest.raises(AssertionError, match="shape"):
        init("w", mx.np.zeros(3))


def test_lstm_bias_opens_the_forget_gate():
    arr = mx.np.ones(8)
    initializer.LSTMBias(2.0)._init_weight("bias", arr)
    assert arr.asnumpy().tolist() == [0, 0, 2, 2, 0, 0, 0, 0]


def test_fused_vector_fills_each_piece():
    # one layer: weights (4 * 2) x 3 inputs and (4 * 2) x 2 states, two biases of 8
    init = initializer.RNNFused(
        "lstm", 1, 2, i2h_weight_initializer="ones", h2h_weight_initializer="zeros",
        i2h_bias_initializer="ones", h2h_bias_initializer="zeros",
    )  # fmt: skip
    arr = mx.np.full((24 + 16 + 16,), 5.0)
    init._init_weight("rnn_param", arr)
    assert arr.asnumpy().tolist() == [1] * 24 + [0] * 16 + [1] * 8 + [0] * 8


@pytest.mark.parametrize(
    "init", [mx.init.Xavier(), mx.init.MSRAPrelu(), mx.init.Normal(0.1), mx.init.Uniform(0.1)]
)
def test_arrays_of_bfloat16_get_the_rounded_numbers_of_float32(init):
    net = mx.gluon.nn.Dense(64, use_bias=False)
    net.cast("bfloat16")
    net.initialize(init)
    mx.random.seed(3)
    net(mx.np.ones((2, 32), dtype="bfloat16"))  # the shape is known from here on
    wide = mx.np.empty((64, 32))
    mx.random.seed(3)
    init(initializer.InitDesc("weight"), wide)
    assert str(net.weight.dtype) == "bfloat16"
    got, want = net.weight.data().astype("float32").asnumpy(), wide.asnumpy()
    onp.testing.assert_allclose(got, want, rtol=2**-8)
    assert want.std() > 0


def test_equal_means_same_class_and_arguments():
    assert initializer.Xavier() == initializer.Xavier()
    assert initializer.Xavier() != initializer.Xavier(magnitude=2)
    assert initializer.create(initializer.Normal(0.3).dumps()) == initializer.Normal(0.3)
