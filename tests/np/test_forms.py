"""Forms of np's functions that MXNet 2.0.0b1 takes beside the usual ones; expected values are NumPy's and MXNet's."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import np

HOLED = onp.array([[1, -2, onp.nan], [4, 5, -6]], "float32")


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin"])
@pytest.mark.parametrize(
    "options",
    [
        {"initial": 2},
        {"axis": 1, "initial": 100.5},
        {"initial": 5, "where": HOLED > 0},
        {"axis": 0, "where": HOLED > 0, "initial": 1, "keepdims": True},
    ],
)
def test_reductions_without_nan_take_a_first_number_and_a_mask(name, options):
    want = getattr(onp, name)(HOLED, **options)
    got = getattr(np, name)(np.array(HOLED), **options)
    assert got.dtype == want.dtype and got.shape == want.shape
    onp.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6)
    masked = {k: np.array(v, dtype=bool) if k == "where" else v for k, v in options.items()}
    onp.testing.assert_allclose(getattr(np, name)(np.array(HOLED), **masked).asnumpy(), want)


def test_reductions_of_nothing_begin_with_the_first_number():
    for name in ("nansum", "nanprod", "nanmax", "nanmin"):
        made = getattr(np, name)(np.zeros((0, 3)), axis=0, initial=4)
        assert made.tolist() == [4, 4, 4]
        assert getattr(np, name)(np.array([5, 7], dtype="int8"), initial=6).dtype == (
            "int8" if name in ("nanmax", "nanmin") else "int64"
        )
    assert np.nanmax(np.array([onp.nan]), initial=3).item() == 3
    assert np.nansum(np.array(HOLED), where=np.array(HOLED > 1)).item() == 9
    with pytest.raises(ValueError, match="needs initial="):
        np.nanmax(np.array(HOLED), where=np.array(HOLED > 0))


@pytest.mark.parametrize("name", ["nanstd", "nanvar", "nanmax", "nanmin", "cumprod", "nancumsum"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_number_has_the_axes_0_and_minus_1(name, axis):
    want = getattr(onp, name)(onp.ones((), "float32"), axis=axis)
    got = getattr(np, name)(np.ones(()), axis=axis)
    assert got.shape == want.shape and got.item() == want


@pytest.mark.parametrize("name", ["conj", "angle", "nan_to_num", "gradient", "signbit", "rot90"])
def test_what_numpy_computes_of_arrays_is_arrays(name):
    """`onp.conj(x)` has no counterpart in mx.np, and gives an array of it all the same, as in MXNet."""
    given = onp.array([[0.5, -1.0], [2.0, 3.0]], "float32")
    want = getattr(onp, name)(given)
    got = getattr(onp, name)(np.array(given))
    for g, w in zip(
        *((r if isinstance(r, (list, tuple)) else [r]) for r in (got, want)), strict=True
    ):
        assert type(g) is np.ndarray and g.dtype == w.dtype
        onp.testing.assert_allclose(g.asnumpy(), w)


def test_named_results_of_numpy_keep_their_names():
    made = onp.unique_counts(np.array([3, 1, 3], dtype="int32"))
    assert [v.tolist() for v in made] == [[1, 3], [1, 2]]
    values, edges = onp.histogram2d(np.array([0.0, 1.0]), np.array([0.0, 1.0]), bins=2)[:2]
    assert type(values) is type(edges) is np.ndarray


def test_a_place_with_new_axes_takes_values_without_them():
    x = np.arange(24).reshape(2, 3, 4)
    want = x.asnumpy()
    x[..., None] = -x
    assert (x.asnumpy() == -want).all()
    x[..., None] = [1, 2, 3, 4]
    assert x[1, 2].tolist() == [1, 2, 3, 4]
    x[0, :, ::-1, None] = [1, 2, 3, 4]
    assert x[0, 1].tolist() == [4, 3, 2, 1]
    x[:, None] = 5 * np.ones((2, 1, 3, 4))  # with them, as in NumPy
    assert (x.asnumpy() == 5).all()
    with pytest.raises(ValueError, match="could not be broadcast"):
        x[..., None] = np.ones(5)


def test_an_empty_array_of_bools_says_so():
    assert repr(np.array([], dtype=bool)) == "array([], dtype=bool)"
    assert repr(np.array([True], dtype=bool)) == "array([ True])"


def test_orders_of_norms_as_words():
    """Without two axes the words are the largest and least magnitude of all, in MXNet; numbers are of matrices."""
    t = onp.random.RandomState(0).randn(2, 4, 3).astype("float32")
    norm = np.linalg.norm
    for got, want in [
        (norm(np.array(t), onp.inf), onp.linalg.norm(t, onp.inf, (1, 2))),
        (norm(np.array(t), -onp.inf, keepdims=True), onp.linalg.norm(t, -onp.inf, (1, 2), True)),
        (norm(np.array(t), "inf"), abs(t).max()),
        (norm(np.array(t[0]), "-inf"), abs(t[0]).min()),
        (norm(np.array(t), "inf", (0, 1, 2), True), abs(t).max(keepdims=True)),
        (norm(np.array(t[0]), "inf", (0, 1)), onp.linalg.norm(t[0], onp.inf)),
        (norm(np.array(t[0]), "inf", 1), abs(t[0]).max(1)),
        (norm(np.array(t[0]), "fro", (0,)), onp.linalg.norm(t[0], axis=0)),
        (norm(np.array(t[0]), "f"), onp.linalg.norm(t[0])),
    ]:
        assert got.shape == want.shape
        onp.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)
    assert norm(np.zeros((0, 3, 3)), onp.inf).shape == (0,)


def test_the_condition_of_zeros_is_infinite():
    assert np.linalg.cond(np.zeros((3, 3))).item() == onp.inf
    assert onp.isnan(np.linalg.cond(np.array([[onp.nan, 1], [1, 1]])).item())


def test_eigenvalues_of_integers_are_floats():
    x = np.array([[2, 1], [1, 3]], dtype="int32")
    values, vectors = np.linalg.eig(x)
    assert values.dtype == vectors.dtype == np.linalg.eigvals(x).dtype == "float64"
    onp.testing.assert_allclose(sorted(values.tolist()), [(5 - 5**0.5) / 2, (5 + 5**0.5) / 2])
    assert np.linalg.eigvals([[2.0, 0.0], [0.0, 2.0]]).dtype == "float32"
    for refused in (np.ones(3), np.ones((2, 3)), np.ones((2, 2), dtype="float16")):
        with pytest.raises(mx.MXNetError, match=r"np\.linalg\.eig"):
            np.linalg.eig(refused)
    with pytest.raises(mx.MXNetError, match="negative"):
        np.bincount(np.array([-1], dtype="int32"))


def test_numbers_in_tuples_are_told_apart_by_their_types():
    """A call that was refused for its floats spoils none with the integers that are equal to them."""
    x = np.arange(6).reshape(2, 3)
    for function in (np.sum, np.max, np.sum):  # and those with integers none with floats
        with pytest.raises(TypeError, match="float"):
            function(x, axis=(0.0, 1.0))
        assert function(x, axis=(0, 1)).item() == function(x).item()
        assert function(x, axis=(0, 1)).item() == function(x).item()


@pytest.mark.parametrize(
    ("mean", "cov", "batch"),
    [
        ((3, 2), (2, 2), (3, 2)),
        ((2,), (4, 2, 2), (4, 2)),
        ((4, 2), (4, 2, 2), (4, 2)),
        ((3, 1, 2), (4, 2, 2), (3, 4, 2)),
    ],
)
def test_shapes_of_normal_vectors(mean, cov, batch):
    """MXNet's: `size` comes before the shape that means and matrices have together."""
    mx.np.random.seed(3)
    means, covs = np.zeros(mean), np.broadcast_to(np.eye(2), cov)
    for size, shape in [(None, ()), ((), ()), (2, (2,)), ((2, 5), (2, 5)), (0, (0,))]:
        draws = np.random.multivariate_normal(means, covs, size=size)
        assert draws.shape == (*shape, *batch)
        flat = draws.asnumpy().reshape(-1)
        assert len(set(flat.tolist())) == flat.size  # each is drawn by itself


