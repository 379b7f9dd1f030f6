"""Layers."""

from __future__ import annotations

import sys
from typing import Any

from mxjax.errors import no_name as _no_name

from ..block import Block
from ..hybrid_block import HybridBlock
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, SiLU, Swish
from .basic import (
    Concatenate,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    HybridConcatenate,
    HybridLambda,
    HybridSequential,
    Identity,
    Lambda,
    Sequential,
)
from .conv import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from .deformable import DeformableConvolution, ModulatedDeformableConvolution
from .norm import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
from .shuffle import PixelShuffle1D, PixelShuffle2D, PixelShuffle3D
from .sync_norm import SyncBatchNorm

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Activation",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "BatchNorm",
    "BatchNormReLU",
    "Block",
    "Concatenate",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "DeformableConvolution",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GroupNorm",
    "HybridBlock",
    "HybridConcatenate",
    "HybridLambda",
    "HybridSequential",
    "Identity",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "LeakyReLU",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ModulatedDeformableConvolution",
    "PReLU",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "ReflectionPad2D",
    "SELU",
    "Sequential",
    "SiLU",
    "Swish",
    "SymbolBlock",
    "SyncBatchNorm",
]


def __getattr__(name: str) -> Any:
    if name == "SymbolBlock":
        from ..symbol_block import SymbolBlock

        return SymbolBlock
    if name in (
        "activations",
        "basic_layers",
        "conv_layers",
    ):  # MXNet's modules: their layers are all here
        return sys.modules[__name__]
    raise _no_name(__name__, name)
