"""Distributions, transformations and divergences, against SciPy and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats as ss

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import probability as mgp

A, B = np.array([0.5, 1.5, 2.5]), np.array([2.0, 0.75, 1.25])
P = np.array([0.2, 0.5, 0.7])
X = np.array([0.3, 1.2, 2.1])
U = np.array([0.1, 0.45, 0.8])
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def m(x):
    return mx.np.array(x, dtype="float32")


#: Distribution of mxjax, SciPy's, and values: those of continuous ones have a cdf and an icdf where marked.
CONTINUOUS = {
    "Normal": (mgp.Normal(m(A), m(B)), ss.norm(A, B), X, True),
    "Laplace": (mgp.Laplace(m(A), m(B)), ss.laplace(A, B), X, True),
    "Cauchy": (mgp.Cauchy(m(A), m(B)), ss.cauchy(A, B), X, True),
    "HalfNormal": (mgp.HalfNormal(m(B)), ss.halfnorm(0, B), X, True),
    "HalfCauchy": (mgp.HalfCauchy(m(B)), ss.halfcauchy(0, B), X, True),
    "Uniform": (mgp.Uniform(m(A), m(A + B)), ss.uniform(A, B), A + 0.3, True),
    "Exponential": (mgp.Exponential(m(B)), ss.expon(0, B), X, True),
    "Weibull": (mgp.Weibull(m(A), m(B)), ss.weibull_min(A, scale=B), X, True),
    "Pareto": (mgp.Pareto(m(A + 2), m(B)), ss.pareto(A + 2, scale=B), X + 2, True),
    "Gumbel": (mgp.Gumbel(m(A), m(B)), ss.gumbel_r(A, B), X, True),
    "Gamma": (mgp.Gamma(m(A), m(B)), ss.gamma(A, scale=B), X, False),
    "Beta": (mgp.Beta(m(A), m(B)), ss.beta(A, B), U, False),
    "Chi2": (mgp.Chi2(m(A)), ss.chi2(A), X, False),
    "FisherSnedecor": (mgp.FisherSnedecor(m(A), m(B + 4)), ss.f(A, B + 4), X, False),
    "StudentT": (mgp.StudentT(m(B + 2), m(A), m(B)), ss.t(B + 2, A, B), X, False),
}
DISCRETE = {
    "Poisson": (mgp.Poisson(m(B)), ss.poisson(B)),
    "Geometric": (mgp.Geometric(prob=m(P)), ss.geom(P, loc=-1)),
    "NegativeBinomial": (mgp.NegativeBinomial(m(B), prob=m(P)), ss.nbinom(B, P)),
    "Binomial": (mgp.Binomial(4, prob=m(P)), ss.binom(4, P)),
    "Bernoulli": (mgp.Bernoulli(prob=m(P)), ss.bernoulli(P)),
    "Bernoulli by logit": (mgp.Bernoulli(logit=m(scipy.special.logit(P))), ss.bernoulli(P)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_are_scipys(name):
    dist, wanted, x, has_cdf = CONTINUOUS[name]
    np.testing.assert_allclose(dist.log_prob(m(x)).asnumpy(), wanted.logpdf(x), **CLOSE)
    np.testing.assert_allclose(dist.pdf(m(x)).asnumpy(), wanted.pdf(x), **CLOSE)
    if has_cdf:
        np.testing.assert_allclose(dist.cdf(m(x)).asnumpy(), wanted.cdf(x), **CLOSE)
        np.testing.assert_allclose(dist.icdf(m(U)).asnumpy(), wanted.ppf(U), rtol=1e-4, atol=1e-5)
    if name != "FisherSnedecor":  # MXNet has none
        np.testing.assert_allclose(dist.entropy().asnumpy(), wanted.entropy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(dist.perplexity().asnumpy(), np.exp(wanted.entropy()), rtol=1e-4)
    if "Cauchy" not in name:
        np.testing.assert_allclose(dist.mean.asnumpy(), wanted.mean(), **CLOSE)
        np.testing.assert_allclose(dist.variance.asnumpy(), wanted.var(), **CLOSE)
        np.testing.assert_allclose(dist.stddev.asnumpy(), wanted.std(), **CLOSE)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions_are_scipys(name):
    dist, wanted = DISCRETE[name]
    x = np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(dist.log_prob(m(x)).asnumpy(), wanted.logpmf(x), **CLOSE)
    if name == "NegativeBinomial":  # moments of the successes, as MXNet has them
        wanted = ss.nbinom(B, 1 - P)
    np.testing.assert_allclose(dist.mean.asnumpy(), wanted.mean(), **CLOSE)
    np.testing.assert_allclose(dist.variance.asnumpy(), wanted.var(), **CLOSE)
    if name.startswith(("Bernoulli", "Geometric")):
        np.testing.assert_allclose(dist.entropy().asnumpy(), wanted.entropy(), rtol=1e-4)


def sampled(names):
    """Those that draw gamma variables take seconds to compile; one of them stands for all."""
    for name in names:
        slow = name in ("Beta", "Chi2", "FisherSnedecor", "StudentT", "NegativeBinomial")
        yield pytest.param(name, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("name", sampled([*CONTINUOUS, *DISCRETE]))
def test_samples_have_the_distributions_moments(name):
    mx.random.seed(7)
    dist, wanted = {**CONTINUOUS, **DISCRETE}[name][:2]
    assert dist.sample().shape == dist.sample_n().shape == (3,)
    assert dist.sample((5, 3)).shape == (5, 3)
    drawn = dist.sample_n(4000).asnumpy()
    assert drawn.shape == (4000, 3)
    if name in CONTINUOUS:
        for column, marginal in enumerate(zip(*_rows(wanted), strict=True)):
            assert ss.kstest(drawn[:, column], wanted.dist.cdf, args=(*marginal,)).pvalue > 1e-4, (
                column
            )
    else:
        near = 5 * np.sqrt(dist.variance.asnumpy() / 4000)
        assert (np.abs(drawn.mean(0) - dist.mean.asnumpy()) < near).all()


def _rows(frozen):
    """SciPy's parameters, a row for each."""
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    return [np.broadcast_to(x, (3,)) for x in (*shapes, loc, scale)]


