"""Pictures with objects: `ImageDetIter`; the augmenters are in `detection_augmenters.py`.

A label is an array (objects, 5 or more): class, left, top, right, bottom, all but the class as parts of the picture's
width and height. In a record it is one row: the width of its header, the width of an object, the rest of the header,
the objects.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import (
    FormatError,
    MXNetAssertionError,
    MXNetValueError,
)
from ..files import codec
from .augment import (
    MEAN,
    STD,
    colour_statistics,
)
from .detection_augmenters import (
    CreateDetAugmenter,
    CreateMultiRandCropAugmenter,
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)
from .functions import on_host
from .iterator import ImageIter

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
    "ImageDetIter",
]

_log = logging.getLogger(__name__)


class ImageDetIter(ImageIter):
    """Batches of pictures with boxes: labels (batch_size, objects, 5 or more), -1 where a picture has fewer objects.

    Args:
      aug_list: augmenters; without it those of `CreateDetAugmenter` with the other arguments.
      The others are those of `ImageIter`.
      batch_size: how many samples a batch has.
      data_shape: the shape of the images: (channels, height, width).
      path_imgrec: the path of the record file.
      path_imglist: the path of the list of images.
      path_root: the folder of the images.
      path_imgidx: the path of the index file.
      shuffle: whether the order is random.
      part_index: which part this reader has.
      num_parts: into how many parts the data are divided.
      imglist: the images, as a list of [label, path].
      data_name: the name of the data.
      label_name: the name of the labels.
      last_batch_handle: what becomes of a last batch that is not full.

    Raises:
      FormatError: a label that is none, when the iterator is made.
    """

    def __init__(
        self, batch_size: int, data_shape: tuple[int, int, int], path_imgrec: str | None = None,
        path_imglist: str | None = None, path_root: str | None = None, path_imgidx: str | None = None,
        shuffle: bool = False, part_index: int = 0, num_parts: int = 1, aug_list: list[Any] | None = None,
        imglist: list[Any] | None = None, data_name: str = "data", label_name: str = "label",
        last_batch_handle: str = "pad", **kwargs: Any,
    ):  # fmt: skip
        super().__init__(
            batch_size=batch_size, data_shape=data_shape, path_imgrec=path_imgrec, path_imglist=path_imglist,
            path_root=path_root, path_imgidx=path_imgidx, shuffle=shuffle, part_index=part_index, num_parts=num_parts,
            aug_list=[], imglist=imglist, data_name=data_name, label_name=label_name,
            last_batch_handle=last_batch_handle,
        )  # fmt: skip
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (self.batch_size, *self.label_shape))]

    def _check_valid_label(self, label: np.ndarray) -> None:
        if label.ndim != 2 or label.shape[1] < 5:
            raise FormatError(f"Label with shape (1+, 5+) required, {label.shape} received.")
        if not (
            (label[:, 0] >= 0) & (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])
        ).any():
            raise FormatError("Invalid label occurs.")

    def _estimate_label_shape(self) -> tuple[int, int]:
        """The most objects of a picture, and the width of an object."""
        most, width = 0, 5
        self.reset()
        try:
            while True:
                label = self._parse_label(self.next_sample()[0])
                most, width = max(most, label.shape[0]), label.shape[1]
        except StopIteration:
            pass
        self.reset()
        return most, width

    def _parse_label(self, label: Any) -> np.ndarray:
        """The objects in a row of numbers."""
        raw = on_host(label).ravel()
        if raw.size < 7:
            raise FormatError(
                f"{self._locate()}: Label shape is invalid: {raw.shape}. A label with boxes has the width of its "
                "header, the width of an object (5 or more), and the objects; ImageIter reads records of one label"
            )
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or width < 5 or raw.size <= header or (raw.size - header) % width:
            raise FormatError(
                f"{self._locate()}: Label shape {raw.shape} inconsistent with a header of {header} and annotation "
                f"width {width}."
            )
        out = raw[header:].reshape(-1, width)
        valid = (out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2])
        if not valid.any():
            raise FormatError(f"{self._locate()}: Encounter sample with no valid label.")
        return out[valid]

    def reshape(self, data_shape: Any = None, label_shape: Any = None) -> None:
        """Let batches have another shape from now on."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self.provide_label[0][0], (self.batch_size, *label_shape))]
            self.label_shape = tuple(label_shape)

    def _empty_batch(self) -> tuple[np.ndarray, np.ndarray]:
        data, label = super()._empty_batch()
        label[:] = -1
        return data, label

    def _batchify(self, batch_data: np.ndarray, batch_label: np.ndarray, start: int = 0) -> int:
        at = start
        try:
            while at < self.batch_size:
                label, data = self.next_sample()
                picture = self._decoded(data)
                try:
                    self.check_valid_image([picture])
                    label = self._parse_label(label)
                    picture, label = self.augmentation_transform(
                        self._for_augmenters(picture), label
                    )
                    self._check_valid_label(label)
                except FormatError as error:
                    _log.debug("Invalid image, skipping:  %s", error)
                    continue
                batch_data[at] = on_host(self.postprocess_data(picture))
                batch_label[at] = -1
                batch_label[at][: len(label)] = label
                at += 1
        except StopIteration:
            if not at:
                raise
        return at

    def _is_own(self, *names: str) -> bool:
        return all(getattr(type(self), name) is getattr(ImageDetIter, name) for name in names)

    def augmentation_transform(self, data: Any, label: np.ndarray) -> Any:  # type: ignore[override]
        """A picture and its objects after all augmenters."""
        for each in self.auglist:
            data, label = each(data, label)
        return data, label

    def check_label_shape(self, label_shape: Any) -> None:
        """Refuse a shape (objects, width of an object) with fewer objects or another width."""
        if len(label_shape) != 2:
            raise MXNetValueError(f"label_shape should have length 2, got {label_shape}")
        if label_shape[0] < self.label_shape[0]:
            raise MXNetValueError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not allowed."
            )
        if label_shape[1] != self.provide_label[0][1][2]:
            raise MXNetValueError(
                f"label_shape object width inconsistent: {self.provide_label[0][1][2]} vs {label_shape[1]}."
            )

    def draw_next(
        self, color: Any = None, thickness: int = 2, mean: Any = None, std: Any = None, clip: bool = True,
        waitKey: int | None = None, window_name: str = "draw_next", id2labels: Any = None,  # noqa: N803
    ) -> Iterator[np.ndarray]:  # fmt: skip
        """The pictures one after the other with their boxes drawn, as arrays of uint8, blue first; needs OpenCV.

        Args:
          color: of the boxes, red first; without it each has one at random.
          thickness: of the lines.
          mean, std: what the picture was normalized by, to be undone; True for ImageNet's.
          clip: cut values off at 0 and 255.
          waitKey: show each in a window for so many milliseconds.
          id2labels: names of the classes, to be written at the boxes.
        """
        cv2 = codec.opencv()
        if cv2 is None:
            warnings.warn("Unable to import cv2, skip drawing", stacklevel=2)
            return
        mean, std = colour_statistics(mean, MEAN, "mean"), colour_statistics(std, STD, "std")
        while True:
            try:
                label, data = self.next_sample()
            except StopIteration:
                return
            picture = self._decoded(data)
            try:
                self.check_valid_image([picture])
                label = self._parse_label(label)
            except FormatError as error:
                _log.debug("Invalid image, skipping:  %s", error)
                continue
            picture, label = self.augmentation_transform(self._for_augmenters(picture), label)
            image = on_host(picture)
            image = image if std is None else image * on_host(std)
            image = image if mean is None else image + on_host(mean)
            image = np.ascontiguousarray(
                (np.clip(image, 0, 255) if clip else image)[..., ::-1].astype(np.uint8)
            )
            self._draw(cv2, image, label, color, thickness, id2labels)
            if waitKey is not None:
                cv2.imshow(window_name, image)
                cv2.waitKey(waitKey)
            yield image

    @staticmethod
    def _draw(
        cv2: Any, image: np.ndarray, label: np.ndarray, color: Any, thickness: int, names: Any
    ) -> None:
        height, width = image.shape[:2]
        for box in label:
            x1, y1, x2, y2 = (int(part) for part in box[1:5] * [width, height, width, height])
            if x1 < 0:
                continue
            line = tuple(
                float(part) for part in (np.random.rand(3) * 255 if not color else color[::-1])
            )
            cv2.rectangle(image, (x1, y1), (x2, y2), line, thickness)
            name = (names or {}).get(int(box[0]))
            if name is not None:
                font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.5
                below = y1 + cv2.getTextSize(str(name), font, scale, 2)[0][1] + 5
                cv2.putText(image, str(name), (x1 + 5, below), font, scale, (255, 255, 255), 2)

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Let this iterator and another have labels of one shape, the larger one; gives the other."""
        if not isinstance(it, ImageDetIter):
            raise MXNetAssertionError(
                f"sync_label_shape takes an ImageDetIter, got {type(it).__name__}"
            )
        ours, other = self.label_shape, it.label_shape
        if ours[1] != other[1]:
            raise MXNetAssertionError(f"object width mismatch: {ours[1]} and {other[1]}")
        most = max(ours[0], other[0])
        if most > ours[0]:
            self.reshape(None, (most, ours[1]))
        if most > other[0]:
            it.reshape(None, (most, ours[1]))
        if verbose and most > min(ours[0], other[0]):
            _log.info("Resized label_shape to (%d, %d).", most, ours[1])
        return it
