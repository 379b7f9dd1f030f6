"""The laplace distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Positive, Real
from .distribution import Distribution

__all__ = ["Laplace"]


class Laplace(Distribution):
    """The Laplace distribution around ``loc``, of which ``scale`` is the mean distance.

    Args:
      loc: the mean, or the place of the centre.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Positive()}

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.loc = loc
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        return -np.log(2 * self.scale) - np.abs(self._checked(value) - self.loc) / self.scale

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.loc + self.scale * np.random.laplace(size=shape)

    def cdf(self, value: Any) -> Any:
        value = self._checked(value) - self.loc
        return 0.5 - 0.5 * np.sign(value) * np.expm1(-np.abs(value) / self.scale)

    def icdf(self, value: Any) -> Any:
        value = value - 0.5
        return self.loc - self.scale * np.sign(value) * np.log1p(-2 * np.abs(value))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale**2

    def entropy(self) -> Any:
        return 1 + np.log(2 * self.scale)
