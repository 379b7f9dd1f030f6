"""The distribution of absolute values of a normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from ..transformation import AbsTransform
from .constraint import Positive
from .normal import Normal
from .transformed_distribution import TransformedDistribution

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The absolute values of a normal distribution around zero.

    Args:
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Any = 1.0, validate_args: bool | None = None):
        self.scale = scale
        super().__init__(Normal(0.0, scale), AbsTransform(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        log_prob = self._base_dist.log_prob(self._checked(value)) + math.log(2)
        return np.where(value < 0, -math.inf, log_prob)

    def cdf(self, value: Any) -> Any:
        return 2 * self._base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Any:
        return self._base_dist.icdf((value + 1) / 2)

    @property
    def loc(self) -> Any:
        """Of the distribution whose absolute values these are."""
        return self._base_dist.loc

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale**2 * (1 - 2 / math.pi)

    def entropy(self) -> Any:
        return self._base_dist.entropy() - math.log(2)
