"""Layers that move values from channels to pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxjax import errors, nd, np

from ..layer import Layer
from ..legacy.symbols import is_symbol

__all__ = ["PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D"]


class _PixelShuffle(Layer):
    """What all of them share."""

    _dims = 2

    def __init__(self, factor: int | Sequence[int]):
        super().__init__()
        n = self._dims
        factors = (factor,) * n if not isinstance(factor, Sequence) else tuple(factor)
        if len(factors) != n:
            raise errors.MXNetAssertionError(f"factor is a number or {n} numbers, got {factor}")
        self._factors = tuple([int(f) for f in factors])

    def forward(self, x: Any) -> Any:
        """(N, f1 * f2 * C, H, W) becomes (N, C, f1 * H, f2 * W)."""
        factors = self._factors
        if is_symbol(x):
            return self._of_symbol(x)
        batch, channels, *space = x.shape
        total = math.prod(factors)
        if channels % total:
            raise errors.MXNetValueError(
                f"{type(self).__name__} takes channels that {total} divides, got {channels} (shape {x.shape})"
            )
        x = np.transpose(x.reshape((batch, channels // total, *factors, *space)), self._order())
        return x.reshape(
            (batch, channels // total, *[f * s for f, s in zip(factors, space, strict=True)])
        )

    def _order(self) -> tuple[int, ...]:
        """Each axis of space, then its factor."""
        return 0, 1, *[axis for k in range(self._dims) for axis in (2 + self._dims + k, 2 + k)]

    def _of_symbol(self, x: Any) -> Any:
        """The same by the codes of nd.reshape: 0 is an axis as it is, -4 divides one, -3 makes one of two."""
        space, factors = [0] * self._dims, self._factors
        x = nd.reshape(x, shape=[0, -4, -1, math.prod(factors), *space])
        for k in range(1, len(factors)):
            x = nd.reshape(
                x, shape=[0] * (k + 1) + [-4, factors[k - 1], math.prod(factors[k:]), *space]
            )
        return nd.reshape(nd.transpose(x, axes=self._order()), shape=[0, 0] + [-3] * self._dims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors if self._dims > 1 else self._factors[0]})"


class PixelShuffle1D(_PixelShuffle):
    """Enlarges by a factor: (N, f * C, W) becomes (N, C, f * W).

    >>> import mxjax as mx
    >>> mx.gluon.nn.PixelShuffle1D(2)(mx.np.zeros((1, 8, 3))).shape
    (1, 4, 6)
    """

    _dims = 1


class PixelShuffle2D(_PixelShuffle):
    """Enlarges by factors: (N, f1 * f2 * C, H, W) becomes (N, C, f1 * H, f2 * W) (https://arxiv.org/abs/1609.05158).

    Args:
      factor: how many times larger the image becomes on each axis, or one number for all.

    >>> import mxjax as mx
    >>> mx.gluon.nn.PixelShuffle2D((2, 3))(mx.np.zeros((1, 12, 3, 5))).shape
    (1, 2, 6, 15)
    """


class PixelShuffle3D(_PixelShuffle):
    """Enlarges by factors: (N, f1 * f2 * f3 * C, D, H, W) becomes (N, C, f1 * D, f2 * H, f3 * W).

    Args:
      factor: how many times larger the image becomes on each axis, or one number for all.
    """

    _dims = 3
