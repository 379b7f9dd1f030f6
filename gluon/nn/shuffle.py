"""Layers that move values from channels to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors, np

from ..hybrid_block import HybridBlock

__all__ = ["PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D"]


class _PixelShuffle(HybridBlock):
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
        n, factors = self._dims, self._factors
        batch, channels, *space = x.shape
        total = 1
        for f in factors:
            total *= f
        if channels % total:
            raise errors.MXNetValueError(
                f"{type(self).__name__} takes channels that {total} divides, got {channels} (shape {x.shape})"
            )
        x = x.reshape((batch, channels // total, *factors, *space))
        order = [0, 1]
        for k in range(n):  # each axis of space, then its factor
            order += [2 + n + k, 2 + k]
        x = np.transpose(x, order)
        return x.reshape((batch, channels // total, *[f * s for f, s in zip(factors, space, strict=True)]))

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

    >>> import mxjax as mx
    >>> mx.gluon.nn.PixelShuffle2D((2, 3))(mx.np.zeros((1, 12, 3, 5))).shape
    (1, 2, 6, 15)
    """


class PixelShuffle3D(_PixelShuffle):
    """Enlarges by factors: (N, f1 * f2 * f3 * C, D, H, W) becomes (N, C, f1 * D, f2 * H, f3 * W)."""

    _dims = 3
