"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Positive, Real
from .exp_family import ExponentialFamily
from .utils import erf, erfinv

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``.

    Args:
      loc: the mean, or the place of the centre.
      scale: the standard deviation, positive.
      validate_args: whether parameters are checked for what the distribution allows.

    >>> import mxjax as mx
    >>> mx.gluon.probability.Normal(0.0, 1.0).log_prob(mx.np.array([0.0]))
    array([-0.9189385])
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Positive()}

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.loc = loc
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * z**2 - np.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self.loc + self.scale * np.random.normal(size=shape)

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + erf()((self._checked(value) - self.loc) / (math.sqrt(2) * self.scale)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * erfinv()(2 * value - 1) * math.sqrt(2)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale**2

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + np.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale**2, -0.5 / self.scale**2

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x**2 / y + 0.5 * np.log(-math.pi / y)
