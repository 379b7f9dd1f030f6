"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import numpy as onp

from mxjax import np, npx

from .constraint import IntegerInterval, Real, Simplex
from .distribution import Distribution
from .utils import Odds, whole

__all__ = ["Categorical"]


class Categorical(Odds, Distribution):
    """The number of one of ``num_events`` events; the last axis of ``prob`` or ``logit`` is that of events.

    Args:
      num_events: the number of classes of events, k.
      prob: the probability, instead of `logit`.
      logit: the logarithm of the odds, instead of `prob`.
      validate_args: whether parameters are checked for what the distribution allows.

    >>> import mxjax as mx
    >>> dist = mx.gluon.probability.Categorical(2, prob=mx.np.array([0.25, 0.75]))
    >>> mx.np.exp(dist.log_prob(mx.np.array([1, 0])))
    array([0.75, 0.25])
    """

    has_enumerate_support = True
    arg_constraints = {"prob": Simplex(), "logit": Real()}
    _binary = False
    _of_events = ("prob", "logit")

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        validate_args: bool | None = None,
    ):
        self.num_events = whole(num_events)
        self._take_odds(prob, logit)
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return IntegerInterval(0, self.num_events)

    def _log_probs(self) -> Any:
        return npx.log_softmax(self.logit)

    def log_prob(self, value: Any) -> Any:
        logs = self._log_probs()
        value = self._checked(value)
        shape = onp.broadcast_shapes(value.shape, logs.shape[:-1])
        places = np.broadcast_to(value, shape)
        return npx.pick(np.broadcast_to(logs, (*shape, self.num_events)), places, axis=-1)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        noise = np.random.gumbel(size=(*shape, self.num_events))
        return np.argmax(self.logit + noise, axis=-1)

    def enumerate_support(self) -> Any:
        values = np.arange(self.num_events).reshape((-1,) + (1,) * len(self._batch_shape()))
        return np.broadcast_to(values, (self.num_events, *self._batch_shape()))

    def entropy(self) -> Any:
        return -(self.prob * self._log_probs()).sum(-1)
