"""The f distribution."""

from __future__ import annotations

import math
from typing import Any

from mxjax import np

from .constraint import Positive
from .distribution import Distribution
from .utils import gammaln

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables over their degrees of freedom.

    Args:
      df1: the numerator's degrees of freedom.
      df2: the denominator's degrees of freedom.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"df1": Positive(), "df2": Positive()}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1 = df1
        self.df2 = df2
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = np.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, np.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2**2 * (df1 + df2 - 2) / (df1 * (df2 - 2) ** 2 * (df2 - 4))

    def _draw(self, shape: tuple[int, ...]) -> Any:
        first = np.random.gamma(0.5 * self.df1, 1, shape) / self.df1
        return first / (np.random.gamma(0.5 * self.df2, 1, shape) / self.df2)

    def log_prob(self, value: Any) -> Any:
        value, lgamma = self._checked(value), gammaln()
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        return (
            np.log(ratio) * a
            + (a - 1) * np.log(value)
            - (a + b) * np.log1p(ratio * value)
            - log_beta
        )
