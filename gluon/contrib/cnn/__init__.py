"""Convolutions where 1.x has them."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from ...nn import DeformableConvolution, ModulatedDeformableConvolution
from ...nn import deformable as conv_layers

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution", "conv_layers"]

_explain_names(__name__)
