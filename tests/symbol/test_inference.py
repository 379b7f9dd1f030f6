"""Shapes and dtypes that follow, or do not, from those of some variables; values are MXNet 1.9.1's."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx


def test_too_few_axes_are_an_error():
    """As in MXNet, not a warning that a shape is not known."""
    x = mx.sym.var("x")
    for made in (
        mx.sym.BatchNorm(x, axis=7),
        mx.sym.BatchNorm(x, axis=-5),
        mx.sym.RNN(x, state_size=4, num_layers=1, mode="gru"),
    ):
        with pytest.raises(mx.MXNetError, match="data of 2 axes has too few of them"):
            made.infer_shape(x=(2, 3))


@pytest.fixture
def unknown_is_zero():
    with mx.util.np_array(False), mx.util.np_shape(False):
        yield


@pytest.mark.usefixtures("unknown_is_zero")
def test_joined_arrays_have_one_shape_but_for_an_axis():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    joined = mx.sym.concat(x, y, dim=1)
    assert joined.infer_shape_partial(x=(2, 3))[0] == [(2, 3), (2, 0)]
    assert joined.infer_shape_partial(x=(2, 3), y=(0, 4)) == ([(2, 3), (2, 4)], [(2, 7)], [])
    assert mx.sym.concat(x, y, dim=-1).infer_shape_partial(x=(2, 0), y=(0, 3))[0] == [
        (2, 0),
        (2, 3),
    ]
    assert mx.sym.stack(x, y, axis=1).infer_shape_partial(y=(2, 4))[1] == [(2, 2, 4)]


def test_a_cast_says_nothing_of_what_is_cast():
    x = mx.sym.var("x")
    assert mx.sym.cast(x, dtype="float16").infer_type() == (None, None, None)
    assert mx.sym.cast(x, dtype="float16").infer_type(x="int8")[1] == [onp.float16]


def names(types):
    """The dtypes of MXNet's three lists, by name."""
    return [t and [d and onp.dtype(d).name for d in t] for t in types]


def test_types_that_do_not_follow_are_none():
    """As MXNet 1.9.1: all or nothing, but for weights, which are float32."""
    x, y = mx.sym.var("x"), mx.sym.var("y")
    for made, given in (
        (x + mx.sym.cast(y, dtype="float16"), {"x": "float16"}),
        (mx.sym.where(x, y, y), {"x": "int32"}),
        (mx.sym.where(x, y, y), {"y": "float16"}),
        (mx.sym.Group([x, y]), {"x": "int8"}),
        (mx.sym.broadcast_like(x, y), {"x": "float32"}),
        (mx.sym.sum(mx.sym.argsort(x)), {}),
    ):
        assert made.infer_type(**given) == (None, None, None)
    weights = mx.sym.Embedding(x, input_dim=3, output_dim=2, name="e")
    assert names(weights.infer_type(x="int32")) == [["int32", "float32"], ["float32"], []]


@pytest.mark.parametrize("made, given, arguments, results", [
    (lambda s, x, y: s.topk(x, ret_typ="both"), {"x": "float64"}, ["float64"], ["float64", "float32"]),
    (lambda s, x, y: s.topk(x, ret_typ="both", dtype="int32"), {"x": "float64"}, ["float64"], ["float64", "int32"]),
    (lambda s, x, y: s.topk(x, ret_typ="mask"), {"x": "float16"}, ["float16"], ["float16"]),
    (lambda s, x, y: s.all_finite(x), {"x": "float16"}, ["float16"], ["float32"]),
    (lambda s, x, y: s.multi_sum_sq(x, num_arrays=1), {"x": "float16"}, ["float16"], ["float32"]),
    (lambda s, x, y: s.sample_normal(x, y, shape=2), {"x": "float16", "y": "float16"}, ["float16"] * 2, ["float32"]),
    (lambda s, x, y: s.sample_poisson(x, dtype="float64"), {"x": "float16"}, ["float16"], ["float64"]),
    (lambda s, x, y: s.amp_cast(x, dtype="float16"), {"x": "int32"}, ["int32"], ["int32"]),
    (lambda s, x, y: s.amp_cast(x, dtype="float16"), {"x": "float32"}, ["float32"], ["float16"]),
    (lambda s, x, y: s.batch_take(x, y), {"x": "float16"}, ["float16", "int32"], ["float16"]),
    (lambda s, x, y: s.contrib.index_array(x), {"x": "float16"}, ["float16"], ["int64"]),
    (lambda s, x, y: s.contrib.allclose(x, y), {"x": "float16", "y": "float16"}, ["float16"] * 2, ["uint8"]),
])  # fmt: skip
def test_types_of_results(made, given, arguments, results):
    """As MXNet 1.9.1."""
    symbol = made(mx.sym, mx.sym.var("x"), mx.sym.var("y"))
    assert names(symbol.infer_type(**given)) == [arguments, results, []]


@pytest.mark.parametrize("given", [{"c": (2,), "x": (2, 3)}, {"c": (2, 3), "y": (2, 3)}])
def test_what_where_chooses_from_has_one_shape(given):
    c, x, y = (mx.sym.var(name) for name in "cxy")
    chosen = mx.sym.where(c, x, y)
    arguments, results, _ = chosen.infer_shape(**given)
    assert arguments == [given["c"], (2, 3), (2, 3)]
    assert results == [(2, 3)]
    with pytest.warns(UserWarning, match="Cannot decide shape"):
        assert chosen.infer_shape(x=(2, 3)) == (None, None, None)
