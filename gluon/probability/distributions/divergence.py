"""Kullback-Leibler divergences, by pairs of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy import euler_gamma

from mxjax import errors, np

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .dirichlet import Dirichlet
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .laplace import Laplace
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import digamma, gammaln

__all__ = ["empirical_kl", "kl_divergence", "register_kl"]

_Rule = Callable[[Any, Any], Any]
#: By the names of the two classes, as MXNet finds them: a class made anew in a notebook keeps its rules.
_RULES: dict[tuple[str, str], _Rule] = {}


def empirical_kl(p: Any, q: Any, n_samples: int = 1) -> Any:
    """The divergence of q from p estimated from samples of p.

    Args:
      p: the first distribution.
      q: the second distribution.
      n_samples: how many samples are drawn.

    Returns:
      ndarray: the mean over samples.
    """
    samples = p.sample_n(n_samples)
    return (p.log_prob(samples) - q.log_prob(samples)).mean(0)


def register_kl(typeP: type, typeQ: type) -> Callable[[_Rule], _Rule]:  # noqa: N803
    """Decorate the function of two distributions of these classes that gives their divergence.

    Args:
      typeP: the first distribution's class.
      typeQ: the second distribution's class.

    Returns:
      function: registers the function of two distributions.

    Raises:
      TypeError: a function of another number of arguments.
    """

    def decorator(func: _Rule) -> _Rule:
        count = func.__code__.co_argcount
        if count != 2:
            raise errors.MXNetTypeError(
                f"Expect kl_divergence implementation to have exactly two arguments, but got {count}"
            )
        _RULES.setdefault((typeP.__name__, typeQ.__name__), func)
        return func

    return decorator


def kl_divergence(p: Any, q: Any) -> Any:
    """The divergence of q from p, ``E_p[log p - log q]``.

    Args:
      p: the first distribution.
      q: the second distribution.

    Returns:
      ndarray: the divergence, of the batch's shape.

    Raises:
      NotImplementedError: no rule for distributions of these classes.

    >>> import mxjax as mx
    >>> mgp = mx.gluon.probability
    >>> float(mgp.kl_divergence(mgp.Normal(0.0, 1.0), mgp.Normal(1.0, 1.0)))
    0.5
    """
    return _dispatch_kl(type(p).__name__, type(q).__name__)(p, q)


def _dispatch_kl(typeP: str, typeQ: str) -> _Rule:  # noqa: N803
    """The rule for distributions of classes of these names."""
    if (typeP, typeQ) not in _RULES:
        raise errors.MXNetNotImplementedError(
            f"KL divergence between {typeP} and {typeQ} is not implemented. register_kl adds rules, empirical_kl "
            "estimates it"
        )
    return _RULES[typeP, typeQ]


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - np.log(ratio))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - np.log(ratio))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one, other = p.prob, q.prob
    return one * np.log(one / other) + (1 - one) * np.log((1 - one) / (1 - other))


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return (p.prob * (p._log_probs() - q._log_probs())).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = np.log((q.high - q.low) / (p.high - p.low))
    return np.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    return np.log((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) - np.log(4 * p.scale * q.scale)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, far = p.scale / q.scale, np.abs(p.loc - q.loc)
    return -np.log(ratio) + far / q.scale + ratio * np.exp(-far / p.scale) - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (np.log(p.rate) - np.log(q.rate)) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - np.log1p(-q.prob) / p.prob - q.logit


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    return -np.log(ratio) + ratio - 1


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * np.log(p.scale / q.scale) - np.log(ratio) + ratio - 1
    return np.where(p.scale < q.scale, math.nan, found)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, far = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return (
        -np.log(ratio)
        + far
        + ratio * euler_gamma
        + np.exp(gammaln()(1 + ratio) - far)
        - (1 + euler_gamma)
    )


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    lgamma = gammaln()
    found = q.shape * np.log(q.scale / p.scale) + lgamma(q.shape) - lgamma(p.shape)
    return (
        found
        + (p.shape - q.shape) * digamma()(p.shape)
        + p.shape * p.scale * (1 / q.scale - 1 / p.scale)
    )


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    psi = digamma()
    found = q._log_beta() - p._log_beta()
    found = found + (p.beta - q.beta) * psi(p.beta) + (p.alpha - q.alpha) * psi(p.alpha)
    return found + (q.alpha + q.beta - p.alpha - p.beta) * psi(p.alpha + p.beta)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    lgamma, psi = gammaln(), digamma()
    total = p.alpha.sum(-1)
    found = lgamma(total) - lgamma(q.alpha.sum(-1)) - (lgamma(p.alpha) - lgamma(q.alpha)).sum(-1)
    return found + ((p.alpha - q.alpha) * (psi(p.alpha) - np.expand_dims(psi(total), -1))).sum(-1)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    found = p.n * (p.prob * (p.logit - q.logit) + np.log1p(-p.prob) - np.log1p(-q.prob))
    return found if p.n <= q.n else np.full_like(found, math.inf)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    # MXNet's has half the determinants and the wrong sign before the distance.
    diff = q.loc - p.loc
    distance = np.einsum("...i,...i->...", diff, np.einsum("...jk,...k->...j", q.precision, diff))
    trace = np.trace(np.matmul(q.precision, p.cov), axis1=-2, axis2=-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance - diff.shape[-1])


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    squares = width**2 / 12 + ((p.high + p.low - 2 * q.loc) / 2) ** 2
    return np.log(math.sqrt(math.pi * 2) * q.scale / width) + 0.5 * squares / q.scale**2


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return np.log(ratio) + 0.5 * (high + low) - ratio * (np.exp(-high) - np.exp(-low))


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    ratio, far = q.scale / p.scale, q.loc / q.scale
    return np.log(ratio) - 1 - far + np.exp(far) * ratio / (ratio + 1) + 1 / ratio


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Any:
    squares = p.scale**2 - q.loc * p.scale + q.loc**2 * 0.5
    return 0.5 * np.log(2 * math.pi * q.scale**2 / p.scale**2) - 1 + squares / q.scale**2


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    return (
        -q.shape * np.log(ratio)
        + ratio
        + gammaln()(q.shape)
        + q.shape * euler_gamma
        - (1 + euler_gamma)
    )
