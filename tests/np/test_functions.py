"""Functions of mx.np that are more than a row, against NumPy's."""

import itertools

import numpy as onp
import pytest

import mxjax as mx
from mxjax import np, npx

GRID = onp.arange(12, dtype="float32").reshape(3, 4)


@pytest.mark.parametrize(
    ("obj", "values", "axis"),
    [
        (1, 5.0, None),
        ([1, 3], [5.0, 6.0], None),
        (1, [1.0, 2.0, 3.0, 4.0], 0),
        ([0, 2], 5.0, 1),
        (slice(0, 3, 2), 7.0, 0),
        (-1, onp.ones((2, 4)), 0),
        (1, [[1.0], [2.0], [3.0]], 1),
        ([1], [[1.0], [2.0], [3.0]], 1),
        (onp.array([True, False, True]), 1.0, 0),
    ],
)
def test_insert(obj, values, axis):
    want = onp.insert(GRID, obj, values, axis)
    got = np.insert(
        np.array(GRID), obj, values if isinstance(values, float) else np.array(values), axis
    )
    assert got.dtype == "float32" and got.asnumpy().tolist() == want.tolist()


def test_gradients_flow_through_insert_and_delete():
    x, v = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    for a in (x, v):
        a.attach_grad()
    with mx.autograd.record():
        y = (np.delete(np.insert(x, 1, v), 3) * np.array([1.0, 2.0, 3.0, 4.0])).sum()
    y.backward()
    assert x.grad.tolist() == [1, 0, 4] and v.grad.tolist() == [2, 3]


def test_functions_of_the_host_refuse_to_lose_a_gradient():
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        with pytest.raises(ValueError, match="no gradient"):
            np.apply_along_axis(lambda v: v * 2, 0, x)
        with pytest.raises(ValueError, match="no gradient"):
            np.polyfit(x, [x, x], 1)
        assert np.union1d(x.detach(), x.detach()).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_what_is_left_to_numpy_has_its_dtypes(dtype):
    x, y = np.array([1, 2, 4], dtype=dtype), np.array([1.0, 3.0, 2.0])
    for made in (np.polyfit(x, y, 1), np.polyint(x), np.histogram2d(x, y, 2)[0]):
        assert made.dtype == "float64"  # so in MXNet 2.0.0b1
    assert np.trim_zeros(x).dtype == dtype and np.polyadd(x, x).dtype == dtype


def test_the_module_of_what_is_left_to_numpy():
    fallback = np.fallback
    assert fallback.allclose(np.ones(2), np.ones(2)) and fallback.trapz is np.trapz
    with pytest.raises(AttributeError, match="nanmean"):  # which MXNet has not either
        fallback.nanmean  # noqa: B018
    gone = {  # of the 87 names of MXNet 2.0.0b1: NumPy's own, and those that numpy-financial took over
        "__version__", "_NoValue", "mirr", "npv", "pmt", "ppmt", "pv", "rate",
    }  # fmt: skip
    assert len(set(fallback.__all__)) == 87 - len(gone)
    assert all(getattr(fallback, n) is getattr(np, n) for n in fallback.__all__)
    assert np.fallback_linalg.__all__ == ["cond", "matrix_power", "multi_dot"]
    assert np.fallback_linalg.multi_dot is np.linalg.multi_dot


def test_unravel_index_of_a_number():
    assert np.unravel_index(11, (3, 4)) == (2, 3)
    with pytest.raises(ValueError, match="out of bounds"):
        np.unravel_index(13, (3, 4))


def test_64_bit_defaults_reach_integers_only():
    whole, single = np.array([1, 2], dtype="int32"), np.array([1, 2], dtype="float32")
    npx.set_np(dtype=True)
    try:
        for made in (
            whole / 2,
            2 / whole,
            whole / whole,
            np.true_divide(whole, 2.0),
            whole.mean(),
            single.mean(),
        ):
            assert made.dtype == "float64"
        for made in (
            single / 2,
            whole / single,
            np.true_divide(single, whole),
            np.mean(single, dtype="float32"),
        ):
            assert made.dtype == "float32"
    finally:
        npx.set_np()
    assert (whole / 2).dtype == whole.mean().dtype == "float32"


