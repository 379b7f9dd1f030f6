"""Loaders of images with labels or boxes."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import dataloader, transforms
from .dataloader import (
    ImageBboxDataLoader,
    ImageDataLoader,
    create_bbox_augment,
    create_image_augment,
)
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
    "ImageBboxDataLoader", "ImageBboxResize", "ImageDataLoader", "bbox", "create_bbox_augment", "create_image_augment",
    "dataloader", "transforms",
]  # fmt: skip

_explain_names(__name__)
