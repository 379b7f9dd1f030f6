"""Transforms of an image (H, W, C) together with its boxes (N, 4+), which are (left, top, right, bottom, ...)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from mxjax import errors, np, npx

from ......block import Block
from .utils import (
    _check_bbox_shape,
    bbox_crop,
    bbox_flip,
    bbox_random_crop_with_constraints,
    bbox_resize,
    bbox_translate,
)

__all__ = [
    "ImageBboxCrop", "ImageBboxRandomCropWithConstraints", "ImageBboxRandomExpand", "ImageBboxRandomFlipLeftRight",
    "ImageBboxResize",
]  # fmt: skip


def _like(values: Any, given: Any, dtype: Any = None) -> Any:
    """An array of the kind (`mx.np`, `mx.nd`), the dtype and the device of one that is given."""
    made = np.array(values, dtype=dtype or given.dtype, device=given.device)
    return made if isinstance(given, np.ndarray) else made.as_nd_ndarray()


def _check_image(block: Block, img: Any) -> None:
    if len(img.shape) != 3:
        raise errors.MXNetNotImplementedError(
            f"{type(block).__name__} only support images in HWC format"
        )


class ImageBboxRandomFlipLeftRight(Block):
    """Mirrors with probability ``p``."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, img: Any, bbox: Any) -> tuple[Any, Any]:
        """The image and its boxes."""
        _check_bbox_shape(bbox)
        if self.p <= 0 or (self.p < 1 and self.p < random.random()):
            return img, bbox
        flipped = bbox_flip(bbox.asnumpy(), (img.shape[-2], img.shape[-3]), flip_x=True)
        return npx.image.flip_left_right(img), _like(flipped, bbox)


class ImageBboxCrop(Block):
    """The part (left, top, width, height), of images that are larger.

    Raises:
      AssertionError: ``crop`` is not four numbers that make a part.
    """

    def __init__(self, crop: Sequence[int], allow_outside_center: bool = False):
        super().__init__()
        if len(crop) != 4 or min(crop[:2]) < 0 or min(crop[2:]) <= 0:
            raise errors.MXNetAssertionError(f"crop is (x_min, y_min, width, height), got {crop}")
        self._crop = tuple(crop)
        self._allow_outside_center = allow_outside_center

    def forward(self, img: Any, bbox: Any) -> tuple[Any, Any]:
        """The image and its boxes."""
        left, top, width, height = self._crop
        if left + width >= img.shape[-2] or top + height >= img.shape[-3]:
            return img, bbox
        boxes = bbox_crop(bbox.asnumpy(), self._crop, self._allow_outside_center)
        return npx.image.crop(img, left, top, width, height), _like(boxes, bbox)


class ImageBboxRandomCropWithConstraints(Block):
    """A random part that overlaps with the boxes, with probability ``p`` (https://arxiv.org/abs/1512.02325).

    The other arguments are those of `utils.bbox_random_crop_with_constraints`.
    """

    def __init__(
        self,
        p: float = 0.5,
        min_scale: float = 0.3,
        max_scale: float = 1,
        max_aspect_ratio: float = 2,
        constraints: Any = None,
        max_trial: int = 50,
    ):
        super().__init__()
        self.p = p
        self._args = min_scale, max_scale, max_aspect_ratio, constraints, max_trial

    def forward(self, img: Any, bbox: Any) -> tuple[Any, Any]:
        """The image and its boxes."""
        if random.random() > self.p:
            return img, bbox
        size = img.shape[-2], img.shape[-3]
        boxes, crop = bbox_random_crop_with_constraints(bbox.asnumpy(), size, *self._args)
        if crop == (0, 0, *size):
            return img, bbox
        return npx.image.crop(img, *crop), _like(boxes, bbox)


class ImageBboxRandomExpand(Block):
    """Puts the image somewhere on a larger canvas, with probability ``p``.

    Args:
      p: the probability.
      max_ratio: the largest enlargement.
      fill: a number, or one for each channel, around the image.
      keep_ratio: width and height grow alike.

    Raises:
      ValueError (when called): not one number for each channel.
    """

    def __init__(
        self, p: float = 0.5, max_ratio: float = 4, fill: Any = 0, keep_ratio: bool = True
    ):
        super().__init__()
        self.p = p
        self._max_ratio = max_ratio
        self._fill = fill
        self._keep_ratio = keep_ratio

    def forward(self, img: Any, bbox: Any) -> tuple[Any, Any]:
        """The image and its boxes."""
        if self._max_ratio <= 1 or random.random() > self.p:
            return img, bbox
        _check_image(self, img)
        h, w, c = img.shape
        x_ratio = random.uniform(1, self._max_ratio)
        y_ratio = x_ratio if self._keep_ratio else random.uniform(1, self._max_ratio)
        height, width = int(h * y_ratio), int(w * x_ratio)
        top, left = random.randint(0, height - h), random.randint(0, width - w)
        fill = _like(self._fill, img)
        if fill.ndim and fill.size != c:
            raise errors.MXNetValueError(f"Channel and fill size mismatch, {c} vs {fill.size}")
        canvas = np.broadcast_to(fill, (height, width, c)).copy()
        canvas[top : top + h, left : left + w, :] = img
        return canvas, _like(bbox_translate(bbox.asnumpy(), left, top), bbox)


class ImageBboxResize(Block):
    """Resizes to (width, height); ``interp`` -1 is a random interpolation."""

    def __init__(self, width: int, height: int, interp: int = 1):
        super().__init__()
        self._size = (width, height)
        self._interp = interp

    def forward(self, img: Any, bbox: Any) -> tuple[Any, Any]:
        """The image and its boxes."""
        _check_image(self, img)
        interp = random.randint(0, 5) if self._interp == -1 else self._interp
        boxes = bbox_resize(bbox.asnumpy(), (img.shape[-2], img.shape[-3]), self._size)
        return npx.image.resize(img, self._size, False, interp), _like(boxes, bbox, "float32")
