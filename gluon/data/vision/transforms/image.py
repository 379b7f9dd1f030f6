"""The transforms of single images; all leave further inputs, such as labels, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import np as mxnp
from mxjax import npx
from mxjax.array.at_once import pictures, pixels_of
from mxjax.array.ndarray import NDArray
from mxjax.errors import MXNetValueError
from mxjax.modes import generation

from ....hybrid_block import HybridBlock
from ..._host import is_array, to_array

__all__ = [
    "CenterCrop",
    "CropResize",
    "Normalize",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomGray",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomSaturation",
    "Resize",
    "ToTensor",
]

Size = int | Sequence[int]


def with_rest(x: Any, *rest: Any) -> Any:
    """What a transform returns: `x` alone, or with the inputs that it passes through."""
    return (x, *rest) if rest else x


def _pair(size: Any) -> tuple[int, int]:
    """(width, height)."""
    if isinstance(size, int):
        return size, size
    width, height = size
    return int(width), int(height)


class AtOnce:
    """A picture in the host's memory passes through transforms one by one, hybridized or not, and each computes it at
    once (`mxjax.array.at_once`): a graph for each size of pictures would not pay."""

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if args and not kwargs else None
        if (
            isinstance(x, NDArray)
            and getattr(self, "_op_hook", None) is None
            and pixels_of(x._value()) is not None
        ):
            return self.forward(*args)  # type: ignore[attr-defined]
        return super()._run(*args, **kwargs)  # type: ignore[misc]


class OfImages(AtOnce):
    """What transforms and their compositions take: NumPy images too, and labels of any kind."""

    def __call__(self, x: Any, *args: Any) -> Any:
        if isinstance(x, np.ndarray):
            x = to_array(x)
        if all(map(is_array, args)):
            return super().__call__(x, *args)  # type: ignore[misc]
        # Numbers and strings pass by: a hybridized block takes arrays.
        return with_rest(super().__call__(x), *args)  # type: ignore[misc]


class _Transform(OfImages, HybridBlock):
    """A transform that applies `change` to its first input."""

    # Whether a batch (N, H, W, C) may pass as a whole, with the same result as image by image.
    whole_batches = False

    def change(self, x: Any) -> Any:
        raise NotImplementedError

    def forward(self, x: Any, *args: Any) -> Any:
        return with_rest(self.change(x), *args)


class ToTensor(_Transform):
    """An image (H, W, C) of 0 ... 255 becomes a float32 tensor (C, H, W) of 0 ... 1.

    Batches (N, H, W, C) become (N, C, H, W).

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.

    >>> import mxjax as mx
    >>> ToTensor()(mx.np.zeros((4, 2, 3), dtype='uint8')).shape
    (3, 4, 2)
    """

    whole_batches = True

    def change(self, x: Any) -> Any:
        return npx.image.to_tensor(x)


class Normalize(_Transform):
    """`(x - mean) / std` of a tensor (C, H, W) or (N, C, H, W), per channel.

    Args:
      mean, std: one number, or one per channel.
    """

    whole_batches = True

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = mean
        self._std = std

    def change(self, x: Any) -> Any:
        return npx.image.normalize(x, mean=self._mean, std=self._std)


class Resize(_Transform):
    """Resizes an image (H, W, C) or a batch of them.

    Args:
      size: (width, height); one number for both, or with `keep_ratio` for the shorter side.
      keep_ratio: with one number, keep the ratio of the sides.
      interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, as in OpenCV.
    """

    whole_batches = True

    def __init__(self, size: Size, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size if isinstance(size, int) else tuple(size)
        self._keep = keep_ratio
        self._interpolation = interpolation

    def change(self, x: Any) -> Any:
        return npx.image.resize(
            x, size=self._size, keep_ratio=self._keep, interp=self._interpolation
        )


class CropResize(_Transform):
    """Cuts out the part at (x, y) of size (width, height), and resizes it if `size` is given.

    Args:
      x: the left border, in pixels.
      y: the upper border, in pixels.
      width: the width in pixels.
      height: the height in pixels.
      size: the new size: (width, height), or one number for both.
      interpolation: how pixels are interpolated, one of OpenCV's numbers.
    """

    whole_batches = True

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: Size | None = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._x, self._y, self._width, self._height = x, y, width, height
        self._size = size
        self._interpolation = interpolation

    def change(self, x: Any) -> Any:
        out = npx.image.crop(x, x=self._x, y=self._y, width=self._width, height=self._height)
        if self._size:
            interp = 1 if self._interpolation is None else self._interpolation
            out = npx.image.resize(out, size=_pair(self._size), interp=interp)
        return out


class CenterCrop(_Transform):
    """The middle of an image, enlarged where the image is smaller than `size` (width, height).

    Args:
      size: the new size: (width, height), or one number for both.
      interpolation: how pixels are interpolated, one of OpenCV's numbers.
    """

    whole_batches = True

    def __init__(self, size: Size, interpolation: int = 1) -> None:
        super().__init__()
        pair = _pair(size)
        self._args = (pair, interpolation) if generation() == 1 else (*pair, interpolation)

    def change(self, x: Any) -> Any:
        *size, interp = self._args
        width, height = _pair(size[0] if len(size) == 1 else size)
        return npx.image.random_crop(
            x, xrange=(0.5, 0.5), yrange=(0.5, 0.5), width=width, height=height, interp=interp
        )


def _padded_here(pixels: np.ndarray, pad: Any, value: Any) -> np.ndarray | None:
    if pixels.dtype != np.float32 and not (isinstance(value, int) and 0 <= value < 256):
        return None
    (top, bottom), (left, right), _ = pad
    rows, columns, channels = pixels.shape
    made = np.full((top + rows + bottom, left + columns + right, channels), value, pixels.dtype)
    made[top : top + rows, left : left + columns] = pixels
    return made


@pictures(_padded_here)
def _padded(x: Any, pad: Any, value: Any) -> Any:
    return mxnp.pad(x, pad, mode="constant", constant_values=value)


class RandomCrop(_Transform):
    """A part of size (width, height) at a random place, after padding.

    Args:
      size: one number or (width, height).
      pad: pixels around the image: one number, or (top, bottom, left, right).
      pad_value: their value.
      interpolation: how a part of a smaller image is enlarged.
    """

    def __init__(
        self,
        size: Size,
        pad: Size | None = None,
        pad_value: float = 0,
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = ((0, 1), (0, 1), *_pair(size), interpolation)
        self._pad_value = pad_value
        self._pad: tuple[tuple[int, int], ...] | None = None
        if isinstance(pad, int):
            self._pad = ((pad, pad), (pad, pad), (0, 0))
        elif pad is not None:
            if len(pad) < 4:
                raise MXNetValueError(
                    f"RandomCrop: pad must be one number or (top, bottom, left, right), got {pad}"
                )
            self._pad = ((pad[0], pad[1]), (pad[2], pad[3]), (0, 0))

    def change(self, x: Any) -> Any:
        if self._pad:
            x = _padded(x, self._pad, self._pad_value)
        across, down, width, height, interp = self._args
        return npx.image.random_crop(
            x, xrange=across, yrange=down, width=width, height=height, interp=interp
        )


class RandomResizedCrop(_Transform):
    """A part of random size and shape, resized to `size` (width, height).

    Args:
      size: one number or (width, height).
      scale: the smallest (and largest) part, as fractions of the image's area.
      ratio: the smallest and largest width / height of the part.
      interpolation: 1 (bilinear) or 0 (nearest).
    """

    def __init__(
        self,
        size: Size,
        scale: float | tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        width, height = _pair(size)
        self._kwargs: dict[str, Any] = {
            "width": width,
            "height": height,
            "area": (scale, 1.0) if isinstance(scale, int | float) else tuple(scale),
            "ratio": tuple(ratio),
            "interp": interpolation,
            "max_trial": 10,
        }

    def change(self, x: Any) -> Any:
        return npx.image.random_resized_crop(x, **self._kwargs)


class RandomFlipLeftRight(_Transform):
    """Mirrors an image with probability `p`.

    Args:
      p: the probability that it happens.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, x: Any) -> Any:
        if self.p <= 0:
            return x
        if self.p >= 1:
            return npx.image.flip_left_right(x)
        return npx.image.random_flip_left_right(x, p=self.p)


