"""Parameters by position stand where NumPy (mx.np) and MXNet's registry (mx.nd, mx.sym) have them."""

from __future__ import annotations

import inspect

import numpy as onp
import pytest

import mxjax as mx
from mxjax import errors

X = onp.arange(12, dtype="float32").reshape(3, 4) % 5


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sum", (1, None, None, True)), ("prod", (0, None, None, True)), ("mean", (1, None, None, True)),
        ("std", (1, None, None, 1, True)), ("var", (0, None, None, 1)), ("max", (1, None, True)),
        ("amin", (0, None, True)), ("any", (1, None, True)), ("all", (1, None, True)),
        ("median", (1, None, None, True)), ("ptp", (1, None, True)), ("nansum", (1, None, None, True)),
        ("nanvar", (1, None, None, 1, True)), ("average", (1, onp.array([1.0, 2, 3, 4], "float32"))), ("diff", (2, 0)),
        ("percentile", (30.0, 1)), ("nanmedian", (1, None, False, True)),
        ("nanquantile", (0.3, 1, None, False, "lower")),
    ],
)  # fmt: skip
def test_numpy_functions(name, args):
    ours = [mx.np.array(a) if isinstance(a, onp.ndarray) else a for a in args]
    got = getattr(mx.np, name)(mx.np.array(X), *ours)
    onp.testing.assert_allclose(got.asnumpy(), getattr(onp, name)(X, *args), rtol=1e-5)


def test_side_comes_before_sorter():
    edges = onp.array([1.0, 2, 2, 3], "float32")
    got = mx.np.searchsorted(mx.np.array(edges), mx.np.array([2.0]), "right")
    assert got.tolist() == onp.searchsorted(edges, [2.0], "right").tolist()


def test_out_by_position_of_functions_and_methods():
    x, out = mx.np.array(X), mx.np.zeros((3, 1))
    assert mx.np.sum(x, 1, None, out, True) is out
    onp.testing.assert_allclose(out.asnumpy(), X.sum(1, keepdims=True))
    assert x.argmax(1, None, True).shape == (3, 1)
    assert x.max(1, out, True) is out
    onp.testing.assert_allclose(out.asnumpy(), X.max(1, keepdims=True))


def test_softmax_takes_the_lengths_before_the_axis():
    lengths = mx.nd.array([1, 2, 4], dtype="int32")
    got = mx.nd.softmax(mx.nd.array(X), lengths, -1, None, None, True).asnumpy()
    onp.testing.assert_allclose((got > 0).sum(-1), [1, 2, 4])


def test_attributes_of_nd_and_sym():
    x = mx.nd.array(X.reshape(1, 1, 3, 4))
    got = mx.nd.Pooling(x, (1, 2), "avg", False, False, "valid", (1, 2)).asnumpy()
    onp.testing.assert_allclose(got[0, 0], X.reshape(3, 2, 2).mean(-1))
    assert mx.nd.pick(mx.nd.array(X), mx.nd.array([0, 1, 2]), 1, True).shape == (3, 1)
    symbol = mx.sym.Pooling(mx.sym.var("data"), (1, 2), "avg", False, False, "valid", (1, 2))
    onp.testing.assert_allclose(symbol.eval(data=x)[0].asnumpy(), got)


def test_what_is_given_twice_or_too_much_is_refused():
    x = mx.np.array(X)
    with pytest.raises(errors.MXNetTypeError, match="twice"):
        mx.np.average(x, 1, axis=0)
    with pytest.raises(errors.MXNetTypeError, match="too many"):
        mx.np.median(x, 1, None, None, False, 3)
    with pytest.raises(errors.MXNetTypeError, match="twice"):
        mx.sym.np.sum(mx.sym.var("x").as_np_ndarray(), 1, None, dtype="float32")


def test_names_of_1x_have_their_own_parameters():
    x = mx.np.array(X)
    assert mx.np.sometrue(x, 1, True).shape == (3, 1)
    assert x.as_in_ctx(ctx=mx.cpu()) is x and x.as_in_context(context=mx.cpu()).shape == x.shape
    mx.npx.random.seed(seed=3)


@pytest.mark.parametrize(
    ("name", "args", "places"),
    [
        ("add", (2,), (None,)), ("exp", (), (None,)), ("equal", (2,), (None,)), ("dot", (X.T,), (None,)),
        ("clip", (1, 2), (None,)), ("around", (1,), (None,)), ("cumsum", (0, None), (None,)),
        ("trace", (0, 0, 1), (None,)), ("zeros_like", (None, "C"), (mx.cpu(), None)),
        ("full_like", (2, None, "C"), (None, None)),
    ],
)  # fmt: skip
def test_a_place_and_out_stand_behind_the_others(name, args, places):
    ours = [mx.np.array(a) if isinstance(a, onp.ndarray) else a for a in args]
    want = getattr(mx.np, name)(mx.np.array(X), *ours)
    got = getattr(mx.np, name)(mx.np.array(X), *ours, *places)
    assert (got.asnumpy() == want.asnumpy()).all()
    out = mx.np.empty_like(want)
    assert getattr(mx.np, name)(mx.np.array(X), *ours, *places[:-1], out) is out
    assert (out.asnumpy() == want.asnumpy()).all()
    with pytest.raises(TypeError, match="too many arguments"):
        getattr(mx.np, name)(mx.np.array(X), *ours, *places[:-1], "?")


@pytest.mark.parametrize("join", ["concatenate", "stack"])
def test_out_behind_a_sequence(join):
    x = mx.np.ones((2, 2))
    out = mx.np.empty({"concatenate": (4, 2), "stack": (2, 2, 2)}[join])
    assert getattr(mx.np, join)([x, x], 0, None).shape == out.shape
    assert getattr(mx.np, join)([x, x], 0, out) is out
    assert out.asnumpy().all()


def test_the_place_of_random_numbers():
    for name in ("uniform", "normal", "gamma"):
        drawn = getattr(mx.np.random, name)(1.0, 2.0, (2,), "float64", mx.cpu(), None)
        assert (drawn.shape, drawn.dtype, drawn.device) == ((2,), "float64", mx.cpu())
    assert mx.np.random.randint(0, 5, (3,), None, mx.cpu(), None).shape == (3,)


@pytest.mark.parametrize(
    ("name", "args"), [("sum", (1, None, True)), ("max", (0, True)), ("min", (1, True))]
)
def test_mxnet1_has_keepdims_where_numpy_has_out(name, args):
    want = getattr(onp, name)(X, axis=args[0], keepdims=True)
    with mx.config.scope(compat_version="1.9"):
        got = getattr(mx.np, name)(mx.np.array(X), *args)
    assert (got.asnumpy() == want).all()
    with pytest.raises(TypeError, match="out"):
        getattr(mx.np, name)(mx.np.array(X), *args)


def test_signatures_show_the_order():
    assert list(inspect.signature(mx.np.sum).parameters)[:5] == [
        "a",
        "axis",
        "dtype",
        "out",
        "keepdims",
    ]
    assert list(inspect.signature(mx.nd.Pooling).parameters)[1:4] == [
        "kernel",
        "pool_type",
        "global_pool",
    ]
    assert list(inspect.signature(mx.npx.pooling).parameters)[1:4] == ["kernel", "stride", "pad"]
    assert list(inspect.signature(mx.sym.np.average).parameters)[:3] == ["a", "axis", "weights"]