def test_numbers_that_a_dtype_cannot_hold_wrap():
    assert np.array([1621, -1], dtype="uint8").tolist() == [1621 % 256, 255]


def test_masks_without_axes():
    x = np.array(GRID)
    true, false = np.array(True, dtype="bool"), np.array(False, dtype="bool")
    assert x[true].shape == (1, 3, 4) and x[false].shape == (0, 3, 4)
    x[false] = 7
    assert (x.asnumpy() == GRID).all()
    x[true] = 7
    assert (x.asnumpy() == 7).all()


@pytest.mark.parametrize(("shape", "start"), [((3, 4), 0), ((2, 3, 4), 1), ((2, 2, 3), 2)])
def test_assignment_by_a_mask_from_an_axis_on(shape, start):
    from mxjax.np import _internal

    random = onp.random.RandomState(3)
    mask = random.rand(3) > 0.4
    many = (*shape[:start], int(mask.sum()), *shape[start + 1 :])
    for value in (2.5, onp.full((1,), 4.0), random.rand(*many)):
        want = random.rand(*shape)
        x = np.array(want, dtype="float64")
        want[(slice(None),) * start + (mask,)] = value
        m = np.array(mask, dtype="bool")
        if isinstance(value, float):
            _internal.boolean_mask_assign_scalar(x, m, value, start_axis=start, out=x)
        else:
            _internal.boolean_mask_assign_tensor(
                x, m, np.array(value, dtype="float64"), start_axis=start, out=x
            )
        assert onp.array_equal(x.asnumpy(), want)


@pytest.mark.parametrize("version", [None, "2021.12", "2020.09", "2021.24"])
def test_array_namespace(version):
    x = np.ones(2)
    if version in (None, "2021.12"):
        assert x.__array_namespace__(version) is np
    else:
        with pytest.raises(ValueError, match="Unrecognized array API version"):
            x.__array_namespace__(version)


def test_moveaxis_refuses_what_is_no_permutation():
    for f in (np.moveaxis, mx.nd.moveaxis):
        x = (np if f is np.moveaxis else mx.nd).ones((1, 2, 3))
        for source, destination in (
            ([0, 0], [0, 1]),
            ([0, 1], [1, 1]),
            (0, [0, 1]),
            (3, 0),
            (0, 5),
        ):
            with pytest.raises(ValueError, match="moveaxis"):
                f(x, source, destination)
        assert f(x, [0, 1], [2, 0]).shape == (2, 3, 1)


@pytest.mark.parametrize("shape", [(6, 6), (7, 3), (3, 7), (3, 3, 3)])
def test_fill_diagonal(shape):
    for value in (2, [-1, 5]):
        for wrap in (False, True):
            want, x = onp.ones(shape, "float32"), np.ones(shape)
            onp.fill_diagonal(want, value, wrap)
            np.fill_diagonal(x, value, wrap)
            assert onp.array_equal(x.asnumpy(), want)


def test_triangles_are_indices():
    x = np.array(GRID)
    places = np.tril_indices(3, m=4)
    assert type(places) is tuple and x[places].tolist() == GRID[onp.tril_indices(3, m=4)].tolist()


def test_reshape_from_the_right_splits_what_its_code_follows():
    assert npx.reshape(np.ones((8, 5, 4, 6)), (-4, -1, 3, -6), reverse=True).shape == (
        8,
        5,
        4,
        2,
        3,
    )


def test_several_results_are_a_tuple():
    square = np.array([[2.0, 0.5], [0.5, 1.0]])
    makers = (np.linalg.svd, np.linalg.slogdet, np.modf, np.unique_all)
    for made in (*[f(square) for f in makers], np.divmod(square, 2)):
        assert isinstance(made, tuple)
    assert np.unique_all(square).counts.tolist() == [2, 1, 1]


