"""The relaxed categorical distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np, npx

from ..transformation import ExpTransform
from .constraint import Real, Simplex
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .utils import Odds, whole

__all__ = ["RelaxedOneHotCategorical"]


class _LogRelaxedOneHotCategorical(Odds, Distribution):
    """The logarithms of a relaxed one-hot vector."""

    has_grad = True
    support = Real()
    arg_constraints = {"prob": Simplex(), "logit": Real()}
    _binary = False
    _of_events = ("prob", "logit")

    def __init__(
        self,
        T: Any,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        validate_args: bool | None = None,  # noqa: N803
    ):
        self.T = T
        self.num_events = whole(num_events)
        self._take_odds(prob, logit)
        super().__init__(event_dim=1, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        y = self.logit - value * self.T
        logs = npx.log_softmax(y)
        return logs.sum(-1) + math.lgamma(self.num_events) + (self.num_events - 1) * np.log(self.T)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        noise = np.random.gumbel(size=(*shape, self.num_events))
        return npx.log_softmax((self.logit + noise) / self.T)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors that near one-hot ones as the temperature ``T`` falls (https://arxiv.org/abs/1611.00712).

    Args:
      T: the temperature.
      num_events: the number of classes of events, k.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Simplex()
    arg_constraints = {"prob": Simplex(), "logit": Real()}

    def __init__(
        self,
        T: Any,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        validate_args: bool | None = None,  # noqa: N803
    ):
        base = _LogRelaxedOneHotCategorical(T, num_events, prob, logit, validate_args)
        super().__init__(base, ExpTransform())

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
