"""Densities against SciPy's distributions, shapes against what MXNet 2.0.0b1 takes and refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mxjax as mx

RNG = np.random.RandomState(7)
SAMPLE = RNG.uniform(0.3, 1.5, (2, 3))
COUNTS = np.array([[0.0, 1, 2], [3, 4, 1]])
A, B = np.array([1.2, 2.5]), np.array([0.4, 0.9])


def _column(p):
    return p[:, None]


CASES = {
    "uniform": (SAMPLE, (A - 1, B + 3), lambda x, a, b: stats.uniform.logpdf(x, a, b - a)),
    "normal": (SAMPLE, (A, B), lambda x, mu, s: stats.norm.logpdf(x, mu, s)),
    "gamma": (SAMPLE, (A, B), lambda x, a, rate: stats.gamma.logpdf(x, a, scale=1 / rate)),
    "exponential": (SAMPLE, (A,), lambda x, rate: stats.expon.logpdf(x, scale=1 / rate)),
    "poisson": (COUNTS, (A,), stats.poisson.logpmf),
    "negative_binomial": (COUNTS, (A, B), stats.nbinom.logpmf),
    "generalized_negative_binomial": (
        COUNTS, (A, B), lambda x, mu, alpha: stats.nbinom.logpmf(x, 1 / alpha, 1 / (mu * alpha + 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    sample, params, log_density = CASES[name]
    sample = np.clip(sample, 1.5, 3.2) if name == "uniform" else sample  # inside the support
    want = log_density(sample, *map(_column, params))
    function = getattr(mx.nd, f"random_pdf_{name}")
    given = [mx.nd.array(a) for a in (sample, *params)]
    np.testing.assert_allclose(function(*given, is_log=True).asnumpy(), want, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(function(*given).asnumpy(), np.exp(want), rtol=2e-5, atol=2e-6)


def test_dirichlet():
    alpha = np.array([[0.7, 1.5, 2.0], [3.0, 1.1, 0.6]])
    sample = RNG.dirichlet([1.0, 2.0, 3.0], (2, 4))
    want = [
        [stats.dirichlet.logpdf(x / x.sum(), a) for x in row]
        for row, a in zip(sample, alpha, strict=True)
    ]
    found = mx.nd.random_pdf_dirichlet(mx.nd.array(sample), mx.nd.array(alpha), is_log=True)
    np.testing.assert_allclose(found.asnumpy(), want, rtol=2e-5, atol=2e-5)


def test_a_discrete_sample_gets_no_gradient_and_its_parameter_does():
    x, lam = mx.nd.array(COUNTS), mx.nd.array(A)
    x.attach_grad()
    lam.attach_grad()
    with mx.autograd.record():
        y = mx.nd.random_pdf_poisson(x, lam, is_log=True)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros_like(COUNTS))
    np.testing.assert_allclose(lam.grad.asnumpy(), (COUNTS / _column(A) - 1).sum(1), rtol=1e-5)


@pytest.mark.parametrize(
    "name, sample, params, want",
    [
        ("uniform", (3,), ((3,), (3,)), (3,)),
        ("uniform", (2, 3, 4), ((2, 3), (2, 3)), (2, 3, 4)),
        ("poisson", (0, 2), ((0,),), (0, 2)),
        ("dirichlet", (4, 3), ((3,),), (4,)),
        ("dirichlet", (4, 0), ((0,),), (4,)),
        ("dirichlet", (4, 3, 0), ((4, 0),), (4, 3)),
        ("uniform", (2, 3), ((3,), (3,)), None),
        ("uniform", (3,), ((1,), (1,)), None),
        ("poisson", (1, 2), ((0,),), None),
        ("dirichlet", (4, 0), ((1,),), None),
    ],
)
def test_shapes(name, sample, params, want):
    function = getattr(mx.nd.op, f"random_pdf_{name}")
    given = [mx.nd.ones(shape) for shape in (sample, *params)]
    if want is None:
        with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
            function(*given)
    else:
        assert function(*given).shape == want
