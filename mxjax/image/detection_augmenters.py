"""Augmenters of pictures with objects, which keep the boxes right."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from math import sqrt
from numbers import Number
from typing import Any

import numpy as np

from ..errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from .augment import (
    Augmenter,
    ForceResizeAug,
    ResizeAug,
    colour_augmenters,
    plain,
)
from .functions import copyMakeBorder, fixed_crop, part


class DetAugmenter:
    """The base of augmenters of pictures with boxes: a subclass defines `__call__(src, label)`, which gives both."""

    def __init__(self, **kwargs: Any):
        self._kwargs = plain(kwargs)

    def dumps(self) -> Any:
        """Name and parameters, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __call__(src, label)")


class DetBorrowAug(DetAugmenter):
    """An augmenter of pictures that moves nothing."""

    def __init__(self, augmenter: Augmenter):
        if not isinstance(augmenter, Augmenter):
            raise MXNetTypeError(f"DetBorrowAug takes an Augmenter, got {type(augmenter).__name__}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters; with probability `skip_prob` none."""

    def __init__(self, aug_list: Any, skip_prob: float = 0):
        super().__init__(skip_prob=skip_prob)
        aug_list = list(aug_list) if isinstance(aug_list, list | tuple) else [aug_list]
        for each in aug_list:
            if not isinstance(each, DetAugmenter):
                raise MXNetValueError(
                    f"DetRandomSelectAug takes DetAugmenters, got {type(each).__name__}"
                )
        self.aug_list = aug_list
        self.skip_prob = skip_prob if aug_list else 1

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), [each.dumps() for each in self.aug_list]]

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrored, with probability `p`; the label is written into, as in MXNet."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        if random.random() < self.p:
            src = part(src, (slice(None), slice(None, None, -1)))
            self._flip_label(label)
        return src, label

    def _flip_label(self, label: np.ndarray) -> None:
        """Mirror the boxes of a label, in it; subclasses override it."""
        label[:, [1, 3]] = 1.0 - label[:, [3, 1]]


def _range(given: Any, name: str, owner: str) -> tuple[float, float]:
    if isinstance(given, tuple | list):
        return given  # type: ignore[return-value]
    if not isinstance(given, Number):
        raise MXNetAssertionError(f"{owner}: {name} must be a number or a pair, got {given!r}")
    return given, given  # type: ignore[return-value]


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.maximum(0, boxes[:, 3] - boxes[:, 1]) * np.maximum(0, boxes[:, 2] - boxes[:, 0])


def _enabled(owner: str, area: Any, ratio: Any, above: float) -> bool:
    """Whether the ranges can be met; one that cannot is said, and the augmenter does nothing."""
    for name, given, wrong in (
        ("area_range", area, area[1] <= above or area[0] > area[1]),
        ("aspect_ratio_range", ratio, ratio[0] > ratio[1] or ratio[0] <= 0),
    ):
        if wrong:
            warnings.warn(f"Skip {owner} due to invalid {name}: {given}", stacklevel=3)
            return False
    return True


def _attempts(of: Any, height: int, width: int) -> Iterator[tuple[float, int, int]]:
    """Proportions, drawn one by one, with the heights at which a box has the least and the largest area allowed."""
    if not of.enabled or height <= 0 or width <= 0:
        return
    least, most = (part * height * width for part in of.area_range)
    for _ in range(of.max_attempts):
        ratio = random.uniform(*of.aspect_ratio_range)
        if ratio > 0:
            yield ratio, round(sqrt(least / ratio)), round(sqrt(most / ratio))


