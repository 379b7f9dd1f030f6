"""Quantiles of places between two numbers: the values of MXNet 2.0.0b1, and of NumPy where it asks NumPy."""

import numpy as np
import pytest

import mxjax as mx

PLACES = [0.0, 0.1, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55, 0.65, 0.75, 0.85, 0.9, 0.95, 0.05, 1.0]
NEAREST = {
    2: [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1],
    3: [0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 2],
    4: [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 0, 3],
    11: [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 9, 10, 1, 10],
}


@pytest.mark.parametrize("count", NEAREST)
@pytest.mark.parametrize("scale", [1, 100])
def test_the_nearest_of_two_that_are_as_near_is_the_upper(count, scale):
    function = mx.np.quantile if scale == 1 else mx.np.percentile
    x = mx.np.array(np.random.RandomState(0).permutation(count).astype("float64"))
    q = mx.np.array(np.array(PLACES) * scale, dtype="float64")
    assert function(x, q, interpolation="nearest").tolist() == NEAREST[count]
    rows = function(mx.np.stack([x, x + 1]), q, axis=1, interpolation="nearest", keepdims=True)
    assert rows.shape == (len(PLACES), 2, 1)
    assert rows[:, 1, 0].tolist() == [n + 1 for n in NEAREST[count]]
    assert np.isnan(function(x * mx.np.array(np.nan), 0.5 * scale, interpolation="nearest").item())


def test_among_nans_the_nearest_is_numpys():
    x = np.array([[0, 1, 2, 3, np.nan], [4, np.nan, 5, np.nan, np.nan], [7, 6, 5, 4, 3]])
    for axis in (None, 0, 1):
        expected = np.nanquantile(x, [0.25, 0.5, 0.9], axis=axis, method="nearest")
        got = mx.np.nanquantile(
            mx.np.array(x), mx.np.array([0.25, 0.5, 0.9]), axis=axis, method="nearest"
        )
        np.testing.assert_array_equal(got.asnumpy(), expected)


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), 0), ((2, 0), 1), ((0, 3), 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_nothing_has_no_median(shape, axis, keepdims):
    want = np.median(np.zeros(shape, "float32"), axis=axis, keepdims=keepdims)
    x = mx.np.zeros(shape)
    np.testing.assert_array_equal(mx.np.median(x, axis=axis, keepdims=keepdims).asnumpy(), want)
    got = mx.np.percentile(x, mx.np.array([10, 50]), axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(got.asnumpy(), np.stack([want, want]))