def test_random_numbers_of_16_bits_have_all_their_bits():
    for draw in (np.random.uniform, np.random.normal):
        made = draw(size=20_000, dtype="float16")
        assert len(onp.unique(made.asnumpy())) > 3000


def test_distinct_integers_by_their_logarithms():
    found, tries = mx.nd._internal._sample_unique_zipfian(50, shape=(80, 10))
    found = found.asnumpy()
    assert (
        all(len(set(row)) == 10 for row in found.tolist()) and found.min() == 0 and found.max() < 50
    )
    assert (tries.asnumpy() >= 10).all()
    first = (
        onp.bincount(found[:, 0], minlength=50) / 80
    )  # the first of a row is drawn by the probabilities alone
    want = onp.log1p(1 / onp.arange(1.0, 51)) / onp.log(51)
    assert abs(first - want).max() < 5 * (0.25 / 80) ** 0.5


def test_how_many_draws_distinct_integers_take():
    rows, p = 4000, onp.log1p(1 / onp.arange(1.0, 7)) / onp.log(7)
    found, tries = mx.nd._internal._sample_unique_zipfian(6, shape=(rows, 3))
    found, tries = found.asnumpy(), tries.asnumpy()
    at_once = sum(p[i] * p[j] * p[k] for i, j, k in itertools.permutations(range(6), 3))
    # The third is new with the probability of what is left, however many draws it takes.
    third = sum(
        p[i] * p[j] / (1 - p[i]) * p / (1 - p[i] - p[j]) * ~onp.isin(onp.arange(6), (i, j))
        for i, j in itertools.permutations(range(6), 2)
    )
    assert tries.min() == 3
    assert abs((tries == 3).mean() - at_once) < 5 * (0.25 / rows) ** 0.5
    assert (
        abs(onp.bincount(found[:, 2], minlength=6) / rows - third).max() < 5 * (0.25 / rows) ** 0.5
    )
    # All that there are, of which the last is rare: further draws go on where the first ones ended.
    everything, tries = mx.nd._internal._sample_unique_zipfian(200, shape=(2, 200))
    assert onp.array_equal(onp.sort(everything.asnumpy()), onp.tile(onp.arange(200), (2, 1)))
    assert (tries.asnumpy() > 416).all()


def test_result_type():
    assert np.result_type(np.int16, np.float16) == "float16"  # NumPy's is float32
    assert np.result_type(np.ones(2, dtype="int64"), np.int8, np.float32) == "float32"
    assert (
        np.result_type(np.bool, np.int8) == "int8" and np.result_type(np.int8, np.uint32) == "int64"
    )
    with pytest.raises(TypeError, match="type promotion"):
        np.result_type(np.uint64, np.int8)
    with pytest.raises(
        mx.MXNetError, match="type promotion"
    ):  # as the operators say, of both orders
        np.add(np.ones(2, dtype="int8"), np.ones(2, dtype="uint64"))
    with pytest.raises(ValueError, match="ndarrays or dtypes"):
        np.result_type("int8")


def test_out_has_the_dtype_of_the_result():
    x, out = np.array([1.0, onp.nan]), np.zeros(2, dtype="bool")
    assert np.isnan(x, out) is out and out.tolist() == [
        False,
        True,
    ]  # the second argument of ufuncs
    for f, given in (
        (np.isnan, np.zeros(2)),
        (np.exp, np.zeros(2, dtype="float64")),
        (np.less, np.zeros(2)),
    ):
        with pytest.raises(TypeError, match="Type inconsistent"):
            f(*[x] * (1 + (f is np.less)), out=given)


def test_ranges_of_integers_count_in_integers():
    made = mx.nd.arange(1.3, 9, 1.3, dtype="int32")
    assert made.asnumpy().tolist() == onp.arange(1.3, 9, 1.3, dtype="int32").tolist()