@pytest.mark.parametrize("name", sampled([n for n, (d, *_) in CONTINUOUS.items() if d.has_grad]))
def test_samples_are_differentiable(name):
    """The derivative of a sample by a parameter, from the cumulative distribution: -dF/dparameter / f."""
    dist, wanted, *_ = CONTINUOUS[name]
    given = {k: v.copy() for k, v in dist._parameters().items()}
    moved = next(iter(given))
    if name == "Chi2":
        given = {"df": m(A)}
        moved = "df"
    given[moved].attach_grad()
    mx.random.seed(3)
    with autograd.record():
        x = type(dist)(**given).sample()
    x.backward()
    grad = given[moved].grad.asnumpy()
    h = 1e-4
    up, down = ({**{k: v.asnumpy().astype("float64") for k, v in given.items()}} for _ in range(2))
    up[moved], down[moved] = up[moved] + h, down[moved] - h
    sample = x.asnumpy().astype("float64")
    if name == "Beta":  # of two gamma variables, each of which is differentiated
        assert (grad > 0).all()
        return
    if name in ("FisherSnedecor", "StudentT"):
        assert np.isfinite(grad).all() and grad.any()
        return
    slope = (_scipy(name, up).cdf(sample) - _scipy(name, down).cdf(sample)) / (2 * h)
    np.testing.assert_allclose(grad, -slope / wanted.pdf(sample), rtol=5e-3, atol=1e-4)


