"""Functions that write into the array they are given, and functions of numbers, as in both MXNets and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx

LARGEST = np.finfo("float32").max


def test_nan_to_num_writes_where_no_copy_is_asked_for():
    x = mx.np.array([[-np.inf, np.nan, np.inf], [1, 2, -np.inf]])
    kept = mx.np.nan_to_num(x, nan=5.0)
    assert np.isnan(x.asnumpy()[0, 1]) and kept.asnumpy()[0].tolist() == [-LARGEST, 5, LARGEST]
    assert mx.np.nan_to_num(x, copy=False, nan=1, posinf=2, neginf=3) is x
    assert x.asnumpy().tolist() == [[3, 1, 2], [1, 2, 3]]
    row = x[1]
    row[:] = np.nan
    mx.np.nan_to_num(row, False)
    assert x.asnumpy().tolist() == [[3, 1, 2], [0, 0, 0]]  # a view writes into what it is of


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("fix", (3.7,), 3.0), ("fix", (-3.7,), -3.0), ("isposinf", (np.inf,), True), ("isneginf", (1,), False),
        ("around", (2.567, 2), 2.57), ("round", (2.5,), 2.0), ("round", (3,), 3), ("nan_to_num", (np.nan,), 0.0),
    ],
)  # fmt: skip
def test_numbers_are_answered_with_numbers(name, args, expected):
    found = getattr(mx.np, name)(*args)
    assert isinstance(found, np.generic) and found == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "stype", "dtype", "place"),
    [
        ((mx.cpu(1), "float16"), {"stype": "row_sparse"}, "row_sparse", "float16", 1),
        ((mx.cpu(),), {"stype": "csr"}, "csr", "float32", 0),
        ((None, "int32"), {}, "default", "int32", 0),
        ((None, None), {}, "default", "float32", 0),
        ((mx.cpu(1), None), {}, "default", "float32", 1),
    ],
)
def test_zeros_of_nd_by_position(args, kwargs, stype, dtype, place):
    made = mx.nd.zeros((1, 2), *args, **kwargs)
    assert (made.stype, np.dtype(made.dtype).name, made.context) == (stype, dtype, mx.cpu(place))
    assert made.asnumpy().tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("name", "ndim"), [("atleast_1d", 1), ("atleast_2d", 2), ("atleast_3d", 3)]
)
def test_numbers_become_arrays_of_axes(name, ndim):
    function = getattr(mx.np, name)
    for number in (1.5, 3):
        made = function(number)
        assert made.dtype == "float32" and made.shape == (1,) * ndim and made.item() == number


def test_where_of_a_number_is_one_of_the_two():
    x, y = mx.np.ones(2), mx.np.zeros(2)
    assert mx.np.where(True, x, y) is x and mx.np.where(0, x, y) is y
    assert mx.np.where(False, 1.0, 2.0) == 2.0 and mx.np.where(np.bool_(True), 1, y) == 1
    student = mx.gluon.probability.StudentT
    assert student(3.0).mean == 0 and student(3.0).variance == 3 and np.isnan(student(1.0).mean)
    many = student(mx.np.array([0.5, 1.5, 3]))
    np.testing.assert_array_equal(many.variance.asnumpy(), [np.nan, np.inf, 3])
