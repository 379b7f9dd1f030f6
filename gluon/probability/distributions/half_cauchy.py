"""The distribution of absolute values of a Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from ._half import Half
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute values of a Cauchy distribution around zero.

    Args:
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    def __init__(self, scale: Any = 1.0, validate_args: bool | None = None):
        super().__init__(Cauchy, scale, validate_args)

    @property
    def mean(self) -> Any:
        return math.inf

    @property
    def variance(self) -> Any:
        return math.nan
