"""The base of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from mxjax import errors, np

from .utils import cached_property, shape_of, spread, tuple_of

__all__ = ["Distribution"]


class Distribution:
    """A distribution with parameters that are arrays or numbers, which broadcast against each other.

    Args:
      event_dim: how many of the last axes of a sample belong together.
      validate_args: whether parameters and values are checked.

    Raises:
      ValueError: with ``validate_args``, parameters that are not allowed (where the numbers are read).
    """

    #: Samples are differentiable functions of the parameters.
    has_grad = False
    support: Any = None
    has_enumerate_support = False
    #: What each parameter must be.
    arg_constraints: dict[str, Any] = {}
    #: The parameters whose last axis is that of an event.
    _of_events: tuple[str, ...] = ()
    _validate_args = False

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their parameters when nothing else is said.

        Raises:
          ValueError: neither True nor False.
        """
        if value not in (True, False):
            raise errors.MXNetValueError(f"True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, event_dim: int | None = None, validate_args: bool | None = None):
        self.event_dim = event_dim
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                derived = isinstance(getattr(type(self), name, None), (cached_property, property))
                if derived and name not in self.__dict__:
                    continue  # it follows from the others
                setattr(self, name, constraint.check(getattr(self, name)))

    def _parameters(self) -> dict[str, Any]:
        """The parameters that were given."""
        return {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}

    def _batch_shape(self) -> tuple[int, ...]:
        import numpy

        shapes = [
            shape_of(x)[:-1] if name in self._of_events else shape_of(x)
            for name, x in self._parameters().items()
        ]
        return numpy.broadcast_shapes(*shapes)

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_samples(value)
        return value

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability of ``value``."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no log_prob")

    def pdf(self, value: Any) -> Any:
        """The density or probability of ``value``."""
        return np.exp(self.log_prob(value))

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Any) -> Any:
        """Where the cumulative probability is ``value``."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no icdf")

    def _draw(self, shape: tuple[int, ...]) -> Any:
        """Samples whose batch has this shape."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} cannot be sampled")

    def sample(self, size: int | Sequence[int] | None = None) -> Any:
        """Samples of shape ``size``, which the parameters broadcast to; None: one for each."""
        return self._draw(self._batch_shape() if size is None else tuple_of(size))

    def sample_n(self, size: int | Sequence[int] | None = None) -> Any:
        """``size`` samples for each of the parameters."""
        return self._draw((*tuple_of(size), *self._batch_shape()))

    def broadcast_to(self, batch_shape: Sequence[int]) -> Any:
        """The distribution with parameters of this shape."""
        new = self.__new__(type(self))
        given = self._parameters()
        new.__dict__.update(
            {k: v for k, v in self.__dict__.items() if k not in self.arg_constraints}
        )
        for name, x in given.items():
            setattr(new, name, spread(x, batch_shape, 1 if name in self._of_events else 0))
        return new

    def enumerate_support(self) -> Any:
        """All values there are, along the first axis."""
        raise errors.MXNetNotImplementedError(
            f"the values of {type(self).__name__} cannot be enumerated"
        )

    @property
    def mean(self) -> Any:
        """The mean."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return np.sqrt(self.variance)

    def entropy(self) -> Any:
        """The (differential) entropy, in nats."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return np.exp(self.entropy())

    def __repr__(self) -> str:
        says = [
            f"{name}: size {() if isinstance(x, Number) else x.shape}"
            for name, x in self._parameters().items()
        ]
        return f"{type(self).__name__}({', '.join([*says, f'event_dim: {self.event_dim}'])})"

    def _validate_samples(self, value: Any) -> Any:
        return self.support.check(value)