def _scipy(name, p):
    return {
        "Normal": lambda: ss.norm(p["loc"], p["scale"]),
        "Laplace": lambda: ss.laplace(p["loc"], p["scale"]),
        "Cauchy": lambda: ss.cauchy(p["loc"], p["scale"]),
        "HalfNormal": lambda: ss.halfnorm(0, p["scale"]),
        "HalfCauchy": lambda: ss.halfcauchy(0, p["scale"]),
        "Uniform": lambda: ss.uniform(p["low"], p["high"] - p["low"]),
        "Exponential": lambda: ss.expon(0, p["scale"]),
        "Weibull": lambda: ss.weibull_min(p["concentration"], scale=p["scale"]),
        "Pareto": lambda: ss.pareto(p["alpha"], scale=p["scale"]),
        "Gumbel": lambda: ss.gumbel_r(p["loc"], p["scale"]),
        "Gamma": lambda: ss.gamma(p["shape"], scale=p["scale"]),
        "Chi2": lambda: ss.chi2(p["df"]),
    }[name]()


PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])


def test_categorical_distributions():
    dist = mgp.Categorical(3, prob=m(PROBS))
    by_logit = mgp.Categorical(3, logit=m(np.log(PROBS) + 3))  # which need not be normalized
    for d in (dist, by_logit):
        np.testing.assert_allclose(d.log_prob(m([1, 2])).asnumpy(), np.log([0.5, 0.3]), **CLOSE)
    assert dist.log_prob(m([[0, 0], [2, 2]])).shape == (2, 2)
    np.testing.assert_allclose(dist.entropy().asnumpy(), [ss.entropy(p) for p in PROBS], **CLOSE)
    assert dist.enumerate_support().asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    mx.random.seed(1)
    assert dist.sample().shape == (2,) and dist.sample((4, 2)).shape == (4, 2)
    assert dist.sample().dtype == dist.sample_n(2).dtype == np.int64  # as in MXNet 2.0.0b1
    drawn = dist.sample_n(3000).asnumpy()
    share = np.stack([(drawn == k).mean(0) for k in range(3)], -1)
    np.testing.assert_allclose(share, PROBS, atol=0.04)
    one_hot = mgp.OneHotCategorical(3, prob=m(PROBS))
    np.testing.assert_allclose(
        one_hot.log_prob(m([[0, 1, 0], [0, 0, 1]])).asnumpy(), np.log([0.5, 0.3]), **CLOSE
    )
    assert (one_hot.sample_n(5).asnumpy().sum(-1) == 1).all()
    assert one_hot.enumerate_support().shape == (3, 2, 3)
    assert dist.broadcast_to((4, 2)).sample().shape == (4, 2)
    assert one_hot.broadcast_to((4, 2)).sample().shape == (4, 2, 3)


def test_multinomial_and_dirichlet():
    dist = mgp.Multinomial(3, prob=m(PROBS), total_count=4)
    x = np.array([[1, 2, 1], [4, 0, 0]])
    wanted = [ss.multinomial(4, p).logpmf(row) for p, row in zip(PROBS, x, strict=True)]
    np.testing.assert_allclose(dist.log_prob(m(x)).asnumpy(), wanted, **CLOSE)
    drawn = dist.sample_n(5).asnumpy()
    assert drawn.shape == (5, 2, 3) and (drawn.sum(-1) == 4).all()
    alpha = np.array([[1.5, 2.0, 0.7]])
    dirichlet = mgp.Dirichlet(m(alpha))
    where = np.array([0.3, 0.5, 0.2])
    one = ss.dirichlet(alpha[0])
    np.testing.assert_allclose(
        dirichlet.log_prob(m(where)).asnumpy()[0], one.logpdf(where), **CLOSE
    )
    np.testing.assert_allclose(dirichlet.entropy().asnumpy()[0], one.entropy(), **CLOSE)
    np.testing.assert_allclose(dirichlet.mean.asnumpy()[0], one.mean(), **CLOSE)
    np.testing.assert_allclose(dirichlet.variance.asnumpy()[0], one.var(), **CLOSE)
    np.testing.assert_allclose(dirichlet.sample((4, 1)).asnumpy().sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("given", ["cov", "precision", "scale_tril"])
def test_multivariate_normal(given):
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    loc = np.array([1.0, -1.0])
    ways = {"cov": cov, "precision": np.linalg.inv(cov), "scale_tril": np.linalg.cholesky(cov)}
    dist = mgp.MultivariateNormal(m(loc), **{given: m(ways[given])}, validate_args=True)
    wanted = ss.multivariate_normal(loc, cov)
    x = np.array([[0.5, 0.2], [1.0, -2.0]])
    np.testing.assert_allclose(dist.log_prob(m(x)).asnumpy(), wanted.logpdf(x), **CLOSE)
    np.testing.assert_allclose(dist.entropy().asnumpy(), wanted.entropy(), **CLOSE)
    np.testing.assert_allclose(dist.variance.asnumpy(), [2.0, 1.0], **CLOSE)
    np.testing.assert_allclose(dist.cov.asnumpy(), cov, **CLOSE)
    mx.random.seed(2)
    drawn = dist.sample_n(4000).asnumpy()
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.15)
    other = mgp.MultivariateNormal(m([0.0, 0.0]), cov=m(np.eye(2)))
    wanted = 0.5 * (3.0 + 2.0 - 2 - np.log(np.linalg.det(cov)))
    np.testing.assert_allclose(mgp.kl_divergence(dist, other).asnumpy(), wanted, **CLOSE)


