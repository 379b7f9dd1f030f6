"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Positive, Real
from .exp_family import ExponentialFamily
from .utils import digamma, gammaln

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution with this shape and scale. Samples are differentiable (implicitly, as JAX does it).

    Args:
      shape: the shape parameter, positive.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Real()
    arg_constraints: dict[str, Any] = {"shape": Positive(), "scale": Positive()}

    def __init__(self, shape: Any, scale: Any = 1.0, validate_args: bool | None = None):
        self.shape = shape
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return (
            (self.shape - 1) * np.log(value) - value / self.scale - self.shape * np.log(self.scale)
            - gammaln()(self.shape)
        )  # fmt: skip

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return np.random.gamma(self.shape, 1, shape) * self.scale

    @property
    def mean(self) -> Any:
        return self.shape * self.scale

    @property
    def variance(self) -> Any:
        return self.shape * self.scale**2

    def entropy(self) -> Any:
        a = self.shape
        return a + np.log(self.scale) + gammaln()(a) + (1 - a) * digamma()(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.shape - 1, -1 / self.scale
