"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from ..transformation import SigmoidTransform
from .constraint import Interval, OpenInterval, Real
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .utils import Odds, softplus

__all__ = ["RelaxedBernoulli"]


class _LogitRelaxedBernoulli(Odds, Distribution):
    """The logits of a relaxed Bernoulli variable: a logistic one over the temperature."""

    has_grad = True
    support = Real()
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(
        self, T: Any, prob: Any = None, logit: Any = None, validate_args: bool | None = None
    ):  # noqa: N803
        self.T = T
        self._take_odds(prob, logit)
        super().__init__(event_dim=0, validate_args=validate_args)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return (self.logit + np.random.logistic(size=shape)) / self.T

    def log_prob(self, value: Any) -> Any:
        diff = self.logit - self.T * value
        return np.log(self.T) + diff - 2 * softplus(diff)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that near 0 or 1 as the temperature ``T`` falls (https://arxiv.org/abs/1611.00712).

    Args:
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = OpenInterval(0, 1)
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(
        self, T: Any, prob: Any = None, logit: Any = None, validate_args: bool | None = None
    ):  # noqa: N803
        super().__init__(_LogitRelaxedBernoulli(T, prob, logit, validate_args), SigmoidTransform())

    @property
    def T(self) -> Any:  # noqa: N802
        """The temperature."""
        return self._base_dist.T

    @property
    def prob(self) -> Any:
        """The probabilities."""
        return self._base_dist.prob

    @property
    def logit(self) -> Any:
        """The logits."""
        return self._base_dist.logit
