"""Transformations from the real numbers to what a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxjax import errors

from ..distributions.constraint import (
    Constraint,
    GreaterThan,
    GreaterThanEq,
    HalfOpenInterval,
    Interval,
    LessThan,
    Positive,
    UnitInterval,
)
from .transformation import AffineTransform, ComposeTransform, ExpTransform, SigmoidTransform

__all__ = ["biject_to", "domain_map", "transform_to"]


class domain_map:  # noqa: N801
    """A table from kinds of constraints to transformations: ``domain_map()(constraint)``."""

    def __init__(self) -> None:
        self._storage: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Add the function that makes a transformation for constraints of a class; a decorator without it.

        Raises:
          TypeError: no constraint.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise errors.MXNetTypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._storage[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Any:
        try:
            factory = self._storage[type(constraint)]
        except KeyError:
            raise errors.MXNetNotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = domain_map()
transform_to = domain_map()


def _positive(constraint: Any) -> Any:
    return ExpTransform()


def _greater(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint._lower_bound, 1)])


def _less(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint._upper_bound, -1)])


def _interval(constraint: Any) -> Any:
    low, high = constraint._lower_bound, constraint._upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


_KINDS: dict[type[Constraint], Callable[[Any], Any]] = {
    Positive: _positive, GreaterThan: _greater, GreaterThanEq: _greater, LessThan: _less, Interval: _interval,
    HalfOpenInterval: _interval, UnitInterval: _interval,
}  # fmt: skip
for _kind, _factory in _KINDS.items():
    biject_to.register(_kind, _factory)
    transform_to.register(_kind, _factory)
