"""Transformations of random variables."""

from __future__ import annotations

from . import transformation
from .domain_map import biject_to, domain_map, transform_to
from .transformation import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    Transformation,
    TransformBlock,
)

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftmaxTransform", "TransformBlock", "Transformation", "biject_to", "domain_map", "domain_map", "transform_to",
    "transformation",
]  # fmt: skip
