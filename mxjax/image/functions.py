"""Functions of one picture (height, width, channels): read, resize, cut, normalize, turn.

They work on the host, in NumPy. Given an array of mxjax they give one; given an array of NumPy, one of NumPy: so
iterators take a picture through all its steps and hand only the batch to the device.
"""

from __future__ import annotations

import operator
import os
import random
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import nd
from .. import np as mxnp
from ..array import NDArray
from ..array.at_once import fresh, pictures
from ..errors import (
    MXNetAssertionError,
    MXNetFileNotFoundError,
    MXNetTypeError,
    MXNetValueError,
)
from ..files import codec
from ..modes import is_np_array
from ..ops.image import resized_on_host

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]


def on_host(data: Any) -> np.ndarray:
    """The values of an array of mxjax, or of anything that NumPy takes."""
    return data.asnumpy() if isinstance(data, NDArray) else np.asarray(data)


def as_array(pixels: np.ndarray, like: Any = None) -> Any:
    """An array of mxjax with the dtype of `pixels`, which nobody changes: of the kind of `like`, or of the mode.

    Where `like` is of NumPy the result is `pixels`.
    """
    if like is not None and not isinstance(like, NDArray):
        return pixels
    of_np = is_np_array() if like is None else isinstance(like, mxnp.ndarray)
    return fresh(mxnp.ndarray if of_np else NDArray, pixels)


def _given(pixels: np.ndarray, like: Any, out: Any) -> Any:
    if out is None:
        return as_array(pixels, like)
    out[:] = pixels if isinstance(out, np.ndarray) else as_array(pixels.astype(out.dtype), out)
    return out


def written(src: Any, pixels: np.ndarray) -> Any:
    """`src` with these numbers in it, of its own dtype; an array of NumPy is left as it is, and a new one given."""
    if not isinstance(src, NDArray):
        return pixels
    src[:] = as_array(pixels, src)
    return src


