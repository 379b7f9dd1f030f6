"""The bernoulli distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Boolean, Interval, Real
from .exp_family import ExponentialFamily
from .utils import Odds, softplus

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """1 with probability ``prob``, else 0.

    Args:
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    support = Boolean()
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(self, prob: Any = None, logit: Any = None, validate_args: bool | None = None):
        self._take_odds(prob, logit)
        self._by_logit = logit is not None
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.prob

    @property
    def variance(self) -> Any:
        return self.prob * (1 - self.prob)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        if self._by_logit:
            return self.logit * value - softplus(self.logit)
        tiny = 1e-12
        return np.log(self.prob + tiny) * value + np.log1p(-self.prob + tiny) * (1 - value)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return (np.random.uniform(size=shape) < self.prob).astype("float32")

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logit,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return softplus(x)

    def entropy(self) -> Any:
        return softplus(self.logit) - self.logit * self.prob
