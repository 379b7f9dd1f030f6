"""Poisson numbers: their distribution below and above the rate where the way changes, and what is no rate."""

import jax
import jax.random as jr
import numpy as np
from scipy import stats

from mxjax.ops.lowering.poisson import poisson

RATES = np.array([0.05, 0.7, 4.0, 31.5, 32.5, 100.0, 1e6])


def test_distribution():
    with jax.enable_x64(True):
        drawn = np.asarray(jax.jit(lambda a: poisson(jr.key(3), a, (20000, len(RATES))))(RATES))
    for k, rate in enumerate(RATES):
        law, found = stats.poisson(rate), drawn[:, k]
        assert abs(found.mean() - rate) < 4 * np.sqrt(rate / 20000)
        below = law.ppf(np.linspace(0.01, 0.99, 25))
        far = max(abs((found <= n).mean() - law.cdf(n)) for n in below)
        assert far < 1.95 / np.sqrt(20000), rate  # Kolmogorov and Smirnov's bound at 1e-3


def test_what_is_no_rate():
    with jax.enable_x64(True):
        draw = jax.jit(lambda rate: poisson(jr.key(0), rate, None))
        drawn = np.asarray(draw(np.array([0.0, np.nan, np.inf, 2.0])))
        assert draw(np.ones((0, 3))).shape == (0, 3)
    assert drawn[0] == 0 and np.isnan(drawn[1]) and drawn[2] == np.inf and drawn[3] >= 0
