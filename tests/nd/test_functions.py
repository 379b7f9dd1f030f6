"""Functions of mx.nd: shapes and errors as MXNet 2.0.0b1 has them."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import nd


def test_allclose_has_no_axis():
    x = nd.array([1.0, 2.0])
    same = nd.contrib.allclose(x, x + 1e-7)
    assert same.shape == () and same.asscalar() == 1
    assert nd.contrib.allclose(x, x + 1).asscalar() == 0


def test_the_convention_same_pads_itself():
    x = nd.ones((1, 1, 5))
    pool = {"kernel": 2, "stride": 2, "pool_type": "max", "pooling_convention": "same"}
    assert nd.Pooling(x, **pool).shape == (1, 1, 3)
    with pytest.raises(mx.MXNetError, match="pad must be 0"):
        nd.Pooling(x, pad=1, **pool)


def test_tile_to_nothing_is_no_shape_of_mxnet_1():
    x = mx.nd.arange(16).reshape((4, 4))
    with mx.util.np_array(False), mx.util.np_shape(False):
        for reps in ((1, 0, 3), (0,)):
            with pytest.raises(mx.base.MXNetError, match="inferring shapes failed"):
                mx.nd.tile(x, reps)
        assert mx.nd.tile(x, ()).shape == (4, 4)
    with mx.util.np_shape(True):
        assert mx.nd.tile(x, (1, 0, 3)).shape == (1, 0, 12)


def test_statistics_of_sync_batch_norm_are_mean_and_variance():
    x = mx.nd.array([[0.0, 2.0], [2.0, 6.0]])
    weights = mx.nd.ones(2), mx.nd.zeros(2), mx.nd.zeros(2), mx.nd.ones(2)
    with mx.autograd.record():
        _, mean, var = mx.nd.contrib.SyncBatchNorm(
            x, *weights, output_mean_var=True, eps=1e-5, key="sync"
        )
    assert mean.asnumpy().tolist() == [1, 4]
    assert var.asnumpy().tolist() == pytest.approx([1, 4], rel=1e-4)


def test_a_gradient_that_nothing_comes_of_may_have_any_shape():
    x = mx.nd.array([[3.0, 1.0, 2.0], [4.0, 5.0, 6.0]])
    x.attach_grad()
    for position in (
        lambda: mx.nd.argmax(x, axis=1, keepdims=True),
        lambda: mx.nd.topk(x, k=2),
        lambda: mx.nd.sign(x),
    ):
        with mx.autograd.record():
            y = position()
        y.backward(mx.nd.ones((2, 5)))
        assert not x.grad.asnumpy().any()
    with mx.autograd.record():
        y = x * 2
    with pytest.raises(mx.MXNetError, match="the head has"):
        y.backward(mx.nd.ones((2, 5)))


def test_results_may_follow_all_other_arguments():
    """MXNet's generated functions end with ``out`` and a name."""
    x, out = mx.nd.array([[1.0, 2.0]]), mx.nd.zeros((1, 2))
    assert mx.nd.broadcast_sub(x, x + 3, out, "difference") is out and out.asnumpy().tolist() == [
        [-3, -3]
    ]
    assert mx.nd.clip(x, 0, 1, out) is out and out.asnumpy().tolist() == [[1, 1]]
    assert mx.nd.sgd_update(x, x, 0.5, 0.0, 1.0, -1.0, True, x) is x and x.asnumpy().tolist() == [
        [0.5, 1]
    ]
    with pytest.raises(TypeError, match="too many"):
        mx.nd.clip(x, 0, 1, 2)


def test_histograms_of_a_number_of_bins_are_float32():
    x = mx.nd.array([1, 2, 3], dtype="int32")
    assert [h.asnumpy().dtype.name for h in mx.nd.histogram(x, 2)] == ["float32", "float32"]
    assert [h.asnumpy().dtype.name for h in mx.nd.histogram(x, 2, (0, 4))] == ["int64", "int32"]


