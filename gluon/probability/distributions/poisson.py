"""The poisson distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import NonNegativeInteger, Positive
from .exp_family import ExponentialFamily
from .utils import gammaln

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The Poisson distribution with mean ``rate``.

    Args:
      rate: the rate, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    support = NonNegativeInteger()
    arg_constraints = {"rate": Positive()}

    def __init__(self, rate: Any = 1.0, validate_args: bool | None = None):
        self.rate = rate
        super().__init__(event_dim=0, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def variance(self) -> Any:
        return self.rate

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return np.random.poisson(self.rate, shape).astype("float32")

    def log_prob(self, value: Any) -> Any:
        return self._checked(value) * np.log(self.rate) - self.rate - gammaln()(value + 1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (np.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return np.exp(x)