def test_the_largest_element_of_an_eigenvector_is_positive():
    a = onp.random.RandomState(3).normal(size=(5, 4, 4))
    a = a + a.swapaxes(1, 2)
    _, vectors = np.linalg.eigh(np.array(a, dtype="float64"))
    rows, values = mx.nd.linalg.syevd(mx.nd.array(a, dtype="float64"))
    v, u = vectors.asnumpy(), rows.asnumpy()
    assert (onp.take_along_axis(v, abs(v).argmax(1)[:, None], 1) > 0).all() and onp.allclose(
        u.swapaxes(1, 2), v
    )
    assert onp.allclose(u.swapaxes(1, 2) * values.asnumpy()[:, None] @ u, a)


def test_ctc_looks_at_nothing_beyond_the_lengths():
    x = onp.random.RandomState(0).normal(size=(6, 2, 5)).astype("float32")
    y, grads = [], []
    for beyond in (0.0, onp.nan):
        x[4:] = beyond
        data = np.array(x)
        data.attach_grad()
        with mx.autograd.record():
            loss = npx.ctc_loss(
                data, np.array([[1, 2], [3, 0]]), np.array([4, 4]), use_data_lengths=True
            )
        loss.backward()
        y.append(loss.tolist())
        grads.append(data.grad.asnumpy())
    assert y[0] == y[1] and (grads[0] == grads[1]).all() and not grads[1][4:].any()


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.nd.diag(mx.nd.ones((2, 3)), k=4),
        lambda: mx.nd.depth_to_space(mx.nd.ones((1, 3, 2, 2)), 2),
        lambda: mx.nd.depth_to_space(mx.nd.ones((1, 4, 2, 2)), 0),
        lambda: mx.nd.space_to_depth(mx.nd.ones((1, 4, 3, 2)), 2),
        lambda: mx.nd.tile(mx.nd.ones((2, 2)), (1, -1)),
    ],
)
def test_refused(call):
    with pytest.raises(mx.MXNetError):
        call()


def test_old_reshape_infers_zeros():
    assert mx.nd.Reshape(mx.nd.ones((2, 3, 5, 5)), target_shape=(2, 0)).shape == (2, 75)


@pytest.mark.parametrize(
    "name", ["stack", "concatenate", "vstack", "hstack", "dstack", "column_stack"]
)
def test_one_array_is_a_sequence_of_its_parts(name):
    x = onp.arange(24.0, dtype="float32").reshape(2, 3, 4)
    x = x[0] if name == "column_stack" else x
    assert onp.array_equal(getattr(np, name)(np.array(x)).asnumpy(), getattr(onp, name)(x))


def test_edges_of_numpy_functions():
    assert np.hypot(np.array([onp.inf, 3]), np.array([onp.nan, 4])).tolist() == [onp.inf, 5]
    assert np.partition(np.array([3, 1, 2, 0]), (1, 2)).tolist() == [0, 1, 2, 3]
    assert np.argpartition(np.array([]), 0).shape == (0,)
    assert type(np.meshgrid(np.ones(3))) is list and np.meshgrid(np.ones(3))[0].shape == (3,)
    assert np.insert(np.ones((3, 2)), slice(0, 1), np.zeros((2, 2)), axis=0).shape == (5, 2)
    stack = onp.stack([onp.eye(3) * k for k in (1, 2)])
    assert np.linalg.solve(np.array(stack), np.ones((2, 3))).tolist() == [[1] * 3, [0.5] * 3]
    assert np.linalg.lstsq(np.array(onp.eye(3, 2)), np.ones(3), rcond=150.0)[2].item() == 2
    masks = np.array([[True, False, False], [False, True, False]], dtype="bool")
    assert np.piecewise(np.array([0.0, 1.0, 2.0]), masks, [5, 6]).tolist() == [5, 6, 0]


def test_what_becomes_of_an_array_of_ones_alone():
    assert (
        mx.nd.ones((1, 1, 1)).squeeze(inplace=True).shape
        == (1,)
        == mx.nd.ones((1, 1, 1)).squeeze().shape
    )
    assert mx.nd.reshape(mx.nd.ones((1, 1)), shape=()).shape == ()


