"""The gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from numpy import euler_gamma

from mxjax import np

from .constraint import Positive, Real
from .distribution import Distribution

__all__ = ["Gumbel"]


class Gumbel(Distribution):
    """The Gumbel distribution of maxima.

    Args:
      loc: the mean, or the place of the centre.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Positive()}

    def __init__(self, loc: Any, scale: Any = 1, validate_args: bool | None = None):
        self.loc = loc
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        y = (self.loc - self._checked(value)) / self.scale
        return y - np.exp(y) - np.log(self.scale)

    def cdf(self, value: Any) -> Any:
        return np.exp(-np.exp((self.loc - self._checked(value)) / self.scale))

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * np.log(-np.log(value))

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.loc + self.scale * np.random.gumbel(size=shape)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_gamma

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev**2

    def entropy(self) -> Any:
        return np.log(self.scale) + (1 + euler_gamma)
