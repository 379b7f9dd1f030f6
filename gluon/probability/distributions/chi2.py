"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from .constraint import Positive
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of ``df`` squares of normal variables.

    Args:
      df: the degrees of freedom.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    arg_constraints = {"df": Positive()}

    def __init__(self, df: Any, validate_args: bool | None = None):
        self.__dict__["df"] = df
        super().__init__(df / 2, 2.0, validate_args)

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.shape * 2

    @df.setter
    def df(self, df: Any) -> None:
        self.__dict__["df"] = df
        self.shape = df / 2
