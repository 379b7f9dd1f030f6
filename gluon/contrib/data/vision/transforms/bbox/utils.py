"""Functions of boxes: NumPy arrays (N, 4+), of which the first four columns are the corners."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxjax import errors

__all__ = [
    "bbox_clip_xyxy", "bbox_crop", "bbox_flip", "bbox_iou", "bbox_random_crop_with_constraints", "bbox_resize",
    "bbox_translate", "bbox_xywh_to_xyxy", "bbox_xyxy_to_xywh",
]  # fmt: skip

Box = tuple[int, int, int, int]


def _check_bbox_shape(bbox: Any) -> None:
    if len(bbox.shape) != 2 or bbox.shape[1] < 4:
        raise errors.MXNetAssertionError(f"bbox requires shape of (N, 4+), given: {bbox.shape}")


def _check_two(name: str, size: Any) -> None:
    if len(size) != 2:
        raise errors.MXNetValueError(f"{name} requires length 2 tuple, given {len(size)}")


def bbox_crop(
    bbox: np.ndarray, crop_box: Any = None, allow_outside_center: bool = True
) -> np.ndarray:
    """The boxes in the part (left, top, width, height) of an image, cut at its borders.

    Args:
      bbox: (N, 4+).
      crop_box: the part; None in it: as far as it goes.
      allow_outside_center: keep boxes whose center is outside.

    Raises:
      ValueError: ``crop_box`` has not four numbers.
    """
    bbox = bbox.copy()
    if crop_box is None:
        return bbox
    if len(crop_box) != 4:
        raise errors.MXNetValueError(
            f"Invalid crop_box parameter, requires length 4, given {crop_box}"
        )
    if all(c is None for c in crop_box):
        return bbox
    left, top, width, height = crop_box
    low = np.array([left or 0, top or 0])
    high = low + np.array([width or np.inf, height or np.inf])
    kept = np.ones(len(bbox), bool)
    if not allow_outside_center:
        centers = (bbox[:, :2] + bbox[:, 2:4]) / 2
        kept = ((low <= centers) & (centers < high)).all(axis=1)
    bbox[:, :2] = np.maximum(bbox[:, :2], low) - low
    bbox[:, 2:4] = np.minimum(bbox[:, 2:4], high) - low
    return bbox[kept & (bbox[:, :2] < bbox[:, 2:4]).all(axis=1)]


def bbox_flip(
    bbox: np.ndarray, size: Sequence[int], flip_x: bool = False, flip_y: bool = False
) -> np.ndarray:
    """The boxes of an image (width, height) that is mirrored.

    Raises:
      ValueError: ``size`` has not two numbers.
    """
    _check_two("size", size)
    bbox = bbox.copy()
    for axis, flips in ((0, flip_x), (1, flip_y)):
        if flips:
            bbox[:, [axis, axis + 2]] = size[axis] - bbox[:, [axis + 2, axis]]
    return bbox


def bbox_resize(bbox: np.ndarray, in_size: Sequence[int], out_size: Sequence[int]) -> np.ndarray:
    """The boxes of an image that is resized from (width, height) to another, as floats.

    Raises:
      ValueError: a size that has not two numbers.
    """
    _check_two("in_size", in_size)
    _check_two("out_size", out_size)
    bbox = bbox.copy().astype(float)
    for axis in (0, 1):
        bbox[:, [axis, axis + 2]] *= out_size[axis] / in_size[axis]
    return bbox


def bbox_translate(bbox: np.ndarray, x_offset: float = 0, y_offset: float = 0) -> np.ndarray:
    """The boxes moved.

    >>> bbox_translate(np.array([[1, 2, 3, 4]]), 10, 20).tolist()
    [[11, 22, 13, 24]]
    """
    bbox = bbox.copy()
    bbox[:, :4] += np.array([x_offset, y_offset] * 2, dtype=bbox.dtype)
    return bbox


def bbox_iou(bbox_a: np.ndarray, bbox_b: np.ndarray, offset: float = 0) -> np.ndarray:
    """Intersections over unions (N, M); ``offset`` 1 where the last pixel belongs to a box.

    Raises:
      IndexError: boxes of less than four numbers.
    """
    if bbox_a.shape[1] < 4 or bbox_b.shape[1] < 4:
        raise errors.MXNetIndexError("Bounding boxes axis 1 must have at least length 4")
    low = np.maximum(bbox_a[:, None, :2], bbox_b[:, :2])
    high = np.minimum(bbox_a[:, None, 2:4], bbox_b[:, 2:4])
    both = np.prod(high - low + offset, axis=2) * (low < high).all(axis=2)
    one = np.prod(bbox_a[:, 2:4] - bbox_a[:, :2] + offset, axis=1)
    other = np.prod(bbox_b[:, 2:4] - bbox_b[:, :2] + offset, axis=1)
    return both / (one[:, None] + other - both)


def _of_both(boxes: Any, fn: Callable[[Any], tuple[Any, ...]]) -> Any:
    """A function of columns, of one box (a tuple or list) or of an array of them."""
    if isinstance(boxes, (tuple, list)):
        if len(boxes) != 4:
            raise errors.MXNetIndexError(f"Bounding boxes must have 4 elements, given {len(boxes)}")
        return fn(boxes)
    if not isinstance(boxes, np.ndarray):
        raise errors.MXNetTypeError(
            f"Expect boxes as a list, tuple or numpy.ndarray, given {type(boxes)}"
        )
    if boxes.size % 4:
        raise errors.MXNetIndexError(
            f"Bounding boxes must have n * 4 elements, given {boxes.shape}"
        )
    return np.stack(fn(boxes.T[:4]), axis=1)


def bbox_xywh_to_xyxy(xywh: Any) -> Any:
    """Corners of boxes that are given by a corner and sizes; the last pixel belongs to the box.

    >>> bbox_xywh_to_xyxy((1, 2, 10, 20))
    (1, 2, 10, 21)
    """

    def corners(b: Any) -> tuple[Any, ...]:
        if isinstance(b[2], np.ndarray):
            return b[0], b[1], b[0] + np.maximum(0, b[2] - 1), b[1] + np.maximum(0, b[3] - 1)
        return b[0], b[1], b[0] + max(0, b[2] - 1), b[1] + max(0, b[3] - 1)

    return _of_both(xywh, corners)


def bbox_xyxy_to_xywh(xyxy: Any) -> Any:
    """A corner and sizes of boxes that are given by their corners; the last pixel belongs to the box.

    >>> bbox_xyxy_to_xywh((1, 2, 10, 21))
    (1, 2, 10, 20)
    """
    return _of_both(xyxy, lambda b: (b[0], b[1], b[2] - b[0] + 1, b[3] - b[1] + 1))


def bbox_clip_xyxy(xyxy: Any, width: float, height: float) -> Any:
    """Boxes cut at the borders of an image. An array stays (N, 4), where MXNet gives one long row."""

    def inside(x: Any, most: float) -> Any:
        return np.minimum(most - 1, np.maximum(0, x))

    return _of_both(
        xyxy,
        lambda b: (
            inside(b[0], width),
            inside(b[1], height),
            inside(b[2], width),
            inside(b[3], height),
        ),
    )


#: Overlaps with all boxes that a random part of an image may have (https://arxiv.org/abs/1512.02325).
_OVERLAPS = ((0.1, None), (0.3, None), (0.5, None), (0.7, None), (0.9, None), (None, 1))


def bbox_random_crop_with_constraints(
    bbox: np.ndarray,
    size: Sequence[int],
    min_scale: float = 0.3,
    max_scale: float = 1,
    max_aspect_ratio: float = 2,
    constraints: Any = None,
    max_trial: int = 50,
) -> tuple[np.ndarray, Box]:
    """A random part (left, top, width, height) of an image, and the boxes in it (https://arxiv.org/abs/1512.02325).

    Args:
      bbox: (N, 4+).
      size: width and height of the image.
      min_scale, max_scale: of the part's sides.
      max_aspect_ratio: between them.
      constraints: pairs (least, most) of overlaps with the boxes, one of which is chosen.
      max_trial: how often a part is drawn for each of them.
    """
    width, height = size
    candidates: list[Box] = [(0, 0, width, height)]
    for least, most in _OVERLAPS if constraints is None else constraints:
        least = -np.inf if least is None else least
        most = np.inf if most is None else most
        for _ in range(max_trial):
            scale = random.uniform(min_scale, max_scale)
            square = scale * scale
            ratio = (
                random.uniform(max(1 / max_aspect_ratio, square), min(max_aspect_ratio, 1 / square))
                ** 0.5
            )
            h, w = int(height * scale / ratio), int(width * scale * ratio)
            top, left = random.randrange(max(height - h, 1)), random.randrange(max(width - w, 1))
            if len(bbox) == 0:
                return bbox, (left, top, w, h)
            overlap = bbox_iou(bbox, np.array([[left, top, left + w, top + h]]))
            if least <= overlap.min() and overlap.max() <= most:
                candidates.append((left, top, w, h))
                break
    while candidates:
        crop = candidates.pop(random.randrange(len(candidates)))
        kept = bbox_crop(bbox, crop, allow_outside_center=False)
        if kept.size:
            return kept, crop
    return bbox, (0, 0, width, height)