def pairs():
    same = {
        "Normal": lambda a, b: mgp.Normal(a, b), "HalfNormal": lambda a, b: mgp.HalfNormal(b),
        "Laplace": lambda a, b: mgp.Laplace(a, b), "Exponential": lambda a, b: mgp.Exponential(b),
        "Gumbel": lambda a, b: mgp.Gumbel(a, b), "Gamma": lambda a, b: mgp.Gamma(a, b),
        "Beta": lambda a, b: mgp.Beta(a, b),
        "Cauchy": lambda a, b: mgp.Cauchy(a, b),
    }  # fmt: skip
    for name, make in same.items():
        yield pytest.param(make(0.7, 1.2), make(1.1, 0.8), id=name)
    yield pytest.param(mgp.Uniform(0.2, 0.9), mgp.Uniform(0.1, 1.4), id="Uniform")
    yield pytest.param(mgp.Pareto(1.2, 0.9), mgp.Pareto(2.0, 0.5), id="Pareto")
    yield pytest.param(mgp.Uniform(0.2, 0.9), mgp.Normal(1.0, 0.7), id="Uniform-Normal")
    yield pytest.param(mgp.Uniform(0.2, 0.9), mgp.Gumbel(1.0, 0.7), id="Uniform-Gumbel")
    yield pytest.param(mgp.Exponential(0.8), mgp.Gumbel(1.0, 0.7), id="Exponential-Gumbel")
    yield pytest.param(mgp.Exponential(0.8), mgp.Normal(1.0, 0.7), id="Exponential-Normal")
    yield pytest.param(mgp.Exponential(0.8), mgp.Gamma(1.3, 0.7), id="Exponential-Gamma")


@pytest.mark.parametrize(("p", "q"), pairs())
def test_divergences_are_their_integrals(p, q):
    """By substitution: the integral over x of p (log p - log q), on a grid fine in the tails as well."""
    t = np.linspace(-9, 9, 200001)
    low = np.linspace(-40, 9, 200001)  # densities that have a pole at zero
    x = (
        np.sinh(t)
        if isinstance(p, (mgp.Normal, mgp.Laplace, mgp.Cauchy, mgp.Gumbel))
        else np.exp(low)
    )
    if isinstance(p, mgp.Cauchy):
        x = np.sinh(2 * t)
    if isinstance(p, mgp.Beta):
        x = scipy.special.expit(t * 2)
    if isinstance(p, mgp.Uniform):
        x = np.linspace(0.2, 0.9, 200001)[1:-1]
    if isinstance(p, mgp.Pareto):
        x = 0.9 * np.exp(np.exp(t))[t < 3.5]
    keep = np.ones(x.shape, bool)
    with np.errstate(all="ignore"):
        a, b = (d.log_prob(mx.np.array(x, dtype="float64")).asnumpy() for d in (p, q))
        keep = np.isfinite(a) & np.isfinite(b)
        integrand = np.exp(a[keep]) * (a[keep] - b[keep])
    wanted = np.trapezoid(integrand, x[keep])
    np.testing.assert_allclose(float(mgp.kl_divergence(p, q)), wanted, rtol=2e-3, atol=1e-4)


