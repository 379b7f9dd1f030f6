"""The t distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Positive, Real
from .distribution import Distribution
from .utils import digamma, gammaln

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution with ``df`` degrees of freedom.

    Args:
      df: the degrees of freedom.
      loc: the mean, or the place of the centre.
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Real()
    arg_constraints = {"df": Positive(), "loc": Real(), "scale": Real()}

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ):
        self.df = df
        self.loc = loc
        self.scale = scale
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return np.where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self) -> Any:
        v = np.where(self.df <= 2, math.inf, self.scale**2 * self.df / (self.df - 2))
        return np.where(self.df <= 1, math.nan, v)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        chi2 = 2 * np.random.gamma(self.df / 2, 1, shape)
        return self.loc + np.random.normal(size=shape) * np.sqrt(self.df / chi2) * self.scale

    def log_prob(self, value: Any) -> Any:
        lgamma, df = gammaln(), self.df
        z = (self._checked(value) - self.loc) / self.scale
        normalizer = (
            lgamma((df + 1) / 2) - lgamma(df / 2) - np.log(self.scale) - 0.5 * np.log(df * math.pi)
        )
        return normalizer - 0.5 * (df + 1) * np.log1p(z**2 / df)

    def entropy(self) -> Any:
        lgamma, psi, df = gammaln(), digamma(), self.df
        log_beta = lgamma(0.5 * df) + lgamma(0.5) - lgamma(0.5 * (df + 1))
        mean = 0.5 * (df + 1) * (psi(0.5 * (df + 1)) - psi(0.5 * df))
        return np.log(self.scale) + mean + 0.5 * np.log(df) + log_beta