class RandomFlipTopBottom(_Transform):
    """Turns an image upside down with probability `p`.

    Args:
      p: the probability that it happens.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, x: Any) -> Any:
        if self.p <= 0:
            return x
        if self.p >= 1:
            return npx.image.flip_top_bottom(x)
        return npx.image.random_flip_top_bottom(x, p=self.p)


class _RandomFactor(_Transform):
    """A change by a factor drawn from `max(0, 1 - amount) ... 1 + amount`."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - amount), 1 + amount)


class RandomBrightness(_RandomFactor):
    """An image made brighter or darker by a random factor.

    Args:
      brightness: the largest share by which brightness changes.
    """

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)

    def change(self, x: Any) -> Any:
        return npx.image.random_brightness(x, *self._args)


class RandomContrast(_RandomFactor):
    """An image with more or less contrast, by a random factor.

    Args:
      contrast: the largest share by which contrast changes.
    """

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)

    def change(self, x: Any) -> Any:
        return npx.image.random_contrast(x, *self._args)


class RandomSaturation(_RandomFactor):
    """An image with more or less colour, by a random factor.

    Args:
      saturation: the largest share by which saturation changes.
    """

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)

    def change(self, x: Any) -> Any:
        return npx.image.random_saturation(x, *self._args)


class RandomHue(_RandomFactor):
    """An image whose colours are turned round the colour circle, by a random part of a turn.

    Args:
      hue: the largest share by which hues turn.
    """

    def __init__(self, hue: float) -> None:
        super().__init__(hue)

    def change(self, x: Any) -> Any:
        return npx.image.random_hue(x, *self._args)


