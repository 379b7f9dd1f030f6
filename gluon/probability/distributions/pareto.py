"""The pareto distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from ..transformation import AffineTransform, ExpTransform
from .constraint import GreaterThan, Positive, dependent_property
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """The Pareto distribution above ``scale``, with exponent ``alpha``.

    Args:
      alpha: the shape parameter, positive.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    arg_constraints = {"scale": Positive(), "alpha": Positive()}

    def __init__(self, alpha: Any, scale: Any = 1.0, validate_args: bool | None = None):
        self.alpha = alpha
        self.scale = scale
        super().__init__(
            Exponential(1 / alpha),
            [ExpTransform(), AffineTransform(0, scale)],
            validate_args=validate_args,
        )

    @dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return GreaterThan(self.scale)

    @property
    def mean(self) -> Any:
        a = np.clip(self.alpha, 1, None)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = np.clip(self.alpha, 2, None)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Any:
        return np.log(self.scale / self.alpha) + 1 / self.alpha + 1