@pytest.mark.parametrize(
    "options", [{}, {"left": -10}, {"left": 0.5, "right": 50}, {"period": 6.0}]
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_interpolation(options, dtype):
    """By NumPy alone where nobody asks for a gradient; numbers that change from call to call are operands."""
    xp = onp.array([1, 2, 4, 7], dtype)
    fp = onp.array([3, -1, 2, 5], dtype)
    for x in (2.5, onp.array([0, 1, 3, 9], dtype), onp.zeros((0, 2), dtype), xp.reshape(2, 2)):
        want = onp.interp(x, xp, fp, **options)
        given = x if isinstance(x, float) else np.array(x, dtype=dtype)
        got = np.interp(given, np.array(xp, dtype=dtype), np.array(fp, dtype=dtype), **options)
        assert got.shape == want.shape and got.dtype == "float64"
        onp.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6)


def test_which_draws_have_64_bits_by_default():
    """MXNet 2.0.0b1's: those that take no dtype there, and laplace, stay float32."""
    draws = mx.np.random
    mx.npx.set_np(dtype=True)
    try:
        for name in ("exponential", "laplace", "gumbel", "logistic", "rayleigh"):
            assert getattr(draws, name)(size=2).dtype == "float32"
        for name in ("uniform", "normal", "rand"):
            drawn = draws.rand(2) if name == "rand" else getattr(draws, name)(size=2)
            assert drawn.dtype == "float64"
    finally:
        mx.npx.set_np(dtype=False)


def test_limits_of_dtypes_by_name():
    assert np.iinfo(dtype="int8").max == 127 and np.finfo(dtype="float32").bits == 32
