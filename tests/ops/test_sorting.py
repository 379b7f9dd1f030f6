"""Orders of equal numbers, of both zeros, of infinities and of what is no number."""

import numpy as np
import pytest

import mxjax as mx


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_equal_numbers_keep_their_order(dtype):
    x = np.random.RandomState(0).randint(0, 5, (3, 200)).astype(dtype)
    if dtype.startswith("float"):
        x[0, :6] = [np.nan, np.inf, -np.inf, -0.0, 0.0, np.nan]
        x[1, 3] = -np.nan
    for axis in (0, 1):
        found = mx.np.argsort(mx.np.array(x, dtype=dtype), axis=axis).asnumpy()
        np.testing.assert_array_equal(found, np.argsort(x, axis, kind="stable"))
