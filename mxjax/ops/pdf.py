"""Densities and probabilities of MXNet's distributions: `nd.random_pdf_normal(sample, mu, sigma)`.

The parameters' axes are the first of the sample's; those that follow are draws with these parameters. As in MXNet the
support is not looked at, and numbers of a discrete distribution get no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, xlogy

from .samples import Given, case, f
from .table import op

_COUNTS = Given([[0.0, 1, 2], [3, 4, 1]])


def _over(sample: Any, name: str, param: Any, own: int = 0) -> Any:
    """A parameter with new axes for the draws; its last ``own`` axes are those of one draw."""
    lead = param.ndim - own
    inferred = sample.shape[:lead] + sample.shape[sample.ndim - own :]
    if param.shape != inferred:
        raise ValueError(
            f"Shape inconsistent, Provided = {list(param.shape)}, inferred shape={list(inferred)}: {name} must have the "
            f"first axes of the sample's shape {list(sample.shape)}"
            + (" and its last one" if own else "")
        )
    return param.reshape(
        param.shape[:lead] + (1,) * (sample.ndim - param.ndim) + param.shape[lead:]
    )


def _result(log_density: Any, is_log: bool) -> Any:
    return log_density if is_log else jnp.exp(log_density)


def _discrete(sample: Any) -> Any:
    return jax.lax.stop_gradient(sample)


def _uniform(x: Any, low: Any, high: Any) -> Any:
    return jnp.broadcast_to(-jnp.log(high - low), x.shape)


def _normal(x: Any, mu: Any, sigma: Any) -> Any:
    return (
        -0.5 * jnp.square((x - mu) / sigma)
        - jnp.log(sigma)
        - 0.5 * jnp.log(2 * jnp.pi).astype(x.dtype)
    )


def _gamma(x: Any, alpha: Any, beta: Any) -> Any:
    return xlogy(alpha, beta) + xlogy(alpha - 1, x) - beta * x - gammaln(alpha)


def _exponential(x: Any, lam: Any) -> Any:
    return jnp.log(lam) - lam * x


def _poisson(x: Any, lam: Any) -> Any:
    x = _discrete(x)
    return xlogy(x, lam) - lam - gammaln(x + 1)


def _negative_binomial(x: Any, k: Any, p: Any) -> Any:
    x = _discrete(x)
    return gammaln(x + k) - gammaln(x + 1) - gammaln(k) + xlogy(k, p) + xlogy(x, 1 - p)


def _generalized(x: Any, mu: Any, alpha: Any) -> Any:
    return _negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1))


def _row(
    name: str,
    density: Callable[..., Any],
    first: str,
    sample: Any,
    *params: Any,
    second: str | None = None,
) -> None:
    if second is None:

        def pdf(sample: Any, a: Any, *, is_log: bool = False) -> Any:
            return _result(density(sample, _over(sample, first, a)), is_log)
    else:

        def pdf(sample: Any, a: Any, b: Any, *, is_log: bool = False) -> Any:  # type: ignore[misc]
            return _result(
                density(sample, _over(sample, first, a), _over(sample, second, b)), is_log
            )

    op(
        f"random_pdf_{name}",
        nd=f"random_pdf_{name}",
        internal=f"_random_pdf_{name}",
        aliases=(f"random_pdf_{name}",),
        amp="widest",
        nd_params=f"sample {first}" + (f" {second}" if second else ""),
        samples=[case(sample, *params), case(sample, *params, is_log=True)],
        smooth=sample is not _COUNTS,
        doc=f"The probability (its logarithm if ``is_log``) of a sample of the {name} distribution.",
    )(pdf)


_SAMPLE = f(2, 3, low=0.3, high=1.5)
_row(
    "uniform",
    _uniform,
    "low",
    _SAMPLE,
    f(2, low=0.0, high=0.5),
    f(2, low=1.0, high=2.0),
    second="high",
)
_row("normal", _normal, "mu", _SAMPLE, f(2), f(2, low=0.3, high=1.5), second="sigma")
_row(
    "gamma",
    _gamma,
    "alpha",
    _SAMPLE,
    f(2, low=1.0, high=3.0),
    f(2, low=0.3, high=1.5),
    second="beta",
)
_row("exponential", _exponential, "lam", _SAMPLE, f(2, low=0.3, high=1.5))
_row("poisson", _poisson, "lam", _COUNTS, f(2, low=1.0, high=4.0))
_row(
    "negative_binomial",
    _negative_binomial,
    "k",
    _COUNTS,
    Given([2.0, 3.0]),
    Given([0.3, 0.6]),
    second="p",
)
_row(
    "generalized_negative_binomial",
    _generalized,
    "mu",
    _COUNTS,
    f(2, low=1.0, high=3.0),
    f(2, low=0.3, high=1.5),
    second="alpha",
)


@op(
    "random_pdf_dirichlet",
    nd="random_pdf_dirichlet",
    internal="_random_pdf_dirichlet",
    aliases=("random_pdf_dirichlet",),
    amp="widest",
    samples=[case(f(2, 4, 3, low=0.1, high=0.8), f(2, 3, low=0.5, high=3.0))],
)
def dirichlet(sample: Any, alpha: Any, *, is_log: bool = False) -> Any:
    """The density (its logarithm if ``is_log``) of points whose last axis is a draw of the Dirichlet distribution."""
    alpha = _over(sample, "alpha", alpha, own=1)
    parts = jnp.sum(xlogy(alpha - 1, sample), -1)
    found = parts + gammaln(jnp.sum(alpha, -1)) - jnp.sum(gammaln(alpha), -1)
    return _result(found, is_log)
