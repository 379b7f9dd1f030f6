"""The categorical distribution of one-hot vectors."""

from __future__ import annotations

from typing import Any

from mxjax import npx

from .categorical import Categorical
from .constraint import Real, Simplex
from .distribution import Distribution
from .utils import cached_property, whole

__all__ = ["OneHotCategorical"]


class OneHotCategorical(Distribution):
    """One of ``num_events`` events, as a vector with a one in its place.

    Args:
      num_events: the number of classes of events, k.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_enumerate_support = True
    arg_constraints = {"prob": Simplex(), "logit": Real()}

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        validate_args: bool | None = None,
    ):
        self.num_events = whole(num_events)
        self._categorical = Categorical(num_events, prob, logit, validate_args)
        super().__init__(event_dim=1, validate_args=validate_args)

    @cached_property
    def prob(self) -> Any:
        """The probabilities."""
        return self._categorical.prob

    @cached_property
    def logit(self) -> Any:
        """The logits."""
        return self._categorical.logit

    @property
    def mean(self) -> Any:
        return self.prob

    @property
    def variance(self) -> Any:
        return self.prob * (1 - self.prob)

    def _batch_shape(self) -> tuple[int, ...]:
        return self._categorical._batch_shape()

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return npx.one_hot(self._categorical._draw(shape), self.num_events)

    def log_prob(self, value: Any) -> Any:
        return (self._checked(value) * self._categorical._log_probs()).sum(-1)

    def broadcast_to(self, batch_shape: Any) -> Any:
        new = self.__new__(type(self))
        new.__dict__.update(
            {k: v for k, v in self.__dict__.items() if k not in self.arg_constraints}
        )
        new._categorical = self._categorical.broadcast_to(batch_shape)
        return new

    def enumerate_support(self) -> Any:
        return npx.one_hot(self._categorical.enumerate_support(), self.num_events)

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def _validate_samples(self, value: Any) -> Any:
        return Simplex().check(value)
