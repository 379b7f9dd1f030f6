"""Distributions of absolute values: of a distribution around zero."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from ..transformation import AbsTransform
from .constraint import Positive
from .transformed_distribution import TransformedDistribution

__all__ = ["Half"]


class Half(TransformedDistribution):
    """The absolute values of a distribution that is symmetric around zero.

    Args:
      around: makes the distribution around zero of a scale: ``around(0.0, scale)``.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive()}

    def __init__(self, around: Any, scale: Any, validate_args: bool | None = None):
        self.scale = scale
        super().__init__(around(0.0, scale), AbsTransform(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        log_prob = self._base_dist.log_prob(self._checked(value)) + math.log(2)
        return np.where(value < 0, -math.inf, log_prob)

    def cdf(self, value: Any) -> Any:
        return 2 * self._base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Any:
        return self._base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self._base_dist.entropy() - math.log(2)