def test_divergences_of_discrete_distributions():
    n = np.arange(200)
    for p, q, one, other in (
        (mgp.Poisson(1.5), mgp.Poisson(2.0), ss.poisson(1.5), ss.poisson(2.0)),
        (
            mgp.Geometric(prob=0.4),
            mgp.Geometric(prob=0.3),
            ss.geom(0.4, loc=-1),
            ss.geom(0.3, loc=-1),
        ),
    ):
        pmf = one.pmf(n)
        wanted = np.sum(np.where(pmf > 0, pmf * (one.logpmf(n) - other.logpmf(n)), 0)[pmf > 0])
        np.testing.assert_allclose(float(mgp.kl_divergence(p, q)), wanted, rtol=1e-4)
    p, q = mgp.Bernoulli(prob=m(P)), mgp.Bernoulli(prob=m(U))
    wanted = P * np.log(P / U) + (1 - P) * np.log((1 - P) / (1 - U))
    np.testing.assert_allclose(mgp.kl_divergence(p, q).asnumpy(), wanted, **CLOSE)
    p, q = mgp.Binomial(3, prob=m(P)), mgp.Binomial(3, prob=m(U))
    np.testing.assert_allclose(mgp.kl_divergence(p, q).asnumpy(), 3 * wanted, **CLOSE)
    p, q = (mgp.Categorical(3, prob=m(row)) for row in PROBS)
    wanted = np.sum(PROBS[0] * np.log(PROBS[0] / PROBS[1]))
    np.testing.assert_allclose(float(mgp.kl_divergence(p, q)), wanted, rtol=1e-5)
    p, q = (mgp.OneHotCategorical(3, prob=m(row)) for row in PROBS)
    np.testing.assert_allclose(float(mgp.kl_divergence(p, q)), wanted, rtol=1e-5)
    a, b = np.array([1.5, 2.0, 0.7]), np.array([0.6, 1.0, 1.4])
    psi, lg = scipy.special.digamma, scipy.special.gammaln
    wanted = (
        lg(a.sum())
        - lg(b.sum())
        - (lg(a) - lg(b)).sum()
        + ((a - b) * (psi(a) - psi(a.sum()))).sum()
    )
    np.testing.assert_allclose(
        float(mgp.kl_divergence(mgp.Dirichlet(m(a)), mgp.Dirichlet(m(b)))), wanted, rtol=1e-5
    )
    with pytest.raises(NotImplementedError, match="register_kl"):
        mgp.kl_divergence(mgp.Normal(), mgp.Poisson())
    mx.random.seed(5)
    rough = mgp.empirical_kl(mgp.Normal(0.0, 1.0), mgp.Normal(0.5, 1.0), 4000)
    assert abs(float(rough) - 0.125) < 0.05


