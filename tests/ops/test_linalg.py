"""Matrices: what NumPy says of the dtypes and places of their diagonals."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64"])
def test_diag_keeps_the_dtype(dtype):
    for x in (np.array([1, 0, 1, 1]), np.array([]), np.arange(12).reshape(3, 4)):
        for k in (-5, -1, 0, 2, 4):
            given = x.astype(dtype)
            got, want = mx.np.diag(mx.np.array(given, dtype=dtype), k).asnumpy(), np.diag(given, k)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