class DetRandomCropAug(DetAugmenter):
    """A random part that covers enough of each object that it touches.

    Args:
      min_object_covered: the least part of every object that is touched.
      aspect_ratio_range: the smallest and largest width / height of the part.
      area_range: the smallest and largest part of the picture's area.
      min_eject_coverage: objects of which less is left are dropped.
      max_attempts: draws, before the picture is left as it is.

    Liu et al.: SSD: Single Shot MultiBox Detector, 2016.
    """

    def __init__(
        self, min_object_covered: float = 0.1, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3, max_attempts: int = 50,
    ):  # fmt: skip
        aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range", "DetRandomCropAug")
        area_range = _range(area_range, "area_range", "DetRandomCropAug")
        super().__init__(
            min_object_covered=min_object_covered, aspect_ratio_range=aspect_ratio_range, area_range=area_range,
            min_eject_coverage=min_eject_coverage, max_attempts=max_attempts,
        )  # fmt: skip
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage
        self.max_attempts = max_attempts
        self.aspect_ratio_range = aspect_ratio_range
        self.area_range = area_range
        self.enabled = _enabled("DetRandomCropAug", area_range, aspect_ratio_range, 0)

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        found = self._random_crop_proposal(label, src.shape[0], src.shape[1])
        if found:
            *box, label = found
            src = fixed_crop(src, *box)
        return src, label

    def _calculate_areas(self, label: np.ndarray) -> np.ndarray:
        """The areas of boxes (xmin, ymin, xmax, ymax); subclasses override it."""
        return _areas(label)

    def _intersect(
        self, label: np.ndarray, xmin: float, ymin: float, xmax: float, ymax: float
    ) -> np.ndarray:
        """What boxes have in common with one, zeros where that is nothing; subclasses override it."""
        out = label.copy()
        out[:, :2] = np.maximum(label[:, :2], (xmin, ymin))
        out[:, 2:4] = np.minimum(label[:, 2:4], (xmax, ymax))
        out[(out[:, 0] >= out[:, 2]) | (out[:, 1] >= out[:, 3])] = 0
        return out

    def _check_satisfy_constraints(
        self, label: np.ndarray, xmin: int, ymin: int, xmax: int, ymax: int, width: int, height: int
    ) -> bool:
        """Whether a part of the picture is taken; subclasses override it."""
        if (xmax - xmin) * (ymax - ymin) < 2:
            return False
        areas = self._calculate_areas(label[:, 1:])
        large = areas * width * height > 2
        if not large.any():
            return False
        common = self._intersect(
            label[large, 1:], xmin / width, ymin / height, xmax / width, ymax / height
        )
        covered = self._calculate_areas(common) / areas[large]
        covered = covered[covered > 0]
        return bool(covered.size and covered.min() > self.min_object_covered)

    def _update_labels(
        self, label: np.ndarray, box: tuple[int, ...], height: int, width: int
    ) -> np.ndarray | None:
        """The label of a part (x, y, w, h): None if no object is left."""
        x, y, w, h = box[0] / width, box[1] / height, box[2] / width, box[3] / height
        out = label.copy()
        out[:, 1:5] -= np.array([x, y, x, y], out.dtype)
        out[:, 1:5] = np.clip(out[:, 1:5] / np.array([w, h, w, h], out.dtype), 0, 1)
        areas = self._calculate_areas(label[:, 1:])
        left = self._calculate_areas(out[:, 1:]) * w * h / np.where(areas > 0, areas, 1)
        valid = (out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2]) & (left > self.min_eject_coverage)
        return out[valid] if valid.any() else None

    def _random_crop_proposal(self, label: np.ndarray, height: int, width: int) -> tuple[Any, ...]:
        for ratio, h, max_h in _attempts(self, height, width):
            least, most = (part * height * width for part in self.area_range)
            if round(max_h * ratio) > width:
                max_h = int((width + 0.4999999) / ratio)
            max_h = min(max_h, height)
            h = random.randint(h, max_h) if h < max_h else max_h
            w = round(h * ratio)
            # Rounding may have left the range.
            if w * h < least:
                h += 1
                w = round(h * ratio)
            if w * h > most:
                h -= 1
                w = round(h * ratio)
            if not (least <= w * h <= most and 0 <= w <= width and 0 <= h <= height):
                continue
            y, x = random.randint(0, height - h), random.randint(0, width - w)
            if self._check_satisfy_constraints(label, x, y, x + w, y + h, width, height):
                new = self._update_labels(label, (x, y, w, h), height, width)
                if new is not None:
                    return x, y, w, h, new
        return ()


class DetRandomPadAug(DetAugmenter):
    """The picture at a random place of a larger one, so that its objects become smaller.

    Args:
      aspect_ratio_range: the smallest and largest width / height of the result.
      area_range: the smallest and largest area of the result, as multiples of the picture's.
      max_attempts: draws, before the picture is left as it is.
      pad_val: the colour around it; a number is the first channel's, the others are 0.
    """

    def __init__(
        self, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (1.0, 3.0), max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ):  # fmt: skip
        if not isinstance(pad_val, list | tuple):
            if not isinstance(pad_val, Number):
                raise MXNetAssertionError(
                    f"DetRandomPadAug: pad_val must be a number or three, got {pad_val!r}"
                )
        aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range", "DetRandomPadAug")
        area_range = _range(area_range, "area_range", "DetRandomPadAug")
        super().__init__(
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            pad_val=pad_val,
        )
        self.pad_val = pad_val
        self.aspect_ratio_range = aspect_ratio_range
        self.area_range = area_range
        self.max_attempts = max_attempts
        self.enabled = _enabled("DetRandomPadAug", area_range, aspect_ratio_range, 1)

    def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
        height, width = src.shape[:2]
        found = self._random_pad_proposal(label, height, width)
        if found:
            x, y, w, h, label = found
            src = copyMakeBorder(src, y, h - y - height, x, w - x - width, 16, values=self.pad_val)
        return src, label

    def _update_labels(
        self, label: np.ndarray, box: tuple[int, ...], height: int, width: int
    ) -> np.ndarray:
        x, y, w, h = box
        out = label.copy()
        size, at, whole = np.array(
            [[width, height, width, height], [x, y, x, y], [w, h, w, h]], out.dtype
        )
        out[:, 1:5] = (out[:, 1:5] * size + at) / whole
        return out

    def _random_pad_proposal(self, label: np.ndarray, height: int, width: int) -> tuple[Any, ...]:
        for ratio, h, max_h in _attempts(self, height, width):
            if round(h * ratio) < width:
                h = int((width + 0.499999) / ratio)
            h = min(max(h, height), max_h)
            if h < max_h:
                h = random.randint(h, max_h)
            w = round(h * ratio)
            if h - height < 2 or w - width < 2:
                continue
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            return x, y, w, h, self._update_labels(label, (x, y, w, h), height, width)
        return ()