def test_transformations_are_inverted_and_their_derivatives_are_right():
    x = m([0.3, 1.2])
    for t in (
        mgp.ExpTransform(), mgp.AffineTransform(1.0, -2.0), mgp.PowerTransform(1.5), mgp.SigmoidTransform(),
        mgp.ComposeTransform([mgp.AffineTransform(0.5, 2.0), mgp.SigmoidTransform()]),
    ):  # fmt: skip
        x.attach_grad()
        with autograd.record():
            y = t(x)
        y.backward()
        np.testing.assert_allclose(t.inv(y).asnumpy(), x.asnumpy(), rtol=1e-4)
        logs = t.log_det_jacobian(x, y).asnumpy()
        np.testing.assert_allclose(logs, np.log(np.abs(x.grad.asnumpy())), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(t.inv.log_det_jacobian(y, x).asnumpy(), -logs, rtol=1e-5)
        assert t.inv.inv is t
        assert (np.sign(x.grad.asnumpy()) == np.asarray(t.sign)).all()
    assert float(mgp.SoftmaxTransform()(x).sum()) == pytest.approx(1)


def test_constraints_are_mapped_from_the_real_numbers():
    constraint = mgp.constraint
    x = m([-3.0, 0.1, 4.0])
    for c in (
        constraint.Positive(), constraint.GreaterThan(2), constraint.LessThan(-1), constraint.Interval(1, 3),
        constraint.UnitInterval(), constraint.HalfOpenInterval(-1, 0), constraint.GreaterThanEq(1),
    ):  # fmt: skip
        y = mgp.biject_to(c)(x)
        np.testing.assert_array_equal(c.check(y).asnumpy(), y.asnumpy())
        np.testing.assert_allclose(mgp.transform_to(c).inv(y).asnumpy(), x.asnumpy(), rtol=1e-3)
    with pytest.raises(NotImplementedError, match="Simplex"):
        mgp.biject_to(constraint.Simplex())
    with pytest.raises(TypeError, match="Constraint"):
        mgp.domain_map().register(3, lambda c: c)


@pytest.mark.parametrize(("constraint", "good", "bad"), [
    (mgp.constraint.Real(), [1.0], [float("nan")]),
    (mgp.constraint.Boolean(), [0.0, 1.0], [0.5]),
    (mgp.constraint.OpenInterval(0, 1), [0.5], [0.0]),
    (mgp.constraint.IntegerInterval(0, 3), [3.0], [1.5]),
    (mgp.constraint.IntegerOpenInterval(0, 3), [2.0], [3.0]),
    (mgp.constraint.IntegerHalfOpenInterval(0, 3), [0.0], [3.0]),
    (mgp.constraint.IntegerLessThan(3), [2.0], [3.0]),
    (mgp.constraint.IntegerLessThanEq(3), [3.0], [4.0]),
    (mgp.constraint.LessThanEq(3), [3.0], [3.5]),
    (mgp.constraint.PositiveInteger(), [1.0], [0.0]),
    (mgp.constraint.NonNegative(), [0.0], [-1.0]),
    (mgp.constraint.Simplex(), [0.25, 0.75], [0.5, 0.75]),
    (mgp.constraint.LowerTriangular(), [[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 3.0]]),
    (mgp.constraint.LowerCholesky(), [[1.0, 0.0], [2.0, 3.0]], [[1.0, 0.0], [2.0, -3.0]]),
    (mgp.constraint.PositiveDefinite(), [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]),
    (mgp.constraint.Cat([mgp.constraint.Positive(), mgp.constraint.Boolean()]), [5.0, 1.0], [5.0, 2.0]),
    (mgp.constraint.Stack([mgp.constraint.Positive(), mgp.constraint.Boolean()]), [5.0, 1.0], [-5.0, 1.0]),
])  # fmt: skip
def test_constraints(constraint, good, bad):
    assert constraint.check(m(good)).asnumpy().tolist() == np.float32(good).tolist()
    with pytest.raises(ValueError, match="Constraint violated"):
        constraint.check(m(bad)).asnumpy()


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="> 0"):
        mgp.Normal(0.0, m([-1.0]), validate_args=True)
    with pytest.raises(ValueError, match="Constraint"):
        mgp.Exponential(1.0, validate_args=True).log_prob(m([-1.0]))
    with pytest.raises(ValueError, match="Either `prob` or `logit`"):
        mgp.Bernoulli()
    with pytest.raises(ValueError, match="num_events"):
        mgp.Categorical(0, prob=m([1.0]))
    with pytest.raises(ValueError, match="Exactly one"):
        mgp.MultivariateNormal(m([0.0]))
    with pytest.raises(ValueError, match="non-negative integer"):
        mgp.Binomial(2.5, prob=0.5)
    mgp.Distribution.set_default_validate_args(True)
    try:
        with pytest.raises(ValueError, match="Constraint"):
            mgp.Poisson(-1.0)
    finally:
        mgp.Distribution.set_default_validate_args(False)


