"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from mxjax import errors, np

from .constraint import Interval, NonNegativeInteger, Real
from .distribution import Distribution
from .utils import Odds, gammaln

__all__ = ["Binomial"]


class Binomial(Odds, Distribution):
    """How many of ``n`` trials succeed.

    Args:
      n: the number of trials, or of draws.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.

    Raises:
      ValueError: ``n`` is no whole number, or not one of ``prob`` and ``logit`` is given.
    """

    support = NonNegativeInteger()
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(
        self, n: int = 1, prob: Any = None, logit: Any = None, validate_args: bool | None = None
    ):
        if n < 0 or n % 1 != 0:
            raise errors.MXNetValueError(f"Expect `n` to be non-negative integer, received n={n}")
        self._take_odds(prob, logit)
        self.n = n
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.n * self.prob

    @property
    def variance(self) -> Any:
        return self.n * self.prob * (1 - self.prob)

    def log_prob(self, value: Any) -> Any:
        value, lgamma = self._checked(value), gammaln()
        count = lgamma(self.n + 1) - lgamma(1 + value) - lgamma(self.n - value + 1)
        return count + value * np.log(self.prob) + (self.n - value) * np.log1p(-self.prob)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        trials = np.random.uniform(size=(int(self.n), *shape))
        return (trials < self.prob).astype("float32").sum(0)