UPDATES = {  # of MXNet 2.0.0b1
    "adam_update": (2, {}, [1.66500, 0.65820, 0.28350]), "rmsprop_update": (1, {}, [1.72740, 0.65470]),
    "ftml_update": (3, {"t": 2}, [1.77410, 76.2157, 0.28350, -135.21381]),
    "signum_update": (1, {"momentum": 0.9, "wd_lh": 0.1}, [1.87070, 0.55910]),
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
def test_updates_clip_the_gradient_without_its_decay(name):
    states, more, want = UPDATES[name]
    rng = onp.random.RandomState(3)
    weight, grad = (mx.nd.array(rng.randn(2, 3).astype("float32")) for _ in range(2))
    given = [mx.nd.array(rng.rand(2, 3).astype("float32")) for _ in range(states)]
    clip = "clip_grad" if name == "ftml_update" else "clip_gradient"
    options = {"lr": 0.1, "wd": 0.3, "rescale_grad": 0.5, clip: 0.4, **more}
    getattr(mx.nd, name)(weight, grad, *given, out=weight, **options)
    onp.testing.assert_allclose([a.asnumpy()[0, 0] for a in (weight, *given)], want, rtol=1e-4)


def test_interp_of_a_number():
    xp = mx.np.arange(4, dtype="int32")
    assert mx.np.interp(1, xp, xp * 2).item() == 2
    assert mx.np.interp(1.5, xp, xp * 2).item() == 3


def test_a_window_takes_as_many_numbers_as_there_are_axes():
    """MXNet reads the first of them."""
    x = mx.nd.arange(10).reshape((1, 1, 10))
    for pad in ((0, 0, 0), 0):
        got = mx.nd.Pooling(x, kernel=2, stride=(2, 9), pad=pad, pool_type="max")
        assert got.asnumpy().ravel().tolist() == [1, 3, 5, 7, 9]


def test_proposals_of_a_batch_are_those_of_its_images():
    """To the last bit, whichever program computed them: corners are small differences of large numbers."""
    rng = onp.random.default_rng(5)
    scores, deltas = rng.random((2, 18, 12, 12)), rng.random((2, 36, 12, 12))
    given = [mx.nd.array(x) for x in (scores, deltas, [[180, 190, 0.8], [170, 150, 0.9]])]
    how = {
        "rpn_pre_nms_top_n": 300,
        "rpn_post_nms_top_n": 100,
        "scales": (8, 16, 32),
        "output_score": True,
    }
    with mx.config.scope(engine_cold="compile"):
        together = [x.asnumpy() for x in mx.nd.contrib.MultiProposal(*given, **how)]
    with mx.config.scope(engine_cold="interpret"):
        each = [mx.nd.contrib.Proposal(*[x[k : k + 1] for x in given], **how) for k in (0, 1)]
    for k, made in enumerate(each):
        rows = slice(100 * k, 100 * k + 100)
        onp.testing.assert_array_equal(made[0].asnumpy()[:, 1:], together[0][rows, 1:])
        onp.testing.assert_array_equal(made[1].asnumpy(), together[1][rows])


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("_maximum_scalar", [1, 2, 3]), ("_minimum_scalar", [1, 1, 1]), ("_hypot_scalar", [1, 2, 3])],
)
def test_a_number_beside_integers_is_cut_off_under_the_names_of_the_registry(name, expected, dtype):
    """As MXNet 1.9.1 and 2.0.0b1 do."""
    x = mx.nd.array([1, 2, 3], dtype=dtype)
    out = getattr(mx.nd._internal, name)(x, scalar=1.5)
    assert onp.dtype(out.dtype) == dtype and out.asnumpy().tolist() == expected
    made = getattr(mx.sym._internal, name)(mx.sym.var("x"), scalar=1.5).eval(x=x)[0]
    assert onp.dtype(made.dtype) == dtype and made.asnumpy().tolist() == expected


def test_functions_of_two_numbers_give_numbers():
    for function, expected in (
        ("add", 5),
        ("power", 8),
        ("maximum", 3),
        ("equal", 0),
        ("logical_and", 1),
    ):
        found = getattr(mx.nd, function)(2, 3)
        assert type(found) is int and found == expected
    assert mx.nd.divide(1, 4) == 0.25 and mx.nd.power(2, -1) == 0.5


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32"])
def test_a_bound_that_is_nan_is_none(dtype):
    x = mx.nd.array([-5, 3, 9], dtype=dtype)
    assert mx.nd.clip(x, float("nan"), 5).asnumpy().tolist() == [-5, 3, 5]
    for _ in range(3):  # the number as an operand, too
        assert mx.nd.clip(x, 0, float("nan")).asnumpy().tolist() == [0, 3, 9]


def test_a_storage_type_that_there_is_not():
    with pytest.raises(mx.MXNetError, match="Invalid Input: 'wrong'"):
        mx.nd.cast_storage(mx.nd.ones((2, 2)), stype="wrong")


@pytest.mark.parametrize("name, at", [("boolean_mask", [1, 0, 1]), ("dynamic_reshape", [2, 3])])
def test_functions_of_contrib_write_into_an_array(name, at):
    """As MXNet 1.9.1; `out=` was taken and ignored."""
    rows = mx.nd.array([[1.0, 2], [3, 4], [5, 6]])
    function, at = getattr(mx.nd.contrib, name), mx.nd.array(at)
    want = function(rows, at)
    out = mx.nd.zeros(want.shape)
    assert function(rows, at, out=out) is out
    assert (
        out.asnumpy().tolist()
        == want.asnumpy().tolist()
        != mx.nd.zeros(want.shape).asnumpy().tolist()
    )
    with pytest.raises(TypeError, match="outt"):
        function(rows, at, outt=out)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mx.np.array(x, dtyp="int32"),
        lambda x: mx.np.einsum("ij->i", x, dtyp="int32"),
        lambda x: x.transpose(axis=(1, 0)),
        lambda x: x.as_nd_ndarray().transpose(axis=(1, 0)),
    ],
)
def test_misspelt_keywords_are_refused(call):
    """As in MXNet: they were taken and ignored."""
    with pytest.raises(TypeError, match="dtyp|axis"):
        call(mx.np.ones((2, 3)))
