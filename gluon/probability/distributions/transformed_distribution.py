"""The distribution of functions of another variable."""

from __future__ import annotations

from typing import Any

from ..transformation import Transformation
from .distribution import Distribution
from .utils import sum_right_most, tuple_of

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``T_n(...T_1(x))`` for x of ``base_dist``.

    Args:
      base_dist: the distribution that is transformed.
      transforms: the transforms, one after the other.
      validate_args: whether parameters are checked for what the distribution allows.

    >>> import mxjax as mx
    >>> mgp = mx.gluon.probability
    >>> lognormal = mgp.TransformedDistribution(mgp.Normal(0.0, 1.0), mgp.ExpTransform())
    >>> lognormal.log_prob(mx.np.array([1.0]))
    array([-0.9189385])
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, base_dist: Any, transforms: Any, validate_args: bool | None = None):
        self._base_dist = base_dist
        self._transforms = (
            [transforms] if isinstance(transforms, Transformation) else list(transforms)
        )
        event_dim = max([base_dist.event_dim, *[t.event_dim for t in self._transforms]])
        super().__init__(event_dim=event_dim, validate_args=validate_args)

    def _transformed(self, x: Any) -> Any:
        for t in self._transforms:
            x = t(x)
        return x

    def sample(self, size: Any = None) -> Any:
        return self._transformed(self._base_dist.sample(self._of_base(size)))

    def sample_n(self, size: Any = None) -> Any:
        return self._transformed(self._base_dist.sample_n((*tuple_of(size), *self._missing())))

    def _missing(self) -> tuple[int, ...]:
        """The leading axes that the parameters have and the base distribution has not."""
        own, base = self._batch_shape(), self._base_dist._batch_shape()
        return own[: len(own) - len(base)] if len(own) > len(base) else ()

    def _of_base(self, size: Any) -> Any:
        return size if size is not None or not self._missing() else self._batch_shape()

    def _batch_shape(self) -> tuple[int, ...]:
        return super()._batch_shape() if self._parameters() else self._base_dist._batch_shape()

    def broadcast_to(self, batch_shape: Any) -> Any:
        new = super().broadcast_to(batch_shape)
        new._base_dist = self._base_dist.broadcast_to(batch_shape)
        return new

    def log_prob(self, value: Any) -> Any:
        log_prob: Any = 0.0
        y = value
        for t in reversed(self._transforms):
            x = t.inv(y)
            log_prob = log_prob - sum_right_most(
                t.log_det_jacobian(x, y), self.event_dim - t.event_dim
            )
            y = x
        base = self._base_dist.log_prob(y)
        return log_prob + sum_right_most(base, self.event_dim - self._base_dist.event_dim)

    def cdf(self, value: Any) -> Any:
        sign: Any = 1
        for t in reversed(self._transforms):
            value = t.inv(value)
            sign = sign * t.sign
        return sign * (self._base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Any) -> Any:
        sign: Any = 1
        for t in self._transforms:
            sign = sign * t.sign
        return self._transformed(self._base_dist.icdf(sign * (value - 0.5) + 0.5))
