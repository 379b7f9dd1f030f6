"""Operators of eight bits at the edges of their types: the values of MXNet 1.9.1 and 2.0.0b1."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd

ops = nd.contrib
UNSIGNED = nd.array(np.array([0, 1, 3, 127, 128, 200, 255]), dtype="uint8")
SIGNED = nd.array(np.array([-128, -127, -3, 0, 1, 100, 127]), dtype="int8")


def bound(number):
    return nd.array([number], dtype="float32")


def seen(made, dtype):
    """The numbers, of this dtype, and the two bounds."""
    numbers, low, high = made
    assert numbers.dtype == np.dtype(dtype)
    return numbers.asnumpy().ravel().tolist(), low.asscalar(), high.asscalar()


@pytest.mark.parametrize(
    ("array", "dtype", "given", "expected"),
    [
        (UNSIGNED, "int8", {}, ([0, 1, 3, 127, -128, -56, -1], 0, 255.5)),
        (UNSIGNED, "uint8", {}, ([0, 1, 3, 127, 128, 200, 255], 0, 255.5)),
        (SIGNED, "int8", {}, ([-128, -127, -3, 0, 1, 100, 127], -127.5, 127.5)),
        (SIGNED, "uint8", {"min_calib_range": -1.0, "max_calib_range": 2.0}, ([128, 129, 253, 0, 1, 100, 127], -1, 2)),
    ],
)  # fmt: skip
def test_what_is_quantized_already_keeps_its_bits_in_the_type_asked_for(
    array, dtype, given, expected
):
    assert seen(ops.quantize_v2(array, out_type=dtype, **given), dtype) == expected


def test_relu_of_unsigned_numbers_is_int8():
    made = ops.quantized_act(UNSIGNED, bound(0), bound(1), act_type="relu")
    assert seen(made, "int8") == ([0, 1, 3, 127, -128, -56, -1], 0, 1)


@pytest.mark.parametrize(
    ("given", "numbers", "high"),
    [
        ({}, [0, 0, 2, 128, 255], 1),
        ({"min_calib_range": -3.0, "max_calib_range": -1.0}, [0, 0, 1, 42, 85], 3),
        ({"min_calib_range": -0.5, "max_calib_range": 0.25}, [0, 0, 4, 255, 255], 0.5),
    ],
)
def test_requantized_as_unsigned(given, numbers, high):
    data = nd.array(np.array([-(2**30), -7, 2**23, 2**29, 2**30]), dtype="int32")
    found, low, top = seen(
        ops.requantize(data, bound(-2), bound(1), out_type="uint8", **given), "uint8"
    )
    assert (found, low) == (numbers, 0)
    assert top == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [((1, 2), 0, 2), ((-3, -1), -3, 0), ((0, 0), 0, 0)],
)
def test_joined_arrays_have_0_in_their_range(bounds, low, high):
    made = ops.quantized_concat(SIGNED, *map(bound, bounds), num_args=1, dim=0)
    assert seen(made, "int8") == (SIGNED.asnumpy().tolist(), low, high)


def test_unsigned_numbers_beside_signed_ones_go_by_the_middles_between_numbers():
    made = ops.quantized_concat(
        SIGNED, UNSIGNED, *map(bound, (-3, -1, -2, 1)), num_args=2, dim=0
    )  # fmt: skip
    numbers = [-128, -127, -3, 0, 1, 100, 127, 0, 0, 1, 42, 43, 67, 85]
    assert seen(made, "int8") == (numbers, -3, 1)


@pytest.mark.parametrize(
    ("lhs", "rhs", "second", "dtype", "numbers"),
    [
        (UNSIGNED, UNSIGNED, (0, 1), "uint8", [0, 1, 3, 127, 128, 200, 255]),
        (UNSIGNED, UNSIGNED, (-2, 1), "uint8", [0, 2, 4, 190, 192, 255, 255]),
        (SIGNED, SIGNED, (-2, 1), "int8", [-128, -128, -4, 0, 2, 127, 127]),
        (SIGNED, UNSIGNED, (0, 1), "int8", [-64, -64, 0, 32, 32, 100, 127]),
        (SIGNED, UNSIGNED, (-2, 1), "int8", [-64, -64, 0, 63, 64, 127, 127]),
    ],
)
def test_sums_over_a_calibrated_range(lhs, rhs, second, dtype, numbers):
    bounds = map(bound, (0, 1, *second))
    made = ops.quantized_elemwise_add(
        lhs, rhs, *bounds, min_calib_range=-1.0, max_calib_range=2.0
    )  # fmt: skip
    assert seen(made, dtype) == (numbers, -1, 2)


@pytest.mark.parametrize(
    ("pad", "numbers"),
    [
        ((0, 0), [14, 18, 14, 38, 42, 30, 74, 78, 54, 98, 102, 70]),
        ((1, 1), [3, 7, 9, 4, 17, 28, 32, 11, 19, 31, 33, 12]),
    ],
)
def test_averages_beyond_the_edge_are_of_the_whole_kernel(pad, numbers):
    data = nd.array(np.arange(60).reshape(1, 2, 5, 6) * 2, dtype="uint8")
    made = ops.quantized_pooling(
        data, bound(-1), bound(1), kernel=(3, 3), stride=(2, 2), pad=pad, pool_type="avg", pooling_convention="full"
    )  # fmt: skip
    assert made[0].asnumpy().ravel()[: len(numbers)].tolist() == numbers


def test_batch_norm_goes_by_the_middles_between_numbers():
    """A channel without a range: the constants -0.194814, -1.405969 and 0.24892 over a range of 2."""
    numbers = [[0.7, 0.9, 1.2], [-0.194814, -1.405969, 0.24892], [0, 0, 0], [1, 1, 1]]
    made = ops.quantized_batch_norm(
        nd.zeros((1, 3, 1, 1), dtype="int8"), *map(nd.array, numbers), bound(0), bound(0),
        min_calib_range=-2.0, max_calib_range=1.5,
    )  # fmt: skip
    assert seen(made, "int8") == ([-12, -90, 16], -2, 1.5)


@pytest.mark.parametrize(
    ("low", "beta", "want"),
    [(-1.0, 0.1, [0, 0, -128, 0]), (-1.0, 5.0, [0, 127, 0, 127]), (0.0, 0.1, [0, 0, 0, 0])],
)
def test_batch_norm_over_nothing(low, beta, want):
    out, *bounds = nd.contrib.quantized_batch_norm(
        nd.array([[[[0, 5], [-7, 127]]]], dtype="int8"), nd.array([1.5]), nd.array([beta]), nd.array([0.3]),
        nd.array([1.0]), nd.array([low]), nd.array([-low]), min_calib_range=0.0, max_calib_range=0.0, eps=1e-3,
    )  # fmt: skip
    assert out.asnumpy().ravel().tolist() == want
    assert [b.asscalar() for b in bounds] == [0, 0]


def test_the_type_of_a_sum_of_unsigned_numbers():
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            for calibrated in (False, True):
                symbols = [mx.sym.var(n) for n in "abcdef"]
                more = {"min_calib_range": 0.0, "max_calib_range": 5.0} if calibrated else {}
                total = mx.sym.contrib.quantized_elemwise_add(*symbols, **more)
                found = np.dtype(total.infer_type(a=left, b=right)[1][0]).name
                both = "uint8" if left == right == "uint8" else "int8"
                assert found == (both if calibrated else "int32")
