"""Transforms of images with boxes, and functions of boxes alone (`utils`)."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import bbox, utils
from .bbox import (
    ImageBboxCrop,
    ImageBboxRandomCropWithConstraints,
    ImageBboxRandomExpand,
    ImageBboxRandomFlipLeftRight,
    ImageBboxResize,
)

__all__ = [
    "ImageBboxCrop", "ImageBboxRandomCropWithConstraints", "ImageBboxRandomExpand", "ImageBboxRandomFlipLeftRight",
    "ImageBboxResize", "bbox", "utils",
]  # fmt: skip

_explain_names(__name__)
