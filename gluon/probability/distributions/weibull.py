"""The weibull distribution."""

from __future__ import annotations

from typing import Any

from numpy import euler_gamma

from mxjax import np

from ..transformation import AffineTransform, PowerTransform
from .constraint import Positive
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .utils import gammaln

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """``scale`` times an exponential variable to the power of 1 / ``concentration``.

    Args:
      concentration: the shape parameter, positive.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive(), "concentration": Positive()}

    def __init__(self, concentration: Any, scale: Any = 1.0, validate_args: bool | None = None):
        self.concentration = concentration
        self.scale = scale
        transforms = [PowerTransform(1 / concentration), AffineTransform(0, scale)]
        super().__init__(Exponential(), transforms, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * np.exp(gammaln()(1 + 1 / self.concentration))

    @property
    def variance(self) -> Any:
        lgamma = gammaln()
        square = np.exp(2 * lgamma(1 + 1 / self.concentration))
        return self.scale**2 * (np.exp(lgamma(1 + 2 / self.concentration)) - square)

    def entropy(self) -> Any:
        return (
            euler_gamma * (1 - 1 / self.concentration) + np.log(self.scale / self.concentration) + 1
        )
