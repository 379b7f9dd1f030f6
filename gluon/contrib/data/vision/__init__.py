"""Images with boxes."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import transforms
from .transforms import bbox
from .transforms.bbox import (
    ImageBboxCrop,
    ImageBboxRandomCropWithConstraints,
    ImageBboxRandomExpand,
    ImageBboxRandomFlipLeftRight,
    ImageBboxResize,
)

__all__ = [
    "ImageBboxCrop", "ImageBboxRandomCropWithConstraints", "ImageBboxRandomExpand", "ImageBboxRandomFlipLeftRight",
    "ImageBboxResize", "bbox", "transforms",
]  # fmt: skip

_explain_names(__name__)
