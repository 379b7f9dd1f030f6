"""The cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Real
from .distribution import Distribution

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The Cauchy distribution around ``loc``, of which half is within ``scale``.

    Args:
      loc: the mean, or the place of the centre.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Real()}

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.loc = loc
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return math.nan

    @property
    def variance(self) -> Any:
        return math.nan

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.icdf(np.random.uniform(size=shape))

    def log_prob(self, value: Any) -> Any:
        z = (self._checked(value) - self.loc) / self.scale
        return -math.log(math.pi) - np.log(self.scale) - np.log1p(z**2)

    def cdf(self, value: Any) -> Any:
        return np.arctan((self._checked(value) - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return np.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + np.log(self.scale)
