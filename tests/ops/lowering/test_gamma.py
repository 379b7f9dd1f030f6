"""Gamma numbers: their distribution, their derivatives, and what no number can be drawn of."""

import jax
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from mxjax.ops.lowering.gamma import gamma, log_gamma


def test_distribution():
    a = np.array([0.3, 1.0, 2.5, 60.0], "float32")
    drawn = jax.jit(lambda a: gamma(jr.key(3), a, (4000, 4), "float32"))(a)
    drawn = np.asarray(drawn, "float64")
    for k, shape in enumerate(a):
        assert stats.kstest(drawn[:, k], stats.gamma(shape).cdf).pvalue > 1e-3
    # Most of these are 0 but for their logarithms.
    small = jax.jit(lambda a: log_gamma(jr.key(4), a, (4000,), "float32"))(0.01)
    small = np.asarray(small, "float64")
    assert stats.kstest(small, lambda x: stats.gamma(0.01).cdf(np.exp(x))).pvalue > 1e-3


def test_derivatives_are_the_implicit_ones():
    both = jax.jit(jax.value_and_grad(lambda a: gamma(jr.key(5), a, (), "float32")))
    for a in (0.4, 3.0, 30.0):
        x, found = map(float, both(a))
        h = 1e-4 * a
        by_cdf = (
            -(stats.gamma(a + h).cdf(x) - stats.gamma(a - h).cdf(x))
            / (2 * h)
            / stats.gamma(a).pdf(x)
        )
        assert found == pytest.approx(by_cdf, rel=2e-3)


def test_what_is_no_parameter():
    a = np.array([0.0, -1.0, np.nan, np.inf, 1.0], "float32")
    draw = jax.jit(lambda a: gamma(jr.key(0), a, None, "float32"))
    drawn = np.asarray(draw(a))
    np.testing.assert_array_equal(np.isnan(drawn), [False, True, True, False, False])
    assert drawn[0] == 0 and drawn[3] == np.inf and drawn[4] > 0
    assert draw(np.ones((0, 3), "float32")).shape == (0, 3)