def test_normed_is_an_older_word_for_density():
    x = onp.array([1.0, 2, 2, 5])
    want = onp.histogram(x, 3, density=True)[0]
    for made in (np.histogram(np.array(x), 3, normed=True), np.histogram(np.array(x), 3, None, True),
                 np.histogram(np.array(x), 3, density=True, normed=None)):  # fmt: skip
        assert made[0].tolist() == pytest.approx(want, rel=1e-6)
    assert np.histogram(np.array(x), 3, normed=False)[0].tolist() == [3, 0, 1]
    both = np.array(onp.stack([x, x], 1))
    assert np.histogram2d(both[:, 0], both[:, 1], 2, normed=True)[0].tolist() == [
        [0.1875, 0],
        [0, 0.0625],
    ]
    assert np.histogramdd(both, 2, normed=True)[0].tolist() == [[0.1875, 0], [0, 0.0625]]
    with pytest.raises(TypeError, match="not both"):
        np.histogram2d(both[:, 0], both[:, 1], 2, normed=False, density=True)


@pytest.mark.parametrize(("word", "order"), [("inf", onp.inf), ("-inf", -onp.inf)])
def test_infinite_norms_of_matrices_are_spelled_as_words(word, order):
    assert np.linalg.matrix_norm(np.array(GRID), ord=word, axis=(1, 0)).item() == onp.linalg.norm(
        GRID, order, (1, 0)
    )


def test_norms_of_many_matrices_without_an_axis():
    """MXNet's, in both generations; NumPy refuses them, and "fro" of vectors."""
    x = onp.random.RandomState(0).randn(2, 3, 4).astype("float32")
    norm = np.linalg.norm
    for order in (1, -1, 2, -2, onp.inf, -onp.inf, "fro", "nuc"):
        expected = onp.linalg.norm(x, order, (1, 2))
        onp.testing.assert_allclose(norm(np.array(x), ord=order).asnumpy(), expected, rtol=1e-5)
    assert norm(np.array(x), ord=1, keepdims=True).shape == (2, 1, 1)
    assert norm(np.array(x), ord="inf").item() == abs(x).max()
    assert norm(np.array([3.0, 4.0]), ord="fro").item() == 5
    onp.testing.assert_allclose(
        norm(np.array(x), ord="fro", axis=-1).asnumpy(), onp.linalg.norm(x, axis=-1), rtol=1e-6
    )


@pytest.mark.parametrize("axis", [None, 1, (1,)])
def test_matrix_norms_want_two_axes(axis):
    with pytest.raises(ValueError, match="two axes"):
        np.linalg.matrix_norm(np.array(GRID), "nuc", axis)


def test_options_of_ufuncs_are_refused_by_those_that_are_none_inside():
    x, n = np.array([1.5, 2.0]), np.array([1, 2], dtype="int32")
    assert np.ldexp(x, n, where=True).tolist() == [3.0, 8.0]
    for options in ({"where": False}, {"casting": "safe"}, {"dtype": "int8"}):
        with pytest.raises(NotImplementedError):
            np.ldexp(x, n, **options)
    with pytest.raises(TypeError):
        np.ldexp(x, n, casting="wild")


@pytest.mark.parametrize("given", ["float32", "float64"])
def test_sums_into_narrower_floats_are_rounded_once(given):
    x = onp.random.default_rng(0).uniform(-1, 1, (6, 50)).astype(given)
    want = x.astype("float64").sum(1).astype("float16")
    assert np.array(x).sum(axis=1, dtype="float16").tolist() == want.tolist()


