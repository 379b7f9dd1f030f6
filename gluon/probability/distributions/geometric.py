"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Interval, NonNegativeInteger, Real
from .distribution import Distribution
from .utils import Odds

__all__ = ["Geometric"]


class Geometric(Odds, Distribution):
    """How many failures there are before the first success.

    Args:
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    support = NonNegativeInteger()
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(self, prob: Any = None, logit: Any = None, validate_args: bool | None = None):
        self._take_odds(prob, logit)
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return 1 / self.prob - 1

    @property
    def variance(self) -> Any:
        return (1 / self.prob - 1) / self.prob

    def log_prob(self, value: Any) -> Any:
        return self._checked(value) * np.log1p(-self.prob) + np.log(self.prob)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return np.floor(np.log1p(-np.random.uniform(size=shape)) / np.log1p(-self.prob))

    def entropy(self) -> Any:
        return -(self.logit * (self.prob - 1) - np.log1p(np.exp(-self.logit))) / self.prob
