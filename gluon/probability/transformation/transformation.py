"""Functions of random variables, with inverses and determinants."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from mxjax import errors, np, npx

from ...hybrid_block import HybridBlock
from ..distributions.utils import _clip_prob, cached_property, softplus, sum_right_most

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftmaxTransform", "TransformBlock", "Transformation",
]  # fmt: skip


class Transformation:
    """A function ``y = t(x)`` of arrays; ``t.inv`` is its inverse.

    One of your own defines `_forward_compute`, `_inverse_compute` and `log_det_jacobian`.
    """

    bijective = False
    event_dim: Any = 0

    def __init__(self) -> None:
        self._inv: Any = None
        super().__init__()

    @property
    def sign(self) -> Any:
        """The sign of the derivative, where there is one for all values."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} is not monotonic")

    @property
    def inv(self) -> Any:
        """The inverse."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _Inverse(self)
            self._inv = weakref.ref(inverse)
        return inverse

    def __call__(self, x: Any) -> Any:
        return self._forward_compute(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inverse_compute(y)

    def _forward_compute(self, x: Any) -> Any:
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define _forward_compute()"
        )

    def _inverse_compute(self, y: Any) -> Any:
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define _inverse_compute()"
        )

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det(dy / dx)| for y = t(x)."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define log_det_jacobian()"
        )


class _Inverse(Transformation):
    """The inverse of another transformation."""

    def __init__(self, forward: Transformation):
        super().__init__()
        self._inv = forward

    @property
    def inv(self) -> Any:
        return self._inv

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self._inv.event_dim

    def __call__(self, x: Any) -> Any:
        return self._inv._inverse_compute(x)

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_det_jacobian(y, x)


class TransformBlock(Transformation, HybridBlock):
    """A transformation with parameters."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)


class ComposeTransform(Transformation):
    """One transformation after the other.

    Args:
      parts: the transformations, the first one first.
    """

    def __init__(self, parts: Sequence[Transformation]):
        super().__init__()
        self._parts = list(parts)

    def _forward_compute(self, x: Any) -> Any:
        for t in self._parts:
            x = t(x)
        return x

    @cached_property
    def sign(self) -> Any:
        """The product of the parts'."""
        sign: Any = 1
        for t in self._parts:
            sign = sign * t.sign
        return sign

    @cached_property
    def event_dim(self) -> Any:
        """The largest of the parts'."""
        return max([t.event_dim for t in self._parts], default=0)

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([t.inv for t in reversed(self._parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self._parts:
            return np.zeros_like(x)
        found: Any = 0
        for k, t in enumerate(self._parts):
            after = y if k == len(self._parts) - 1 else t(x)
            found = found + sum_right_most(
                t.log_det_jacobian(x, after), self.event_dim - t.event_dim
            )
            x = after
        return found


class ExpTransform(Transformation):
    """exp(x)."""

    bijective = True
    sign: Any = 1

    def _forward_compute(self, x: Any) -> Any:
        return np.exp(x)

    def _inverse_compute(self, y: Any) -> Any:
        return np.log(y)

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class AffineTransform(Transformation):
    """loc + scale * x.

    Args:
      loc: what is added.
      scale: the factor, not 0.
      event_dim: how many axes belong to one event.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0):
        super().__init__()
        self._loc = loc
        self._scale = scale
        self.event_dim = event_dim

    def _forward_compute(self, x: Any) -> Any:
        return self._loc + self._scale * x

    def _inverse_compute(self, y: Any) -> Any:
        return (y - self._loc) / self._scale

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_right_most(np.ones_like(x) * np.log(np.abs(self._scale)), self.event_dim)

    @property
    def sign(self) -> Any:
        return np.sign(self._scale)


class PowerTransform(Transformation):
    """x ** exponent, of positive numbers.

    Args:
      exponent: the exponent.
    """

    bijective = True
    sign: Any = 1

    def __init__(self, exponent: Any):
        super().__init__()
        self._exponent = exponent

    def _forward_compute(self, x: Any) -> Any:
        return np.power(x, self._exponent)

    def _inverse_compute(self, y: Any) -> Any:
        return np.power(y, 1 / self._exponent)

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return np.log(np.abs(self._exponent * y / x))


class SigmoidTransform(Transformation):
    """1 / (1 + exp(-x))."""

    bijective = True
    sign: Any = 1

    def _forward_compute(self, x: Any) -> Any:
        return _clip_prob(npx.sigmoid(x))

    def _inverse_compute(self, y: Any) -> Any:
        clipped = _clip_prob(y)
        return np.log(clipped) - np.log1p(-clipped)

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftmaxTransform(Transformation):
    """The softmax over the last axis; not bijective."""

    event_dim = 1

    def _forward_compute(self, x: Any) -> Any:
        return npx.softmax(x, axis=-1)

    def _inverse_compute(self, y: Any) -> Any:
        return np.log(y)


class AbsTransform(Transformation):
    """The absolute value; not bijective."""

    def _forward_compute(self, x: Any) -> Any:
        return np.abs(x)

    def _inverse_compute(self, y: Any) -> Any:
        return y
