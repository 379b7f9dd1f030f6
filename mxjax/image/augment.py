"""Augmenters: each takes a picture (height, width, channels) and gives a varied one.

They are computed on the host; see `functions`. What they draw comes from Python's `random` and, for `LightingAug`, from
`numpy.random`, as in MXNet.
"""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import numpy as np

from ..array import NDArray
from ..array.at_once import converted
from ..display.reprs import Shown
from ..errors import MXNetAssertionError, MXNetNotImplementedError, MXNetValueError
from .functions import (
    as_array,
    center_crop,
    color_normalize,
    imresize,
    on_host,
    part,
    random_crop,
    random_size_crop,
    resize_short,
    written,
)

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
]

_GRAY = np.array([0.299, 0.587, 0.114], np.float32)
# The means and deviations of ImageNet's colours, and the principal components of their variation (Krizhevsky et al.,
# ImageNet classification with deep convolutional neural networks, 2012).
MEAN = np.array([123.68, 116.28, 103.53])
STD = np.array([58.395, 57.12, 57.375])
EIGVAL = np.array([55.46, 4.794, 1.148])
EIGVEC = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters with lists in place of arrays, for `dumps`."""
    return {
        name: on_host(v).tolist() if isinstance(v, NDArray | np.ndarray) else v
        for name, v in values.items()
    }


class Augmenter(Shown):
    """The base of augmenters of pictures: a subclass defines `__call__(src)`."""

    def __init__(self, **kwargs: Any):
        self._kwargs = plain(kwargs)

    def dumps(self) -> Any:
        """Name and parameters, as JSON.

        >>> CastAug().dumps()
        '["castaug", {"type": "float32"}]'
        """
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any) -> Any:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __call__(src)")


class SequentialAug(Augmenter):
    """Several augmenters, one after the other.

    Args:
      ts: the augmenters.
    """

    def __init__(self, ts: list[Augmenter]):
        super().__init__()
        self.ts = ts

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), [each.dumps() for each in self.ts]]

    def __call__(self, src: Any) -> Any:
        for each in self.ts:
            src = each(src)
        return src


class RandomOrderAug(SequentialAug):
    """Several augmenters, in a new order each time.

    Args:
      ts: the augmenters.
    """

    def __call__(self, src: Any) -> Any:
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """The shorter side resized to `size`.

    Args:
      size: the length of the shorter side.
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

    def __init__(self, size: int, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resized to `size` (width, height).

    Args:
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

    def __init__(self, size: tuple[int, int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return imresize(src, *self.size, interp=self.interp)


class RandomCropAug(Augmenter):
    """A part of `size` (width, height) at a random place.

    Args:
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

    def __init__(self, size: tuple[int, int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A part of random area and shape, resized to `size` (width, height); see `random_size_crop`.

    Args:
      size: the size of the result, (width, height).
      area: the smallest and largest share of the image's area.
      ratio: the smallest and largest ratio of width to height.
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

    def __init__(
        self,
        size: tuple[int, int],
        area: Any,
        ratio: tuple[float, float],
        interp: int = 2,
        **kwargs: Any,
    ):
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size = size
        if "min_area" in kwargs:
            warnings.warn(
                "`min_area` is deprecated. Please use `area` instead.",
                DeprecationWarning,
                stacklevel=2,
            )
            area = kwargs.pop("min_area")
        if kwargs:
            raise MXNetAssertionError(
                f"unexpected keyword arguments for `RandomSizedCropAug`: {', '.join(kwargs)}"
            )
        self.area = area
        self.ratio = ratio
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """The middle, of `size` (width, height).

    Args:
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

    def __init__(self, size: tuple[int, int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src: Any) -> Any:
        return center_crop(src, self.size, self.interp)[0]


class _OfValues(Augmenter):
    """An augmenter that computes with the values: floating ones stay as wide as they are, others become float32.

    A floating array of mxjax is written into where MXNet does so; one of NumPy is left as it is.
    """

    _in_place = True

    def __call__(self, src: Any) -> Any:
        pixels = on_host(src)
        if pixels.dtype.kind != "f":
            return as_array(self._of(pixels.astype(np.float32)), src)
        made = self._of(pixels)
        return written(src, made) if self._in_place else as_array(made, src)

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class BrightnessJitterAug(_OfValues):
    """All values by a factor between 1 - `brightness` and 1 + `brightness`.

    Args:
      brightness: the largest share by which brightness changes.
    """

    def __init__(self, brightness: float):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        return pixels * (1.0 + random.uniform(-self.brightness, self.brightness))


class _OfGray(_OfValues):
    """What is blended with gray: `coef`, as MXNet calls the shares of the colours in it."""

    @property
    def coef(self) -> Any:
        return as_array(_GRAY.reshape(1, 1, 3))


class ContrastJitterAug(_OfGray):
    """Blended with its mean gray, by a factor between 1 - `contrast` and 1 + `contrast`.

    Args:
      contrast: the largest share by which contrast changes.
    """

    def __init__(self, contrast: float):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        gray = float((pixels * _GRAY).sum(axis=2).mean())
        return pixels * alpha + np.asarray((1.0 - alpha) * gray, pixels.dtype)


class SaturationJitterAug(_OfGray):
    """Blended with its gray, by a factor between 1 - `saturation` and 1 + `saturation`.

    Args:
      saturation: the largest share by which saturation changes.
    """

    def __init__(self, saturation: float):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        gray = (pixels * _GRAY.astype(pixels.dtype)).sum(axis=2, keepdims=True)
        return pixels * alpha + gray * (1.0 - alpha)


class HueJitterAug(_OfValues):
    """The colours turned by an angle between -180 `hue` and 180 `hue` degrees, in the space YIQ.

    Args:
      hue: the largest share by which hues turn.
    """

    _in_place = False
    tyiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    ityiq = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float):
        super().__init__(hue=hue)
        self.hue = hue

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        turn = np.eye(3)
        turn[1:, 1:] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return pixels @ (self.ityiq @ turn @ self.tyiq).T.astype(pixels.dtype)


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation, in a new order each time.

    Args:
      brightness: the largest share by which brightness changes.
      contrast: the largest share by which contrast changes.
      saturation: the largest share by which saturation changes.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float):
        made = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([kind(amount) for kind, amount in made if amount > 0])


class LightingAug(_OfValues):
    """AlexNet's noise: the colours moved along their principal components, by normal numbers.

    Args:
      alphastd: the standard deviation of the noise.
      eigval: the eigenvalues of the colours.
      eigvec: the eigenvectors of the colours.
    """

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval = on_host(eigval)
        self.eigvec = on_host(eigvec)

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return pixels + np.dot(self.eigvec * alpha, self.eigval).astype(pixels.dtype)


class ColorNormalizeAug(Augmenter):
    """`(src - mean) / std`, written into `src`; see `color_normalize`.

    Args:
      mean: the mean of each channel, which is taken off.
      std: the standard deviation of each channel, by which it is divided.
    """

    def __init__(self, mean: Any, std: Any):
        super().__init__(mean=mean, std=std)
        self.mean = None if mean is None else on_host(mean).astype(np.float32)
        self.std = None if std is None else on_host(std).astype(np.float32)

    def __call__(self, src: Any) -> Any:
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(_OfValues):
    """Gray, with probability `p`.

    Args:
      p: the probability that it happens.
    """

    _in_place = False
    _mix = np.array([0.21, 0.72, 0.07])

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    @property
    def mat(self) -> Any:
        return as_array(np.repeat(self._mix[:, None], 3, axis=1).astype(np.float32))

    def __call__(self, src: Any) -> Any:
        return super().__call__(src) if random.random() < self.p else src

    def _of(self, pixels: np.ndarray) -> np.ndarray:
        gray = (pixels * self._mix.astype(pixels.dtype)).sum(axis=2, keepdims=True)
        return np.repeat(gray, 3, axis=2)


class HorizontalFlipAug(Augmenter):
    """Mirrored, with probability `p`.

    Args:
      p: the probability that it happens.
    """

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        return part(src, (slice(None), slice(None, None, -1))) if random.random() < self.p else src


class CastAug(Augmenter):
    """Another dtype.

    Args:
      typ: the kind of image: 2 or 3 channels are normalised.
    """

    def __init__(self, typ: str = "float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Any) -> Any:
        return converted(src, self.typ)


def colour_statistics(given: Any, default: np.ndarray, name: str) -> Any:
    """`mean` or `std` of `CreateAugmenter`: True stands for ImageNet's.

    Raises:
      AssertionError: it is something else.
    """
    if given is True:
        return default
    if given is None or given is False:
        return None
    if not isinstance(given, np.ndarray | NDArray):
        got = type(given).__name__
        raise MXNetAssertionError(
            f"{name} must be True, None or an array of 1 or 3 numbers, got {got}"
        )
    if given.shape[:1] not in ((1,), (3,)):
        raise MXNetAssertionError(f"{name} must have 1 or 3 numbers, got shape {given.shape}")
    return given


def colour_augmenters(
    brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float, rand_gray: float,
    mean: Any, std: Any,
) -> list[Augmenter]:  # fmt: skip
    """The augmenters that change no shape, in MXNet's order."""
    made: list[Augmenter] = [CastAug()]
    if brightness or contrast or saturation:
        made.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        made.append(HueJitterAug(hue))
    if pca_noise > 0:
        made.append(LightingAug(pca_noise, EIGVAL, EIGVEC))
    if rand_gray > 0:
        made.append(RandomGrayAug(rand_gray))
    mean, std = colour_statistics(mean, MEAN, "mean"), colour_statistics(std, STD, "std")
    if mean is not None or std is not None:
        made.append(ColorNormalizeAug(mean, std))
    return made


def CreateAugmenter(  # noqa: N802
    data_shape: tuple[int, int, int], resize: int = 0, rand_crop: bool = False, rand_resize: bool = False,
    rand_mirror: bool = False, mean: Any = None, std: Any = None, brightness: float = 0, contrast: float = 0,
    saturation: float = 0, hue: float = 0, pca_noise: float = 0, rand_gray: float = 0, inter_method: int = 2,
) -> list[Augmenter]:  # fmt: skip
    """The usual augmenters, in the usual order.

    Args:
      data_shape: (channels, height, width) of the result.
      resize: the shorter side is resized to this first; 0 leaves it.
      rand_crop: a random part instead of the middle; rand_resize: of random size.
      rand_mirror: mirrored half of the time.
      mean, std: True for ImageNet's, or arrays of 1 or 3 numbers.
      brightness, contrast, saturation, hue, pca_noise, rand_gray: how much of each; 0 is none.
      inter_method: as `interp` of `imresize`.
      rand_resize: whether crops have random sizes.

    Returns:
      list of Augmenter: in the order in which they are applied.

    >>> [type(each).__name__ for each in CreateAugmenter((3, 8, 8), resize=10, mean=True)]
    ['ResizeAug', 'CenterCropAug', 'CastAug', 'ColorNormalizeAug']
    """
    made: list[Augmenter] = []
    if resize > 0:
        made.append(ResizeAug(resize, inter_method))
    if len(data_shape) != 3:
        raise MXNetValueError(f"data_shape is (channels, height, width), got {data_shape}")
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        if not rand_crop:
            raise MXNetAssertionError("rand_resize takes a random part: it needs rand_crop=True")
        made.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    elif rand_crop:
        made.append(RandomCropAug(size, inter_method))
    else:
        made.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        made.append(HorizontalFlipAug(0.5))
    mean = colour_statistics(mean, MEAN.astype(np.float32), "mean")
    std = colour_statistics(std, STD.astype(np.float32), "std")
    return made + colour_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std
    )
