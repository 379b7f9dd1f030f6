"""`mx.util`: dtypes of numbers, decorators of functions, functions written with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import util


@pytest.mark.parametrize("number, dtype", [  # answers of MXNet 2.0.0b1
    (1, "int64"), (2**63, "uint64"), (2**64 - 1, "uint64"), (1.5, "float32"), (1e39, "float64"), (0.1, "float32"),
    (float("nan"), "float32"), (float("inf"), "float64"), (16777217.0, "float64"), (3.0, "float32"),
    (np.float16(1), "float16"), (True, "int64"), (1e-50, "float64"),
])  # fmt: skip
def test_the_dtype_of_a_number(number, dtype):
    assert np.dtype(util.dtype_from_number(number)) == dtype


def test_numbers_without_a_dtype():
    with pytest.raises(OverflowError):
        util.dtype_from_number(2**64)
    with pytest.raises(TypeError):
        util.dtype_from_number("1")
    with util.np_default_dtype(True):
        assert util.dtype_from_number(1.5) is np.float64


def test_options_of_ufuncs():
    @util.wrap_np_unary_func
    def double(x, out=None):
        return x * 2

    @util.wrap_np_binary_func
    def add(x1, x2, out=None):
        return x1 + x2

    assert double(2, casting="same_kind", order="K", dtype=None) == 4 and add(1, 2, subok=True) == 3
    with pytest.raises(NotImplementedError, match="casting=safe"):
        double(2, casting="safe")
    with pytest.raises(TypeError, match="not understood"):
        add(1, 2, casting="wild")
    with pytest.raises(TypeError, match="invalid keyword"):
        add(1, 2, axis=0)
    assert util.np_ufunc_legal_option("dtype", "float32") and not util.np_ufunc_legal_option(
        "dtype", "complex64"
    )
    assert not util.np_ufunc_legal_option("subok", 1)


def test_names_of_numpys_arguments():
    def see(*args, **kwargs):
        return kwargs

    assert util.wrap_data_api_statical_func(see)(ddof=1) == {"correction": 1}
    assert util.wrap_data_api_linalg_func(see)(UPLO="U", tol=0.5) == {"upper": True, "rtol": 0.5}
    assert util.wrap_sort_functions(see)(kind="stable") == {"stable": True}
    assert util.wrap_ctx_to_device_func(see)(ctx=mx.cpu()) == {"device": mx.cpu()}
    with pytest.raises(NotImplementedError):
        util.wrap_sort_functions(see)(order="x")


def test_functions_written_with_numpy():
    @util.numpy_fallback
    def halves(x, *, more):
        return [np.sort(x)[: len(x) // 2], {"sum": x + more["y"]}, 3]

    first, rest, three = halves(mx.np.array([3.0, 1.0]), more={"y": mx.np.array([1.0, 1.0])})
    assert type(first) is mx.np.ndarray and first.asnumpy().tolist() == [1] and three == 3
    assert rest["sum"].asnumpy().tolist() == [4, 2]
    with pytest.raises(ValueError, match="return values"):
        util.numpy_fallback(lambda x: None)(mx.np.ones(1))
    with pytest.raises(ValueError, match="inconsistent devices"):
        halves(mx.np.ones(2), more={"y": mx.np.ones(2, device=mx.cpu(1))})


def test_modules_and_architectures():
    @util.set_module("elsewhere")
    def f():
        pass

    assert f.__module__ == "elsewhere"
    with pytest.raises(ValueError, match="gpu"):
        util.get_cuda_compute_capability(mx.cpu())
    if not mx.num_gpus():
        assert util.get_max_supported_compute_capability() == 0
    assert util.set_flush_denorms(True) is True
