"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Interval, Real
from .distribution import Distribution

__all__ = ["Uniform"]


class Uniform(Distribution):
    """The uniform distribution from ``low`` to ``high``.

    Args:
      low: the lower end.
      high: the upper end.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    arg_constraints = {"low": Real(), "high": Real()}

    def __init__(self, low: Any = 0.0, high: Any = 1.0, validate_args: bool | None = None):
        self.low = low
        self.high = high
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return Interval(self.low, self.high)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        inside = (value > self.low) & (value < self.high)
        # MXNet's is float64, whatever the parameters are.
        density = -np.log(self.high - self.low) + 0 * value.astype("float64")
        return np.where(inside, density, -math.inf)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.low + (self.high - self.low) * np.random.uniform(size=shape)

    def cdf(self, value: Any) -> Any:
        return np.clip((self._checked(value) - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    @property
    def mean(self) -> Any:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def entropy(self) -> Any:
        return np.log(self.high - self.low)