@pytest.mark.parametrize(
    ("axis", "shape"), [((0, 2), (2, 3, 4)), (1, (2, 3, 4)), (None, (2, 3, 4)), (1, (3,))]
)
def test_the_weights_that_an_average_returns(axis, shape):
    rng = onp.random.default_rng(1)
    x, w = rng.uniform(size=(2, 3, 4)), rng.uniform(size=shape)
    want, total = onp.average(x, axis, w, returned=True)
    got, weights = np.average(
        np.array(x, dtype="float64"), axis, np.array(w, dtype="float64"), returned=True
    )
    onp.testing.assert_allclose(got.asnumpy(), want)
    onp.testing.assert_allclose(onp.broadcast_to(weights.asnumpy(), total.shape), total)
    assert weights.shape == (total.shape if shape == x.shape else ())  # as in MXNet


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_along_an_axis_of_an_array_without_elements(name):
    none = onp.zeros((5, 0, 3), "float32")
    for axis in (0, -1):
        got = getattr(np, name)(np.array(none), axis=axis, keepdims=True)
        assert (
            got.dtype == "int64"
            and got.shape == getattr(onp, name)(none, axis, keepdims=True).shape
        )
        assert got.asnumpy().size == 0
    for axis in (1, None):
        with pytest.raises(mx.MXNetError, match="empty sequence"):
            getattr(np, name)(np.array(none), axis=axis)


def test_interpolation_beside_infinite_points_is_numpys():
    given = (
        [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, onp.nan],
        [1.0, 2.0, 3.0, 4.0],
        [1.0, 2.0, onp.inf, 4.0],
    )
    got = np.interp(*[np.array(v, dtype="float64") for v in given])
    onp.testing.assert_array_equal(got.asnumpy(), onp.interp(*given))


@pytest.mark.parametrize("values", [[2.0, 1.0, 2.0], []])
def test_what_the_host_computes_of_bfloat16_is_an_array_of_ours(values):
    made = np.unique(np.array(values, dtype="bfloat16"))
    assert type(made) is np.ndarray and made.asnumpy().astype("float32").tolist() == sorted(
        set(values)
    )


@pytest.mark.parametrize("tier", ["auto", "compile", "interpret"])
def test_sums_of_floats_into_integers_are_cut_off_at_the_end(tier):
    """As MXNet has them; NumPy cuts each element off."""
    x = np.array([[0.6, 0.7, 1.9], [2.6, -0.7, -1.9]])
    with mx.config.scope({"engine.cold": tier}):
        for dtype in ("int8", "uint8", "int32", "int64"):
            found = {
                name: getattr(np, name)(x, axis=1, dtype=dtype) for name in ("sum", "mean", "prod")
            }
            assert all(v.dtype == dtype for v in found.values())
            assert {k: v.tolist() for k, v in found.items()} == {
                "sum": [3, 0],
                "mean": [1, 0],
                "prod": [0, 3],
            }
        assert np.cumsum(x, axis=1, dtype="uint8").tolist() == [[0, 0, 1], [2, 2, 1]]
        assert np.array([200, 100], dtype="uint8").sum(dtype="uint8").item() == 44


