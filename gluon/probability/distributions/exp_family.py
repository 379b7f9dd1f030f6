"""Exponential families."""

from __future__ import annotations

from typing import Any

from mxjax import errors

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with densities ``exp(<t(x), theta> - F(theta) + k(x))``.

    Args:
      event_dim: how many axes belong to one event.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """theta."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not say its natural parameters"
        )

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """F(theta)."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not say its normalizer")

    def _mean_carrier_measure(self, x: Any) -> Any:
        """The mean of k(x)."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not say its carrier measure"
        )
