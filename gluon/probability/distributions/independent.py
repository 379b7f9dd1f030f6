"""The distribution of events that are several values of another."""

from __future__ import annotations

from typing import Any

from mxjax import errors

from .constraint import dependent_property
from .distribution import Distribution
from .utils import spread, sum_right_most

__all__ = ["Independent"]


class Independent(Distribution):
    """The last ``reinterpreted_batch_ndims`` batch axes of a distribution taken as one event.

    Args:
      base_distribution: the distribution whose axes become part of the event.
      reinterpreted_batch_ndims: how many axes of the batch become part of the event.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ):
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(reinterpreted_batch_ndims + base_distribution.event_dim, validate_args)

    def broadcast_to(self, batch_shape: Any) -> Any:
        kept = (-2,) * self.reinterpreted_batch_ndims
        base = self.base_dist.broadcast_to((*batch_shape, *kept))
        return type(self)(base, self.reinterpreted_batch_ndims, self._validate_args)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Only without reinterpreted axes."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return self.base_dist.support

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, size: Any = None) -> Any:
        return self.base_dist.sample(size)

    def sample_n(self, size: Any = None) -> Any:
        return self.base_dist.sample_n(size)

    def log_prob(self, value: Any) -> Any:
        return sum_right_most(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        each = spread(
            self.base_dist.entropy(), self.base_dist._batch_shape()
        )  # a location does not count in it
        return sum_right_most(each, self.reinterpreted_batch_ndims)

    def enumerate_support(self) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise errors.MXNetNotImplementedError(
                "Enumeration over cartesian product is not implemented"
            )
        return self.base_dist.enumerate_support()
