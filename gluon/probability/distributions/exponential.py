"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Positive
from .exp_family import ExponentialFamily

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """The exponential distribution with mean ``scale``.

    Args:
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Any = 1.0, validate_args: bool | None = None):
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def rate(self) -> Any:
        """One over the mean."""
        return 1 / self.scale

    @property
    def mean(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale**2

    @property
    def stddev(self) -> Any:
        return self.scale

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.scale * np.random.exponential(size=shape)

    def log_prob(self, value: Any) -> Any:
        return -np.log(self.scale) - self._checked(value) / self.scale

    def cdf(self, value: Any) -> Any:
        return -np.expm1(-self._checked(value) / self.scale)

    def icdf(self, value: Any) -> Any:
        return -self.scale * np.log1p(-value)

    def entropy(self) -> Any:
        return 1.0 + np.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -np.log(-x)
