"""The dtypes and views of arrays of `mx.np` that MXNet 1.9 makes otherwise (recorded of 1.9.1 and 2.0.0b1)."""

import operator

import numpy as np
import pytest

import mxjax as mx


@pytest.mark.parametrize("version, kept", [("1.9", True), ("2.0", False)])
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"]
)
def test_array_of_numpys_array(version, kept, dtype):
    with mx.config.scope(compat_version=version):
        made = mx.np.array(np.ones(2, dtype))
        assert made.dtype == (dtype if kept else "float32")
        assert mx.np.ones_like(made).dtype == made.dtype
        assert mx.nd.array(np.ones(2, dtype)).dtype == np.float32
        for given in ([1, 2], [1.5], [True], [np.ones(2), np.ones(2)], 3):
            assert mx.np.array(given).dtype == "float32"
        assert mx.np.array(np.ones(2), dtype="int32").dtype == "int32"


@pytest.mark.parametrize("version, of_integers", [("1.9", "float32"), ("2.0", "int64")])
def test_full(version, of_integers):
    with mx.config.scope(compat_version=version):
        found = [mx.np.full((1,), number).dtype for number in (3, 3.5, True)]
        assert found == [of_integers, "float32", "bool"]
        assert mx.np.full((1,), 3, dtype="int8").dtype == "int8"


@pytest.mark.parametrize("version, views", [("1.9", True), ("2.0", False)])
@pytest.mark.parametrize(
    "n, key", [(4, np.s_[2:1:-1]), (7, np.s_[:1:3]), (1, np.s_[::-1]), (3, np.s_[-1::-3])]
)
def test_a_slice_with_a_step_that_takes_one_element(version, views, n, key):
    with mx.config.scope(compat_version=version):
        x = mx.np.arange(n)
        part = x[key]
        part[:] = 9
        want = np.arange(n)
        want[key] = 9 if views else want[key]
        assert x.asnumpy().tolist() == want.tolist()
        whole = x[key,]  # a tuple reads a view in both
        whole[:] = 8
        assert x[key].asnumpy().tolist() == [8]


IN_PLACE = {
    "iadd": [2, 3, 4],
    "isub": [0, 1, 2],
    "imul": [1, 2, 3],
    "imod": [0, 0, 0],
    "ipow": [1, 2, 3],
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_operators_in_place_take_a_numbers_whole_part(dtype):
    with mx.config.scope(compat_version="1.9"):
        for name, expected in IN_PLACE.items():
            for number in (1.9, np.float32(1.5)):
                x = mx.np.array([1, 2, 3], dtype=dtype)
                x = getattr(operator, name)(x, number)
                assert x.asnumpy().tolist() == expected and x.dtype == dtype
        with pytest.raises(TypeError, match="Provided"):
            x /= 1.5
    with pytest.raises(TypeError, match="Provided"):
        x += 1.5