def CreateMultiRandCropAugmenter(  # noqa: N802
    min_object_covered: Any = 0.1, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3, max_attempts: Any = 50, skip_prob: float = 0,
) -> DetRandomSelectAug:  # fmt: skip
    """One of several `DetRandomCropAug`: each argument is for all of them, or a list with one for each.

    Args:
      min_object_covered: the smallest share of a box that a crop covers.
      aspect_ratio_range: the smallest and largest ratio of width to height.
      area_range: the smallest and largest share of the image's area.
      min_eject_coverage: boxes of which less is left are dropped.
      max_attempts: how often a crop is tried.
      skip_prob: the probability that the image stays as it is.

    Returns:
      DetRandomSelectAug: chooses one of the crops.

    >>> len(CreateMultiRandCropAugmenter(min_object_covered=[0.1, 0.5, 0.9]).aug_list)
    3
    """
    given = [min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts]
    lists = [each if isinstance(each, list) else [each] for each in given]
    count = max(map(len, lists))
    if any(len(each) not in (1, count) for each in lists):
        raise MXNetAssertionError(
            f"the lists must be of one length, got {[len(each) for each in lists]}"
        )
    rows = zip(*(each * count if len(each) == 1 else each for each in lists), strict=True)
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob=skip_prob)


def CreateDetAugmenter(  # noqa: N802
    data_shape: tuple[int, int, int], resize: int = 0, rand_crop: float = 0, rand_pad: float = 0, rand_gray: float = 0,
    rand_mirror: bool = False, mean: Any = None, std: Any = None, brightness: float = 0, contrast: float = 0,
    saturation: float = 0, pca_noise: float = 0, hue: float = 0, inter_method: int = 2, min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 3.0), min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50, pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:  # fmt: skip
    """The usual augmenters of pictures with boxes, in the usual order.

    Args:
      data_shape: (channels, height, width) of the result.
      rand_crop, rand_pad: how often a part is taken, and how often the picture is put into a larger one.
      The others are those of `CreateAugmenter`, `DetRandomCropAug` and `DetRandomPadAug`.
      resize: the length of the shorter side, after resizing; 0: as it is.
      rand_gray: the probability of a gray image.
      rand_mirror: whether half of the images are mirrored.
      mean: the mean of each channel, which is taken off.
      std: the standard deviation of each channel, by which it is divided.
      brightness: the largest share by which brightness changes.
      contrast: the largest share by which contrast changes.
      saturation: the largest share by which saturation changes.
      pca_noise: the standard deviation of AlexNet's noise.
      hue: the largest share by which hues turn.
      inter_method: how pixels are interpolated, one of OpenCV's numbers.
      min_object_covered: the smallest share of a box that a crop covers.
      aspect_ratio_range: the smallest and largest ratio of width to height.
      area_range: the smallest and largest share of the image's area.
      min_eject_coverage: boxes of which less is left are dropped.
      max_attempts: how often a crop is tried.
      pad_val: the number that fills.

    Returns:
      list of Augmenter: in the order in which they are applied.
    """
    made: list[DetAugmenter] = []
    if resize > 0:
        made.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        made.append(
            CreateMultiRandCropAugmenter(
                min_object_covered,
                aspect_ratio_range,
                area_range,
                min_eject_coverage,
                max_attempts,
                1 - rand_crop,
            )
        )
    if rand_mirror > 0:
        made.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        made.append(DetRandomSelectAug([pad], 1 - rand_pad))
    made.append(DetBorrowAug(ForceResizeAug((data_shape[2], data_shape[1]), inter_method)))
    colours = colour_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std
    )
    return made + [DetBorrowAug(each) for each in colours]
