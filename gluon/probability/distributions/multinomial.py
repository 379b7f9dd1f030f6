"""The multinomial distribution."""

from __future__ import annotations

from numbers import Number
from typing import Any

from mxjax import errors, np, npx

from .constraint import IntegerInterval, Real, Simplex
from .distribution import Distribution
from .utils import Odds, gammaln, whole

__all__ = ["Multinomial"]


class Multinomial(Odds, Distribution):
    """How often each of ``num_events`` events comes in ``total_count`` draws.

    Args:
      num_events: the number of classes of events, k.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      total_count: the number of trials.
      validate_args: whether parameters are checked for what the distribution allows.

    Raises:
      ValueError: ``total_count`` is no number, or not one of ``prob`` and ``logit`` is given.
    """

    arg_constraints = {"prob": Simplex(), "logit": Real()}
    _binary = False
    _of_events = ("prob", "logit")

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        total_count: int = 1,
        validate_args: bool | None = None,
    ):
        if not isinstance(total_count, Number):
            raise errors.MXNetValueError("Expect `total_count` to be scalar value")
        self.num_events = whole(num_events)
        self.total_count = total_count
        self._take_odds(prob, logit)
        super().__init__(event_dim=1, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.prob * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.prob * (1 - self.prob)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return IntegerInterval(0, self.total_count)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        noise = np.random.gumbel(size=(self.total_count, *shape, self.num_events))
        return npx.one_hot(np.argmax(self.logit + noise, axis=-1), self.num_events).sum(0)

    def log_prob(self, value: Any) -> Any:
        value, lgamma = self._checked(value), gammaln()
        count = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        return count + (npx.log_softmax(self.logit) * value).sum(-1)