def imread(filename: str, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """A picture file as an array (height, width, channels) of uint8.

    Args:
      filename: a JPEG, a PNG, or another format that OpenCV or Pillow reads.
      flag: 1 for three channels, 0 for gray with one.
      to_rgb: red first, otherwise blue first.
      out: an array that the result is written into, and that is given back.

    Returns:
      array: the image, (height, width, channels), uint8.

    Raises:
      MXNetFileNotFoundError: there is no such file.
      FormatError: it is not an image, or a damaged one.
    """
    name = os.fspath(filename)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MXNetFileNotFoundError(f"there is no image {name}") from error
    return _given(codec.decode(data, int(flag), bool(to_rgb), name), None, out)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """What a picture file holds, given as bytes, as an array (height, width, channels) of uint8.

    Args:
      buf: bytes, a bytearray, or a one-dimensional array of uint8.
      flag, to_rgb: as in `imread`.
      out: an array that the result is written into, and that is given back.

    Returns:
      array: the image, (height, width, channels), uint8.

    Raises:
      ValueError: `buf` is a string.
      FormatError: it is not an image, or a damaged one.
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if isinstance(buf, np.ndarray):
        buf = np.ascontiguousarray(buf, np.uint8)
    elif not isinstance(buf, bytes | bytearray | memoryview):
        raise MXNetValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray, got "
            f"{type(buf).__name__}; a file is read by mx.image.imread"
        )
    return _given(codec.decode(buf, int(flag), bool(to_rgb)), None, out)


def _resized(pixels: np.ndarray, width: int, height: int, interp: int) -> np.ndarray:
    if not pixels.size:
        raise MXNetValueError(
            f"a picture without pixels, {pixels.shape}, cannot be resized; was it cut outside its edges?"
        )
    cv2 = codec.opencv()
    if cv2 is None or pixels.dtype not in (np.uint8, np.float32) or interp not in (0, 1, 2, 3, 4):
        return resized_on_host(pixels, width, height, interp)
    if width < 1 or height < 1:
        raise MXNetValueError(f"width and height must be positive, got {width} and {height}")
    out = cv2.resize(pixels, (width, height), interpolation=interp)
    return out[..., None] if out.ndim == 2 else out


def imresize(src: Any, w: int, h: int, interp: int = 1, out: Any = None) -> Any:
    """A picture resized as OpenCV does it.

    Args:
      src: an array (height, width, channels).
      w, h: the new width and height.
      interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; 9 bicubic to enlarge and area to shrink; 10 one at
        random.
      out: an array that the result is written into, and that is given back.

    Returns:
      array: the image in its new size, (height, width, channels).

    >>> import mxjax as mx
    >>> imresize(mx.nd.ones((4, 6, 3)), 3, 2).shape
    (2, 3, 3)
    """
    pixels = on_host(src)
    if pixels.ndim != 3:
        raise MXNetValueError(f"an image has shape (height, width, channels), got {pixels.shape}")
    method = _get_interp_method(interp, (*pixels.shape[:2], h, w))
    return _given(_resized(pixels, int(w), int(h), method), src, out)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """A size (width, height) made to fit into another, its ratio kept.

    Args:
      src_size: the size of the image: (width, height).
      size: the size of the result, (width, height).

    Returns:
      tuple of int: (width, height).

    >>> scale_down((640, 480), (720, 120))
    (640, 106)
    """
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh  # type: ignore[assignment]
    if sw < w:
        w, h = sw, float(h * sw) / w  # type: ignore[assignment]
    return int(w), int(h)


_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect", 16: "constant"}


def copyMakeBorder(  # noqa: N802
    src: Any, top: int, bot: int, left: int, right: int, type: int = 0, value: float = 0.0,  # noqa: A002
    values: Any = (), out: Any = None,
) -> Any:  # fmt: skip
    """A picture with a border.

    Args:
      src: an array (height, width, channels).
      top, bot, left, right: how many pixels are added.
      type: 0 constant, 1 the edge repeated, 2 mirrored, 3 from the other side, 4 mirrored without the edge itself.
      value: what a constant border is filled with, `values` for each channel.
      values: the number of each channel that fills.
      out: an array that the result is written into, and that is given back.

    Returns:
      array: the larger image.
    """
    pixels = on_host(src)
    mode = _BORDERS.get(int(type))
    if mode is None:
        raise MXNetValueError(f"copyMakeBorder: type must be one of 0 ... 4, got {type!r}")
    around = ((int(top), int(bot)), (int(left), int(right)), (0, 0))
    if mode == "constant":
        rows, columns, channels = pixels.shape
        fill = np.ravel(on_host(values) if len(np.atleast_1d(values)) else [value] * channels)
        if len(fill) > channels:
            raise MXNetValueError(
                f"copyMakeBorder: values must be one for each of {channels} channels, got {values!r}"
            )
        fill = np.pad(fill, (0, channels - len(fill)))  # as OpenCV's Scalar
        made = np.empty((rows + top + bot, columns + left + right, channels), pixels.dtype)
        made[:] = fill
        made[top : top + rows, left : left + columns] = pixels
    else:
        made = np.pad(pixels, around, mode)  # type: ignore[call-overload]
    return _given(made, src, out)


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    """The method 0 ... 4 that 9 and 10 stand for; `sizes` are the old and the new height and width."""
    if interp == 9:
        if not sizes:
            return 2
        if len(sizes) != 4:
            raise MXNetAssertionError(
                f"sizes are old height and width, new height and width, got {sizes}"
            )
        oh, ow, nh, nw = sizes
        if nh > oh and nw > ow:
            return 2
        return 3 if nh < oh and nw < ow else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise MXNetValueError(f"Unknown interp method {interp}: 0 ... 4, 9 and 10 are known")
    return interp


def resize_short(src: Any, size: int, interp: int = 2) -> Any:
    """A picture resized so that its shorter side has `size` pixels.

    Args:
      src: the image, (H, W, C).
      size: the length of the shorter side.
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Returns:
      array: the image in its new size, (height, width, channels).
    """
    h, w = src.shape[:2]
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return imresize(src, new_w, new_h, interp)


@pictures(lambda pixels, key: pixels[key])
def part(src: Any, key: tuple[slice, ...]) -> Any:
    """The pixels that slices say; of an array of NumPy a view."""
    return src[key]


def fixed_crop(
    src: Any, x0: int, y0: int, w: int, h: int, size: Any = None, interp: int = 2
) -> Any:
    """The part of a picture whose upper left corner is (x0, y0), resized to `size` (width, height).

    Args:
      src: the image, (H, W, C).
      x0: the left border.
      y0: the upper border.
      w: the width.
      h: the height.
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Returns:
      array: the image in its new size, (height, width, channels).
    """
    out = part(src, (slice(y0, y0 + h), slice(x0, x0 + w)))
    if size is not None and (w, h) != tuple(size):
        out = imresize(out, size[0], size[1], interp)
    return out


def random_crop(
    src: Any, size: tuple[int, int], interp: int = 2
) -> tuple[Any, tuple[int, int, int, int]]:
    """A part of `size` (width, height) at a random place, enlarged from a small picture; and its (x, y, w, h).

    Args:
      src: the image, (H, W, C).
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Returns:
      tuple: the part of the image, and its place (x, y, width, height).
    """
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0 = random.randint(0, w - new_w)
    y0 = random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(
    src: Any, size: tuple[int, int], interp: int = 2
) -> tuple[Any, tuple[int, int, int, int]]:
    """The middle of a picture, of `size` (width, height); and (x, y, w, h) of it.

    Args:
      src: the image, (H, W, C).
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Returns:
      tuple: the part of the image, and its place (x, y, width, height).

    >>> import mxjax as mx
    >>> center_crop(mx.nd.ones((4, 6, 3)), (2, 2))[1]
    (2, 1, 2, 2)
    """
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0 = int((w - new_w) / 2)
    y0 = int((h - new_h) / 2)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_size_crop(
    src: Any,
    size: tuple[int, int],
    area: Any,
    ratio: tuple[float, float],
    interp: int = 2,
    **kwargs: Any,
) -> tuple[Any, tuple[int, int, int, int]]:
    """A part of random area and shape, resized to `size` (width, height); and (x, y, w, h) of it.

    Args:
      area: the smallest and the largest part of the picture's area; one number stands for (area, 1).
      ratio: the smallest and the largest width / height.
      src: the image, (H, W, C).
      size: the size of the result, (width, height).
      interp: the interpolation: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Returns:
      tuple: the part of the image, and its place (x, y, width, height).
    """
    if "min_area" in kwargs:
        warnings.warn(
            "`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2
        )
        area = kwargs.pop("min_area")
    if kwargs:
        raise MXNetAssertionError(
            f"unexpected keyword arguments for `random_size_crop`: {', '.join(kwargs)}"
        )
    h, w = src.shape[:2]
    lowest, highest = area if isinstance(area, tuple | list) else (area, 1.0)
    for _ in range(10):
        target = random.uniform(lowest, highest) * h * w
        shape = np.exp(random.uniform(np.log(ratio[0]), np.log(ratio[1])))
        new_w = round(np.sqrt(target * shape))
        new_h = round(np.sqrt(target / shape))
        if 0 < new_w <= w and 0 < new_h <= h:
            x0 = random.randint(0, w - new_w)
            y0 = random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Any:
    """`(src - mean) / std`, written into `src` if it is an array of mxjax; either may be None.

    Args:
      src: the image, (H, W, C), float32.
      mean: the mean of each channel, which is taken off.
      std: the standard deviation of each channel, by which it is divided.

    Returns:
      array: `src` itself, or a new array of NumPy.

    Raises:
      TypeError: an array of integers, with a mean or a deviation that is an array: `CastAug` makes it float32.
    """
    if not isinstance(src, NDArray):
        return _changed(np.asarray(src), mean, std)
    made = _normalized(src, mean, std)
    if made is not src:
        src[:] = made
    return src


def _changed(pixels: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    for value, change in ((mean, np.subtract), (std, np.divide)):
        if value is not None:
            pixels = change(pixels, on_host(value).astype(np.float32))
    return pixels


def _normalized_here(pixels: np.ndarray, mean: Any, std: Any) -> np.ndarray | None:
    if pixels.dtype != np.float32 or any(
        isinstance(v, NDArray) and v.dtype != np.float32 for v in (mean, std)
    ):
        return None
    return _changed(pixels, mean, std)


@pictures(_normalized_here)
def _normalized(src: Any, mean: Any, std: Any) -> Any:
    dtype = (
        src.dtype if np.dtype(src.dtype).kind == "f" else np.float32
    )  # integers refuse what is an array
    for value, change in ((mean, operator.isub), (std, operator.itruediv)):
        if value is not None:
            fits = isinstance(value, NDArray | Number)
            src = change(src, value if fits else as_array(np.asarray(value, dtype), src))
    return src


def imrotate(src: Any, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> Any:
    """Pictures (channels, height, width), one or a batch, turned about their middles.

    Args:
      src: float32.
      rotation_degrees: of a batch one number for each picture, or one for all.
      zoom_in: whether the image becomes larger so that no corner is empty.
      zoom_out: whether the image becomes smaller so that no corner is lost.

    Returns:
      array: of the images' shape, float32.

    Raises:
      TypeError: another dtype, or several angles for one picture.
      ValueError: both zooms, other shapes, or another number of angles.
    """
    if zoom_in and zoom_out:
        raise MXNetValueError("`zoom_in` and `zoom_out` cannot be both True")
    if np.dtype(src.dtype) != np.float32:
        raise MXNetTypeError(
            f"Only `float32` images are supported by this function, got {src.dtype}"
        )
    if src.ndim not in (3, 4):
        raise MXNetValueError(
            f"Only 3D and 4D are supported by this function, got shape {src.shape}"
        )
    single = src.ndim == 3
    if single and not isinstance(rotation_degrees, Number):
        raise MXNetTypeError(
            "When a single image is passed the rotation angle is required to be a scalar."
        )
    count = 1 if single else src.shape[0]
    if isinstance(rotation_degrees, Number):
        rotation_degrees = np.full(count, rotation_degrees)
    angles = np.deg2rad(on_host(rotation_degrees).astype(np.float64).reshape(-1))
    if len(angles) != count:
        raise MXNetValueError(
            f"The number of images must be equal to the number of rotation angles, got {count} and {len(angles)}"
        )
    h, w = src.shape[-2:]
    grid = _turned_grid(h, w, angles)
    if zoom_in or zoom_out:
        grid = grid * _zoom(h, w, np.abs(angles), zoom_out)[:, None, None, None]
    if single:
        return _sampled(src, grid[0].astype(np.float32))
    return _sampled_batch(src, grid)


def _sampled_batch(src: Any, grid: np.ndarray) -> Any:
    single = src.ndim == 3
    of_np = isinstance(src, mxnp.ndarray)
    images = src.as_nd_ndarray() if of_np else src
    images = images.expand_dims(axis=0) if single else images
    turned = nd.BilinearSampler(images, nd.array(grid.astype(np.float32), ctx=images.ctx))
    turned = turned[0] if single else turned
    return turned.as_np_ndarray() if of_np else turned


def _sampled_here(pixels: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """What `BilinearSampler` gives of one picture (channels, height, width), in its own arithmetic."""
    channels, h, w = pixels.shape
    x, y = (grid[0] + 1) * np.float32(w - 1) / 2, (grid[1] + 1) * np.float32(h - 1) / 2
    inside = ((y > -1) & (y < h) & (x > -1) & (x < w)).ravel()
    padded = np.zeros((channels, h + 2, w + 2), np.float32)
    padded[:, 1:-1, 1:-1] = pixels
    x, y = np.clip(x.ravel() + 1, 0, w + 1), np.clip(y.ravel() + 1, 0, h + 1)
    left, top = x.astype(np.intp), y.astype(np.intp)
    right, below = np.minimum(left + 1, w + 1), np.minimum(top + 1, h + 1)
    wx, wy = (x - left).astype(np.float32), (y - top).astype(np.float32)
    flat = padded.reshape(channels, -1)
    made = np.take(flat, top * (w + 2) + left, axis=1) * (1 - wy) * (1 - wx)
    made += np.take(flat, top * (w + 2) + right, axis=1) * (1 - wy) * wx
    made += np.take(flat, below * (w + 2) + left, axis=1) * wy * (1 - wx)
    made += np.take(flat, below * (w + 2) + right, axis=1) * wy * wx
    return np.where(inside, made, np.float32(0)).reshape(channels, *grid.shape[1:])


@pictures(_sampled_here)
def _sampled(src: Any, grid: np.ndarray) -> Any:
    return _sampled_batch(src, grid[None])


def _turned_grid(h: int, w: int, angles: np.ndarray) -> np.ndarray:
    """Where each pixel of the result comes from: (N, 2, height, width), x and y from -1 to 1."""
    half_h, half_w = (h - 1) / 2, (w - 1) / 2
    y, x = np.mgrid[:h, :w] - np.array([half_h, half_w])[:, None, None]
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    return np.stack(
        [(x * cos - y * sin) / max(half_w, 0.5), (x * sin + y * cos) / max(half_h, 0.5)], axis=1
    )


def _zoom(h: int, w: int, angles: np.ndarray, out: bool) -> np.ndarray:
    """By how much the grid is stretched so that all corners are inside, or the empty ones outside."""
    corner, reach = np.arctan(h / w), np.hypot(h, w)
    widest = np.maximum(*(np.abs(reach * np.cos(corner + sign * angles)) for sign in (1, -1)))
    highest = np.maximum(*(np.abs(reach * np.sin(corner + sign * angles)) for sign in (1, -1)))
    return np.maximum(widest / w, highest / h) if out else np.minimum(w / widest, h / highest)


def random_rotate(
    src: Any, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> Any:
    """`imrotate` by angles between two limits, drawn by `numpy.random`.

    Args:
      src: the image, (C, H, W), or several, (N, C, H, W); float32.
      angle_limits: the smallest and largest angle in degrees.
      zoom_in: whether the image becomes larger so that no corner is empty.
      zoom_out: whether the image becomes smaller so that no corner is lost.

    Returns:
      array: of the images' shape, float32.
    """
    angles: Any = np.random.uniform(*angle_limits, size=None if src.ndim == 3 else src.shape[0])
    return imrotate(src, angles, zoom_in=zoom_in, zoom_out=zoom_out)