class RandomColorJitter(_Transform):
    """Random brightness, contrast, saturation and hue, in random order.

    Args:
      brightness: the largest share by which brightness changes.
      contrast: the largest share by which contrast changes.
      saturation: the largest share by which saturation changes.
      hue: the largest share by which hues turn.
    """

    def __init__(
        self,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        hue: float = 0,
    ) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def change(self, x: Any) -> Any:
        return npx.image.random_color_jitter(x, *self._args)


class RandomLighting(_Transform):
    """AlexNet's colour noise of standard deviation `alpha`.

    Args:
      alpha: the standard deviation of the noise's strengths.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = float(alpha)

    def change(self, x: Any) -> Any:
        return npx.image.random_lighting(x, alpha_std=self._alpha)


_GRAY = np.array([0.2989, 0.5870, 0.1140], np.float32)


def _gray_here(key: Any, pixels: np.ndarray, p: float) -> np.ndarray | None:
    if pixels.shape[2] != len(_GRAY):
        return None
    values = pixels.astype(np.float32, copy=False)
    return (
        np.repeat((values @ _GRAY)[..., None], 3, axis=2)
        if key.uniform(0, 0, 1) < np.float32(p)
        else values
    )


@pictures(_gray_here, keyed=True)
def _gray_perhaps(x: Any, p: float) -> Any:
    x = x.astype("float32")
    weights = mxnp.array(np.repeat(_GRAY[:, None], 3, axis=1), dtype="float32")
    chosen = mxnp.random.uniform(0.0, 1.0, (1,)) < p
    return mxnp.where(chosen, mxnp.dot(x, weights), x)


class RandomGray(_Transform):
    """A colour image becomes gray with probability `p`; the result is float32 either way.

    All three channels hold the gray value (MXNet's hold three different multiples of the sum).

    Args:
      p: the probability that it happens.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, x: Any) -> Any:
        return _gray_perhaps(x, self.p)
