"""Loaders of pictures with labels or boxes, with the transforms that training of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax.errors import FormatError, MXNetAssertionError, MXNetTypeError, MXNetValueError
from mxjax.util import default_array

from ....block import Block
from ....data import DataLoader
from ....data.batchify import Group, Pad, Stack
from ....data.vision import ImageListDataset, ImageRecordDataset, transforms
from ....hybrid_block import HybridBlock
from ....nn import HybridSequential, Sequential
from .transforms import bbox

__all__ = ["ImageBboxDataLoader", "ImageDataLoader", "create_bbox_augment", "create_image_augment"]

_MEAN = (123.68, 116.28, 103.53)
_STD = (58.395, 57.12, 57.375)
_LABEL_TYPES = ("int32", "float32", "int64", "float64")


def _method(inter_method: int) -> int:
    """10 stands for one at random."""
    return int(np.random.randint(0, 5)) if inter_method == 10 else inter_method


def _finish(
    found: Any, mean: Any, std: Any, brightness: float, contrast: float, saturation: float, hue: float,
    pca_noise: float, rand_gray: float, dtype: str,
) -> Any:  # fmt: skip
    """What comes after parts and sizes: colours, and the tensor that a network takes."""
    if brightness or contrast or saturation or hue:
        found.add(transforms.RandomColorJitter(brightness, contrast, saturation, hue))
    if pca_noise > 0:
        found.add(transforms.RandomLighting(pca_noise))
    if rand_gray > 0:
        found.add(transforms.RandomGray(rand_gray))
    found.add(transforms.ToTensor())
    mean, std = _MEAN if mean is True else mean, _STD if std is True else std
    for name, each in (("mean", mean), ("std", std)):
        if each is not None and not isinstance(each, tuple | list):
            raise MXNetAssertionError(
                f"{name} must be True or one number for each channel, got {each!r}"
            )
    if mean is not None or std is not None:
        found.add(transforms.Normalize(0.0 if mean is None else mean, 1.0 if std is None else std))
    found.add(transforms.Cast(dtype))
    return found


def create_image_augment(
    data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False, rand_resize: bool = False,
    rand_mirror: bool = False, mean: Any = None, std: Any = None, brightness: float = 0, contrast: float = 0,
    saturation: float = 0, hue: float = 0, pca_noise: float = 0, rand_gray: float = 0, inter_method: int = 2,
    dtype: str = "float32",
) -> HybridSequential:  # fmt: skip
    """The transforms of a picture (H, W, 3) of uint8 into a tensor (3, height, width).

    Args:
      data_shape: (3, height, width).
      resize: both sides, first of all; 0 leaves them.
      rand_crop: a part at a random place, otherwise the middle; with `rand_resize` of random size too.
      rand_mirror: mirrored, or not.
      mean, std: for each channel; True takes those of ImageNet.
      brightness, contrast, saturation, hue: how far each varies; pca_noise: of the light.
      rand_gray: the probability to become gray.
      inter_method: see `mx.image.imresize`; 10 draws one now.
      dtype: of the result.

    Raises:
      AssertionError: `rand_resize` without `rand_crop`, or `mean` or `std` of another kind.
    """
    method = _method(inter_method)
    found = HybridSequential()
    if resize > 0:
        found.add(transforms.Resize(resize, interpolation=method))
    size = (data_shape[2], data_shape[1])
    if rand_resize and not rand_crop:
        raise MXNetAssertionError(
            "rand_resize draws the size of a random part: give rand_crop=True too"
        )
    kind: Any = transforms.RandomCrop if rand_crop else transforms.CenterCrop
    found.add((transforms.RandomResizedCrop if rand_resize else kind)(size, interpolation=method))
    if rand_mirror:
        found.add(transforms.RandomFlipLeftRight(0.5))
    found.add(transforms.Cast())
    _finish(found, mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray, dtype)
    return found


def create_bbox_augment(
    data_shape: Sequence[int], rand_crop: float = 0, rand_pad: float = 0, rand_gray: float = 0,
    rand_mirror: bool = False, mean: Any = None, std: Any = None, brightness: float = 0, contrast: float = 0,
    saturation: float = 0, pca_noise: float = 0, hue: float = 0, inter_method: int = 2, max_aspect_ratio: float = 2,
    area_range: tuple[float, float] = (0.3, 3.0), max_attempts: int = 50, pad_val: Any = (127, 127, 127),
    dtype: str = "float32",
) -> Sequential:  # fmt: skip
    """The transforms of a picture (H, W, 3) and its boxes (N, 5 or more) into a tensor (3, height, width) and boxes.

    Args:
      rand_crop: the probability of a random part, whose ratio of sides is at most `max_aspect_ratio`, whose area is at
        least `area_range[0]` of the picture, and which is sought `max_attempts` times.
      rand_pad: the probability of a border of `pad_val`, up to `area_range[1]` times the picture.
      The others are those of `create_image_augment`.

    Raises:
      AssertionError: `mean` or `std` of another kind.
    """
    found = Sequential()
    if rand_crop > 0:
        found.add(
            bbox.ImageBboxRandomCropWithConstraints(
                p=rand_crop, min_scale=area_range[0], max_scale=1.0, max_aspect_ratio=max_aspect_ratio,
                max_trial=max_attempts,
            )
        )  # fmt: skip
    if rand_mirror > 0:
        found.add(bbox.ImageBboxRandomFlipLeftRight(0.5))
    if rand_pad > 0:
        found.add(bbox.ImageBboxRandomExpand(p=rand_pad, max_ratio=area_range[1], fill=pad_val))
    found.add(bbox.ImageBboxResize(data_shape[2], data_shape[1], interp=_method(inter_method)))
    return _finish(
        found, mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray, dtype
    )


class BboxLabelTransform(Block):
    """Makes a picture's label row into boxes (N, 5 or more): left, top, right, bottom, class and what follows.

    A row is the width of its header, the width of an object, the rest of the header, the objects, each its class and
    its box.

    Args:
      coord_normalized: boxes are parts of the picture's sides: they become pixels.

    Raises:
      FormatError: a row that is not of this form.
    """

    def __init__(self, coord_normalized: bool = True):
        super().__init__()
        self._coord_normalized = coord_normalized

    def forward(self, img: Any, label: Any) -> tuple[Any, Any]:
        row = np.array(label.asnumpy() if hasattr(label, "asnumpy") else label, np.float32).reshape(
            -1
        )
        header, width = (int(each) for each in row[:2]) if row.size > 1 else (0, 0)
        if width < 5 or header < 0 or row.size < header + 5 or (row.size - header) % width:
            raise FormatError(
                "a label is the width of its header, the width of an object (5 or more), the rest of the header, the "
                f"objects; here are {row.size} numbers: {row[:8].tolist()} ..."
            )
        objects = row[header:].reshape(-1, width)
        boxes = np.concatenate([objects[:, 1:5], objects[:, :1], objects[:, 5:]], axis=1)
        if self._coord_normalized:
            height, columns = img.shape[:2]
            boxes[:, :4] *= (columns, height, columns, height)
        return img, default_array(boxes)


class ImageDataLoader:
    """Batches of pictures with their labels, from a record file or from files that a list names.

    Args:
      batch_size, data_shape: pictures in a batch, and (3, height, width) of each.
      path_imgrec: a record file, whose index has the same name with the ending `.idx`.
      path_imglist: a file of lines `index <tab> label <tab> ... file name`.
      imglist: a list of [label, ..., file name].
      path_root: the folder that file names start from.
      part_index, num_parts: only this part of the pictures, of so many.
      aug_list: a block or a list of blocks; without it what `create_image_augment` makes of the other arguments.
      dtype: int32, float32, int64 or float64.
      shuffle ... try_nopython: see `gluon.data.DataLoader`.

    Raises:
      AssertionError: no pictures were given, or another dtype.
    """

    def __init__(
        self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
        path_imglist: str | None = None, path_root: str = ".", part_index: int = 0, num_parts: int = 1,
        aug_list: Any = None, imglist: list[Any] | None = None, dtype: str = "float32", shuffle: bool = False,
        sampler: Any = None, last_batch: str | None = None, batch_sampler: Any = None, batchify_fn: Any = None,
        num_workers: int = 0, pin_memory: bool = False, pin_device_id: int = 0, prefetch: int | None = None,
        thread_pool: bool = False, timeout: int = 120, try_nopython: bool | None = None, **kwargs: Any,
    ):  # fmt: skip
        dataset = _pictures(
            type(self).__name__, path_imgrec, path_imglist, imglist, path_root, dtype
        )
        if num_parts > 1:
            dataset = dataset.shard(num_parts, part_index)
        augmenter = _augmenter(aug_list, lambda: self._default_augmenter(data_shape, **kwargs))
        self._iter = DataLoader(
            self._transformed(dataset, augmenter), batch_size=batch_size, shuffle=shuffle, sampler=sampler,
            last_batch=last_batch, batch_sampler=batch_sampler, batchify_fn=batchify_fn or self._batchify(),
            num_workers=num_workers, pin_memory=pin_memory, pin_device_id=pin_device_id, prefetch=prefetch,
            thread_pool=thread_pool, timeout=timeout, try_nopython=try_nopython,
        )  # fmt: skip

    _default_augmenter: Any = staticmethod(create_image_augment)

    def _transformed(self, dataset: Any, augmenter: Block) -> Any:
        return dataset.transform_first(augmenter)

    def _batchify(self) -> Any:
        return None

    def __iter__(self) -> Any:
        return iter(self._iter)

    def __len__(self) -> int:
        return len(self._iter)


class ImageBboxDataLoader(ImageDataLoader):
    """Batches of pictures with their boxes (batch, most boxes, 5 or more), filled with -1.

    Labels are rows as `BboxLabelTransform` takes them.

    Args:
      coord_normalized: boxes are parts of the picture's sides; they become pixels.
      The others are those of `ImageDataLoader`, without `aug_list` those of `create_bbox_augment`.

    Raises:
      AssertionError: no pictures were given, or another dtype.
    """

    def __init__(
        self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
        path_imglist: str | None = None, path_root: str = ".", part_index: int = 0, num_parts: int = 1,
        aug_list: Any = None, imglist: list[Any] | None = None, coord_normalized: bool = True,
        dtype: str = "float32", shuffle: bool = False, sampler: Any = None, last_batch: str | None = None,
        batch_sampler: Any = None, batchify_fn: Any = None, num_workers: int = 0, pin_memory: bool = False,
        pin_device_id: int = 0, prefetch: int | None = None, thread_pool: bool = False, timeout: int = 120,
        try_nopython: bool | None = None, **kwargs: Any,
    ):  # fmt: skip
        self._coord_normalized = coord_normalized
        super().__init__(
            batch_size, data_shape, path_imgrec, path_imglist, path_root, part_index, num_parts, aug_list, imglist,
            dtype, shuffle, sampler, last_batch, batch_sampler, batchify_fn, num_workers, pin_memory, pin_device_id,
            prefetch, thread_pool, timeout, try_nopython, **kwargs,
        )  # fmt: skip

    _default_augmenter = staticmethod(create_bbox_augment)

    def _transformed(self, dataset: Any, augmenter: Block) -> Any:
        both = Sequential()
        both.add(BboxLabelTransform(self._coord_normalized), augmenter)
        return dataset.transform(both)

    def _batchify(self) -> Any:
        return Group(Stack(), Pad(val=-1))


def _pictures(owner: str, record: Any, listed: Any, imglist: Any, root: str, dtype: str) -> Any:
    if not (record or listed or isinstance(imglist, list)):
        raise MXNetAssertionError(f"{owner} needs path_imgrec, path_imglist or imglist")
    if dtype not in _LABEL_TYPES:
        raise MXNetAssertionError(
            f"{dtype} label not supported; one of {', '.join(_LABEL_TYPES)} is"
        )
    if record:
        return ImageRecordDataset(record, flag=1)
    return ImageListDataset(root, listed or imglist, flag=1)


def _augmenter(given: Any, default: Any) -> Block:
    """One block of what was given; it is not hybridized, since pictures have many sizes."""
    if given is None:
        return default()
    if isinstance(given, Block):
        return given
    if not isinstance(given, list):
        raise MXNetValueError(
            f"aug_list must be a block or a list of blocks, got {type(given).__name__}"
        )
    for each in given:
        if not isinstance(each, Block):
            raise MXNetTypeError(
                f"aug_list must be a list of blocks, one of them is a {type(each).__name__}"
            )
    found = (
        HybridSequential() if all(isinstance(each, HybridBlock) for each in given) else Sequential()
    )
    found.add(*given)
    return found
