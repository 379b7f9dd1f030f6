"""Layers under the names of 1.x."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from ...nn import (
    Concatenate,
    HybridConcatenate,
    Identity,
    PixelShuffle1D,
    PixelShuffle2D,
    PixelShuffle3D,
    SyncBatchNorm,
)

Concurrent = Concatenate
HybridConcurrent = HybridConcatenate

__all__ = [
    "Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D",
    "SyncBatchNorm",
]  # fmt: skip

_explain_names(__name__)
