"""What parameters and values of distributions must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors, np

from .utils import constraint_check

__all__ = [
    "Boolean", "Cat", "Constraint", "GreaterThan", "GreaterThanEq", "HalfOpenInterval", "IntegerGreaterThan",
    "IntegerGreaterThanEq", "IntegerHalfOpenInterval", "IntegerInterval", "IntegerLessThan", "IntegerLessThanEq",
    "IntegerOpenInterval", "Interval", "LessThan", "LessThanEq", "LowerCholesky", "LowerTriangular", "NonNegative",
    "NonNegativeInteger", "OpenInterval", "Positive", "PositiveDefinite", "PositiveInteger", "Real", "Simplex", "Stack",
    "UnitInterval",
]  # fmt: skip


class Constraint:
    """A region of values; `check` gives the value back, or raises ValueError (where numbers are read)."""

    def _holds(self, value: Any) -> Any:
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define check()")

    def _says(self) -> str:
        return f"be {type(self).__name__}"

    def check(self, value: Any) -> Any:
        """The value, if it is in the region.

        Raises:
          ValueError: it is not.
        """
        return (
            constraint_check()(
                self._holds(value), f"Constraint violated: values should {self._says()}"
            )
            * value
        )


class _Dependent(Constraint):
    """A support that depends on the parameters."""

    def check(self, value: Any) -> Any:
        raise errors.MXNetValueError("Cannot validate dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether the support depends on the parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of distributions that is a dependent constraint of their class."""


dependent_property = _DependentProperty


class Real(Constraint):
    """Numbers, not NaN."""

    def _holds(self, value: Any) -> Any:
        return value == value

    def _says(self) -> str:
        return "be real"


class Boolean(Constraint):
    """0 or 1."""

    def _holds(self, value: Any) -> Any:
        return (value == 0) | (value == 1)

    def _says(self) -> str:
        return "be 0 or 1"


class _Bounded(Constraint):
    """Between bounds, which belong to the region or not; whole numbers or all."""

    _lower_bound: Any = None
    _upper_bound: Any = None
    _lower_open = _upper_open = _integer = False

    def _holds(self, value: Any) -> Any:
        holds: Any = True
        if self._integer:
            holds = value % 1 == 0
        if self._lower_bound is not None:
            low = value > self._lower_bound if self._lower_open else value >= self._lower_bound
            holds = low if holds is True else holds & low
        if self._upper_bound is not None:
            high = value < self._upper_bound if self._upper_open else value <= self._upper_bound
            holds = high if holds is True else holds & high
        return holds

    def _says(self) -> str:
        parts = ["integer"] if self._integer else []
        signs = ">" if self._lower_open else ">=", "<" if self._upper_open else "<="
        for bound, sign in zip((self._lower_bound, self._upper_bound), signs, strict=True):
            if bound is not None:  # an array's numbers would have to be waited for
                parts.append(f"{sign} {bound if isinstance(bound, (int, float)) else 'the bound'}")
        return f"be {' and '.join(parts)}"


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any):
        self._lower_bound = lower_bound
        self._upper_bound = upper_bound


class _Above(_Bounded):
    def __init__(self, lower_bound: Any):
        self._lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any):
        self._upper_bound = upper_bound


class Interval(_Between):
    """At least the lower and at most the upper bound.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """


class OpenInterval(_Between):
    """Between the bounds.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """

    _lower_open = _upper_open = True


class HalfOpenInterval(_Between):
    """At least the lower, less than the upper bound.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """

    _upper_open = True


class IntegerInterval(_Between):
    """Whole numbers, at least the lower and at most the upper bound.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """

    _integer = True


class IntegerOpenInterval(_Between):
    """Whole numbers between the bounds.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """

    _lower_open = _upper_open = _integer = True


class IntegerHalfOpenInterval(_Between):
    """Whole numbers, at least the lower, less than the upper bound.

    Args:
      lower_bound: what values are compared with from below.
      upper_bound: what values are compared with from above.
    """

    _upper_open = _integer = True


class GreaterThan(_Above):
    """More than the bound.

    Args:
      lower_bound: what values are compared with from below.
    """

    _lower_open = True


class GreaterThanEq(_Above):
    """At least the bound.

    Args:
      lower_bound: what values are compared with from below.
    """


class LessThan(_Below):
    """Less than the bound.

    Args:
      upper_bound: what values are compared with from above.
    """

    _upper_open = True


class LessThanEq(_Below):
    """At most the bound.

    Args:
      upper_bound: what values are compared with from above.
    """


