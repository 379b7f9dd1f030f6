"""What sums are kept in while they grow, by numbers that get lost or do not."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import nn


def total(dtype="float16", **given):
    x = mx.np.array(np.full(70000, 0.1), dtype=dtype)
    with mx.config.scope(given):
        return float(x.sum())


@pytest.mark.observes
def test_a_sum_of_float16_stands_still_where_it_is_kept_in_float16():
    # Adding 0.1 to 256 in float16 gives 256: the next number is 256.25.
    assert total(MXNET_SAFE_ACCUMULATION=0) == 256
    exact = float(np.float16(70000 * float(np.float16(0.1))))
    assert total(MXNET_SAFE_ACCUMULATION=1) == exact
    assert abs(total() - exact) < 100  # XLA adds in several places at once


def test_a_sum_of_float32_may_be_kept_in_float64():
    rows = np.tile(np.array([1e8, 1.0, -1e8], np.float32), 50)
    x = mx.np.array(rows)
    with mx.config.scope(MXNET_SAFE_ACCUMULATION=1):
        assert float(x.sum()) == 50 and x.sum().dtype == np.float32
        assert float((x * 1).mean()) == np.float32(50 / 150)
    with mx.config.scope(MXNET_SAFE_ACCUMULATION=0):
        assert float(x.sum()) == 0  # the ones are lost one by one


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), ((0, 2), True), (-1, False)])
def test_the_loop_sums_over_the_axes_that_are_meant_and_has_a_gradient(axis, keepdims):
    x = mx.np.array(np.arange(24.0).reshape(2, 3, 4), dtype="float16")
    x.attach_grad()
    with mx.config.scope(precision_accumulation="narrow"):
        with mx.autograd.record():
            out = x.mean(axis=axis, keepdims=keepdims)
        out.backward()
        found = out.asnumpy()
    expected = x.asnumpy().mean(axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found.shape == expected.shape and found.dtype == x.mean().dtype
    np.testing.assert_allclose(x.grad.asnumpy(), np.full((2, 3, 4), expected.size / 24), rtol=1e-3)


@pytest.mark.observes
def test_products_of_float16_may_round_at_each_step_or_once(programs):
    dense = nn.Dense(1, in_units=7000, use_bias=False, dtype="float16")
    dense.initialize(mx.init.Constant(0.1))
    x = mx.np.ones((1, 7000), dtype="float16")

    def run(**given):
        programs.clear()
        with mx.config.scope(given):
            return float(dense(x)), programs.text

    exact = float(np.float16(7000 * float(np.float16(0.1))))
    assert run(MXNET_FC_TRUE_FP16=1)[0] == 256
    wide, text = run(MXNET_CUDNN_ALLOW_REDUCED_PRECISION_REDUCTION=0)
    assert wide == exact and "f32[" in text
    assert run(MXNET_FC_TRUE_FP16=1, MXNET_CUDNN_ALLOW_REDUCED_PRECISION_REDUCTION=0)[0] == exact
    assert run(MXNET_FC_TRUE_FP16=0)[0] == run()[0]