def test_events_and_batches():
    dist = mgp.Independent(mgp.Normal(m(np.zeros((2, 3))), 1.0), 1)
    assert dist.log_prob(mx.np.zeros((2, 3))).shape == (2,)
    assert dist.entropy().shape == (2,) and dist.event_dim == 1
    assert dist.sample_n(4).shape == (4, 2, 3)
    assert dist.broadcast_to((5, 2)).mean.shape == (5, 2, 3)
    assert mgp.Normal(0.0, m(B)).broadcast_to((2, 3)).sample().shape == (2, 3)
    assert repr(mgp.Normal(0.0, m(B))) == "Normal(loc: size (), scale: size (3,), event_dim: 0)"
    lognormal = mgp.TransformedDistribution(mgp.Normal(m(A), m(B)), mgp.ExpTransform())
    np.testing.assert_allclose(
        lognormal.log_prob(m(X)).asnumpy(), ss.lognorm(B, scale=np.exp(A)).logpdf(X), **CLOSE
    )


def test_relaxed_distributions():
    mx.random.seed(4)
    relaxed = mgp.RelaxedBernoulli(0.2, prob=m(P))
    drawn = relaxed.sample((3000, 3)).asnumpy()
    np.testing.assert_allclose((drawn > 0.5).mean(0), P, atol=0.04)
    grid = np.linspace(1e-4, 1 - 1e-4, 20001)
    one = mgp.RelaxedBernoulli(0.9, prob=0.3)
    assert np.trapezoid(np.exp(one.log_prob(m(grid)).asnumpy()), grid) == pytest.approx(1, abs=5e-3)
    vectors = mgp.RelaxedOneHotCategorical(0.5, 3, prob=m(PROBS))
    drawn = vectors.sample((2000, 2)).asnumpy()
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-4)
    share = np.stack([(drawn.argmax(-1) == k).mean(0) for k in range(3)], -1)
    np.testing.assert_allclose(share, PROBS, atol=0.05)
    two = mgp.RelaxedOneHotCategorical(0.9, 2, prob=m([0.3, 0.7]))
    density = np.exp(two.log_prob(m(np.stack([grid, 1 - grid], -1))).asnumpy())
    np.testing.assert_allclose(density, np.exp(one.log_prob(m(grid)).asnumpy()), rtol=1e-3)


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
def test_stochastic_blocks_collect_losses(hybridized):
    class Noisy(mgp.StochasticBlock):
        def __init__(self):
            super().__init__()
            self.dense = gluon.nn.Dense(2, in_units=3)

        @mgp.StochasticBlock.collectLoss
        def forward(self, x):
            loc = self.dense(x)
            q = mgp.Normal(loc, 1.0)
            self.add_loss(mgp.kl_divergence(q, mgp.Normal(0.0, 1.0)))
            return q.sample()

    net = mgp.StochasticSequential()
    net.add(Noisy(), gluon.nn.Dense(3, in_units=2), Noisy())
    net.initialize(mx.init.Normal(0.5))
    if hybridized:
        net.hybridize()
    for k in range(2):
        x = m(np.full((4, 3), k + 1.0))
        with autograd.record():
            out = net(x)
            loss = net.losses[0][0].sum() + net.losses[1][0].sum()
        loss.backward()
        assert out.shape == (4, 2) and len(net.losses) == 2
        dense = net[0].dense
        loc = x.asnumpy() @ dense.weight.data().asnumpy().T
        np.testing.assert_allclose(net.losses[0][0].asnumpy(), 0.5 * loc**2, rtol=1e-4, atol=1e-6)
        assert np.abs(dense.weight.grad().asnumpy()).sum() > 0

    noisy = "Noisy(\n    (dense): Dense(3 -> 2, linear)\n  )"
    assert repr(net) == (
        f"StochasticSequential(\n  (0): {noisy}\n  (1): Dense(2 -> 3, linear)\n  (2): {noisy}\n)"
    )

    class Plain(mgp.StochasticBlock):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="collectLoss"):
        Plain()(x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_densities_of_the_uniform_distribution_are_float64(dtype):
    x = mx.np.array([0.3, 5.0], dtype=dtype)
    for high in (2.0, mx.np.array(2.0, dtype=dtype)):
        found = mgp.Uniform(0.0, high).log_prob(x)
        assert found.dtype == "float64"  # so in MXNet 2.0.0b1
        np.testing.assert_allclose(found.asnumpy(), [-np.log(2), -np.inf], rtol=1e-3)