class IntegerGreaterThan(_Above):
    """Whole numbers, more than the bound.

    Args:
      lower_bound: what values are compared with from below.
    """

    _lower_open = _integer = True


class IntegerGreaterThanEq(_Above):
    """Whole numbers, at least the bound.

    Args:
      lower_bound: what values are compared with from below.
    """

    _integer = True


class IntegerLessThan(_Below):
    """Whole numbers, less than the bound.

    Args:
      upper_bound: what values are compared with from above.
    """

    _upper_open = _integer = True


class IntegerLessThanEq(_Below):
    """Whole numbers, at most the bound.

    Args:
      upper_bound: what values are compared with from above.
    """

    _integer = True


class UnitInterval(Interval):
    """From 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)


class Positive(GreaterThan):
    """More than zero."""

    def __init__(self) -> None:
        super().__init__(0)


class NonNegative(GreaterThanEq):
    """At least zero."""

    def __init__(self) -> None:
        super().__init__(0)


class PositiveInteger(IntegerGreaterThan):
    """1, 2, ..."""

    def __init__(self) -> None:
        super().__init__(0)


class NonNegativeInteger(IntegerGreaterThanEq):
    """0, 1, ..."""

    def __init__(self) -> None:
        super().__init__(0)


class Simplex(Constraint):
    """At least zero, with a sum of one along the last axis."""

    def _holds(self, value: Any) -> Any:
        return np.all(value >= 0, axis=-1) & (np.abs(value.sum(-1) - 1) < 1e-6)

    def check(self, value: Any) -> Any:
        """The value, if it is in the region."""
        message = "Constraint violated: values should be >= 0 and their rightmost dimension should sum up to 1"
        return constraint_check()(self._holds(value), message) * value


class LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    def _holds(self, value: Any) -> Any:
        return np.tril(value) == value

    def _says(self) -> str:
        return "be square lower triangular matrices"


class LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    def _holds(self, value: Any) -> Any:
        return np.all(np.tril(value) == value, axis=-1) & (
            np.diagonal(value, axis1=-2, axis2=-1) > 0
        )

    def _says(self) -> str:
        return "be square lower triangular matrices with real and positive diagonal entries"


class PositiveDefinite(Constraint):
    """Symmetric matrices with positive eigenvalues."""

    def _holds(self, value: Any) -> Any:
        symmetric = np.all(np.abs(value - np.swapaxes(value, -1, -2)) < 1e-5, axis=-1)
        return symmetric & (np.linalg.eigvalsh(value) > 0)

    def _says(self) -> str:
        return "be positive definite matrices"


class Cat(Constraint):
    """One constraint after the other along an axis, each for so many values.

    Args:
      constraint_seq: the constraints.
      axis: the axis along which values are joined.
      lengths: the numbers of samples.

    Raises:
      AssertionError: no constraints, or not as many lengths.
    """

    def __init__(
        self,
        constraint_seq: Sequence[Constraint],
        axis: int = 0,
        lengths: Sequence[int] | None = None,
    ):
        self._constraint_seq = _sequence(constraint_seq)
        self._lengths = [1] * len(self._constraint_seq) if lengths is None else list(lengths)
        if len(self._lengths) != len(self._constraint_seq):
            raise errors.MXNetAssertionError(
                f"The number of lengths {len(self._lengths)} should be equal to number of constraints "
                f"{len(self._constraint_seq)}"
            )
        self._axis = axis

    def check(self, value: Any) -> Any:
        """The value, if all parts are in their regions."""
        parts, start = [], 0
        for constraint, length in zip(self._constraint_seq, self._lengths, strict=True):
            part = np.take(value, np.arange(start, start + length, dtype="int32"), axis=self._axis)
            parts.append(constraint.check(part))
            start += length
        return np.concatenate(parts, self._axis)


class Stack(Constraint):
    """One constraint for each place along an axis.

    Args:
      constraint_seq: the constraints.
      axis: the axis along which values are joined.

    Raises:
      AssertionError: no constraints.
    """

    def __init__(self, constraint_seq: Sequence[Constraint], axis: int = 0):
        self._constraint_seq = _sequence(constraint_seq)
        self._axis = axis

    def check(self, value: Any) -> Any:
        """The value, if all parts are in their regions."""
        rows = np.moveaxis(value, self._axis, 0)
        parts = [constraint.check(rows[k]) for k, constraint in enumerate(self._constraint_seq)]
        return np.stack(parts, self._axis)


def _sequence(constraints: Sequence[Constraint]) -> list[Constraint]:
    if not all(isinstance(c, Constraint) for c in constraints):
        raise errors.MXNetAssertionError(f"a sequence of constraints, got {constraints!r}")
    return list(constraints)
