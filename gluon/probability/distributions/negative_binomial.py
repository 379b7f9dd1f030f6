"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import GreaterThanEq, Interval, NonNegativeInteger, Real
from .distribution import Distribution
from .utils import Odds, gammaln

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds, Distribution):
    """A Poisson variable whose rate has a gamma distribution of shape ``n`` and scale ``exp(logit)``.

    As in MXNet, samples and moments count the successes of probability ``prob`` before the n-th failure, and
    ``log_prob`` the failures before the n-th success.

    Args:
      n: the number of failures.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    support = NonNegativeInteger()
    arg_constraints = {"n": GreaterThanEq(0), "prob": Interval(0, 1), "logit": Real()}

    def __init__(
        self, n: Any, prob: Any = None, logit: Any = None, validate_args: bool | None = None
    ):
        self._take_odds(prob, logit)
        self.n = n
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.n * np.exp(self.logit)

    @property
    def variance(self) -> Any:
        return self.n * self.prob / (1 - self.prob) ** 2

    def log_prob(self, value: Any) -> Any:
        value, lgamma = self._checked(value), gammaln()
        count = lgamma(value + self.n) - lgamma(1 + value) - lgamma(self.n)
        return count + self.n * np.log(self.prob) + value * np.log1p(-self.prob)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        rate = np.random.gamma(self.n, 1, shape) * np.exp(self.logit)
        return np.random.poisson(rate).astype("float32")