@pytest.mark.parametrize("name", ["nanstd", "nanvar"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_spreads_leave_out_what_where_does(name, axis):
    a = onp.array([[1, 2, onp.nan], [4, 9, 6], [0, 5, 7]], "float32")
    where = onp.array([[True], [False], [True]])
    got = getattr(np, name)(np.array(a), axis=axis, where=np.array(where))
    onp.testing.assert_allclose(
        got.asnumpy(), getattr(onp, name)(a, axis=axis, where=where), rtol=1e-6
    )


@pytest.mark.parametrize("name", ["nansum", "nanprod"])
def test_sums_without_nans_take_each_number_in_the_dtype(name):
    a = onp.array([[1.75, -2.5, onp.nan], [1.5, 3.25, 2.75]], "float32")
    got = getattr(np, name)(np.array(a), axis=0, dtype="int32")
    want = getattr(onp, name)(onp.nan_to_num(a, nan=name == "nanprod"), axis=0, dtype="int32")
    assert got.dtype == "int32" and got.asnumpy().tolist() == want.tolist()


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "std", "any", "all"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_scalar_has_the_axes_0_and_minus_1(name, axis):
    assert getattr(np, name)(np.array(2.5), axis=axis) == getattr(onp, name)(2.5)


@pytest.mark.parametrize("tolerance", [0.5, 1.5])
def test_tolerances_by_their_older_names(tolerance):
    a = onp.array([[2, 0, 0], [0, 1, 0]], "float32")
    x = np.array(a)
    want = onp.linalg.pinv(a, rcond=tolerance / 2)
    for given in (tolerance / 2, np.array(tolerance / 2)):
        got = np.linalg.pinv(x, rcond=given)
        onp.testing.assert_allclose(got.asnumpy(), want, atol=1e-6)
    assert np.linalg.matrix_rank(x, tol=tolerance) == onp.linalg.matrix_rank(a, tol=tolerance)


def test_at_least_so_many_axes_of_a_list_as_of_an_array():
    x = np.array([1.0, 2.0])
    assert np.atleast_1d([1, 2]).tolist() == [1, 2]
    assert np.atleast_2d([x, x]).tolist() == [[1, 2], [1, 2]]
    assert np.atleast_3d((1, 2)).shape == (1, 2, 1)
    one, other = np.atleast_1d([1, 2], [3.0])
    assert (one.tolist(), other.tolist(), one.dtype) == ([1, 2], [3], "float32")


@pytest.mark.parametrize("name", ["signbit", "positive", "modf", "spacing", "heaviside", "divmod"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float64"])
def test_functions_that_are_numpys_take_its_options(name, dtype):
    a = onp.array([-1.5, 0.5], "float32")
    args = [a] * (2 if name in ("heaviside", "divmod") else 1)
    ours = getattr(np, name)
    try:
        expected = getattr(onp, name)(*args, dtype=dtype)
    except TypeError:
        with pytest.raises(TypeError):
            ours(*[np.array(x) for x in args], dtype=dtype)
        return
    got = ours(*[np.array(x) for x in args], dtype=dtype, where=True, casting="same_kind")
    for g, e in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)], strict=True):
        assert g.dtype == e.dtype
        onp.testing.assert_array_equal(g.asnumpy(), e)


@pytest.mark.parametrize("name", ["modf", "frexp", "divmod"])
def test_a_mask_is_refused_by_functions_with_two_results(name):
    args = [np.ones(2)] * (2 if name == "divmod" else 1)
    with pytest.raises(NotImplementedError, match="where="):
        getattr(np, name)(*args, where=np.array([True, False]))


def test_whether_a_number_is_among_others():
    x = np.array([2, 5])
    assert np.in1d(3, x).tolist() == [False]
    assert np.in1d(5, x).tolist() == [True]
    assert np.in1d(3, x, invert=True).tolist() == [True]


@pytest.mark.parametrize("name", ["std", "var"])
def test_the_gradient_of_a_spread_is_the_derivative(name):
    x = np.array([[0.3, 0.5, 0.9], [0.2, 0.9, 0.4]])
    x.attach_grad()
    with mx.autograd.record():
        y = getattr(np, name)(x, axis=1)
    y.backward()
    h = x.asnumpy()
    apart = (h - h.mean(1, keepdims=True)) / 3
    expected = 2 * apart if name == "var" else apart / h.std(1, keepdims=True)
    onp.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("codes", "shape"),
    [
        ((-2, -2, -1), (2, 3, 20)),
        ((-4,), (2, 3, 4, 5)),
        (-4, (2, 3, 4, 5)),
        ((-5, -4), (6, 4, 5)),
        ((-6, 1, 2, -4), (1, 2, 3, 4, 5)),
        ((-1, -2), (40, 3)),
        ((6, -1, -2), (6, 5, 4)),
        ((-2, -6, -1, 3, -4), (2, 1, 3, 4, 5)),
    ],
)
def test_reshape_by_codes(codes, shape):
    """Shapes of MXNet 2.0.0b1, whose function and method take the codes of npx.reshape."""
    x = mx.np.arange(120).reshape(2, 3, 4, 5)
    for made in (mx.np.reshape(x, codes), x.reshape(codes), mx.npx.reshape(x, codes)):
        assert made.shape == shape
        assert made.ravel().tolist() == list(range(120))
    with pytest.raises(ValueError, match="Cannot reshape"):
        mx.np.reshape(x, (3, -2, -1))
    assert mx.np.ones((1, 3, 1, 4)).reshape(-3, -2, -3, -2).shape == (3, 4)
