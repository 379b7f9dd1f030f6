"""The distribution of absolute values of a normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ._half import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The absolute values of a normal distribution around zero.

    Args:
      scale: the scale, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    def __init__(self, scale: Any = 1.0, validate_args: bool | None = None):
        super().__init__(Normal, scale, validate_args)

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
