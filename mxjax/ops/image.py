"""Image operators: `npx.image`, and what the vision transforms are made of.

Images are (height, width, channels), batches (N, height, width, channels), with values from 0 to
255; `to_tensor` makes (channels, height, width) with values from 0 to 1 of them, which `normalize`
takes.  Integer images stay integer: results are cut off at the ends of the dtype and truncated, as
MXNet does it.

Where it says so, arithmetic is MXNet's rather than the textbook's, so that augmentation has the
strength it had there.  The random streams differ: they are JAX's, keyed like all of mxjax.

Rows with `host=True` are functions of NumPy's arrays, too, with the same numbers (floats to rounding): a picture that
lies in the host's memory is computed at once, outside of graphs and of autograd (`array/at_once.py`). Keys are `HostKey`
then. What changes each value by itself is worked out for the 256 values that a byte can have.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import MXNetValueError
from .draws import bernoulli, normal, permutation, split, uniform
from .numbers import fitted
from .samples import case, f, i
from .table import op

_ZERO, _FULL = np.float32(0), np.float32(255)
_IMAGE = i(6, 5, 3, low=0, high=256, dtype="uint8")

# Interpolation methods, numbered as in OpenCV.
NEAREST, BILINEAR, BICUBIC, AREA, LANCZOS = range(5)
_ENLARGING_AREA = -1  # what OpenCV does for AREA unless both sides shrink

_GRAY = (0.299, 0.587, 0.114)

# AlexNet's noise: the principal components of ImageNet's colours, each scaled by its eigenvalue.
_LIGHTING = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ],
    np.float32,
)


def _image(data: Any, name: str, batches: bool = True) -> tuple[int, int]:
    """The height and width of an image or a batch of them."""
    if data.ndim != 3 and not (batches and data.ndim == 4):
        raise MXNetValueError(
            f"npx.image.{name} takes an image (height, width, channels)"
            f"{' or a batch (N, height, width, channels)' if batches else ''}, "
            f"got shape {tuple(data.shape)}"
        )
    return data.shape[-3], data.shape[-2]


def _module(data: Any) -> Any:
    """NumPy for an array of the host (decoded pictures are resized there), otherwise JAX."""
    return np if isinstance(data, np.ndarray) else jnp


def _back(out: Any, dtype: Any, rounded: bool = False) -> Any:
    """`out` in the dtype of the image it was computed from; of NumPy's array nothing is left."""
    if (
        isinstance(out, np.ndarray) and dtype == np.uint8
    ):  # the same as below, in the memory that there is
        if rounded:
            out += np.float32(0.5)
        return np.clip(out, _ZERO, _FULL, out=out).astype(np.uint8)
    if not jnp.issubdtype(dtype, jnp.integer):
        return out.astype(dtype, copy=False) if isinstance(out, np.ndarray) else out.astype(dtype)
    info = jnp.iinfo(dtype)
    if isinstance(out, np.ndarray):
        return np.clip(np.floor(out + 0.5) if rounded else out, info.min, info.max).astype(dtype)
    return jnp.clip(jnp.floor(out + 0.5) if rounded else out, info.min, info.max).astype(dtype)


def _floating(data: Any) -> Any:
    return data if jnp.issubdtype(data.dtype, jnp.floating) else data.astype(jnp.float32)


# ----------------------------------------------------------------------------------- tensors


@op("image_to_tensor", npx_image="to_tensor", samples=[case(_IMAGE)], smooth=False, host=True)
def to_tensor(data: Any) -> Any:
    """An image (H, W, C) of 0 ... 255 as a float32 tensor (C, H, W) of 0 ... 1; batches likewise.

    >>> import mxjax as mx
    >>> mx.npx.image.to_tensor(mx.np.full((4, 2, 3), 255, dtype='uint8')).shape
    (3, 4, 2)
    """
    _image(data, "to_tensor")
    if isinstance(data, np.ndarray):
        return np.divide(data.transpose(2, 0, 1), np.float32(255), dtype=np.float32, order="C")
    return jnp.moveaxis(data, -1, -3).astype(jnp.float32) / np.float32(255)


def _per_channel(value: Any, channels: int, name: str, shape: tuple[int, ...]) -> Any:
    values = fitted(value, np.float32).reshape(-1)
    if values.shape not in ((1,), (channels,)):
        raise MXNetValueError(
            f"npx.image.normalize: {name} must be one number or one per channel, got "
            f"{len(values)} for a tensor of shape {shape}, which has {channels} channels"
        )
    return values.reshape(-1, 1, 1)


@op(
    "image_normalize",
    npx_image="normalize",
    samples=[case(f(3, 6, 5), mean=(0.1, 0.2, 0.3), std=2.0)],
    smooth=False,
    host=True,
    numbers=("mean", "std"),
)
def normalize(data: Any, *, mean: Any = 0.0, std: Any = 1.0) -> Any:
    """`(data - mean) / std` per channel of a tensor (C, H, W) or (N, C, H, W); C is 1 or 3."""
    if data.ndim not in (3, 4) or data.shape[-3] not in (1, 3):
        raise MXNetValueError(
            "npx.image.normalize takes a tensor (C, H, W) or (N, C, H, W) with 1 or 3 channels, "
            f"got shape {tuple(data.shape)}; npx.image.to_tensor makes one of an image"
        )
    channels = data.shape[-3]
    mean = _per_channel(mean, channels, "mean", data.shape)
    std = _per_channel(std, channels, "std", data.shape)
    values = _floating(data)
    return _back((values - mean.astype(values.dtype)) / std.astype(values.dtype), data.dtype)


# ------------------------------------------------------------------------ crop, flip, resize


@op(
    "image_crop",
    npx_image="crop",
    samples=[case(_IMAGE, x=1, y=2, width=3, height=2)],
    smooth=False,
    host=True,
)
def crop(data: Any, *, x: int, y: int, width: int, height: int) -> Any:
    """The part of an image whose upper left corner is (x, y)."""
    rows, columns = _image(data, "crop")
    if x < 0 or y < 0 or width < 1 or height < 1 or x + width > columns or y + height > rows:
        raise MXNetValueError(
            f"npx.image.crop: the {width} x {height} part at ({x}, {y}) does not lie within an "
            f"image of width {columns} and height {rows}"
        )
    return data[..., y : y + height, x : x + width, :]


def _flipped(data: Any, axis: int) -> Any:
    if isinstance(data, np.ndarray):
        if axis == -2 and data.flags.c_contiguous and data.itemsize * data.shape[2] <= 16:
            whole = data.view(
                np.dtype((np.void, data.itemsize * data.shape[2]))
            )  # a pixel is moved as one thing
            return whole[:, ::-1].copy().view(data.dtype)
        return np.flip(data, axis)
    return jnp.flip(data, axis)


@op(
    "image_flip_left_right",
    npx_image="flip_left_right",
    samples=[case(_IMAGE)],
    smooth=False,
    host=True,
)
def flip_left_right(data: Any) -> Any:
    """An image mirrored: left becomes right."""
    _image(data, "flip_left_right")
    return _flipped(data, -2)


@op(
    "image_flip_top_bottom",
    npx_image="flip_top_bottom",
    samples=[case(_IMAGE)],
    smooth=False,
    host=True,
)
def flip_top_bottom(data: Any) -> Any:
    """An image upside down."""
    _image(data, "flip_top_bottom")
    return _flipped(data, -3)


def _flipped_perhaps(key: Any, data: Any, p: Any, axis: int) -> Any:
    chosen = bernoulli(key, p)
    if isinstance(data, np.ndarray):
        return _flipped(data, axis) if chosen else data
    return jnp.where(chosen, jnp.flip(data, axis), data)


@op(
    "image_random_flip_left_right",
    npx_image="random_flip_left_right",
    keyed=True,
    samples=[case(_IMAGE)],
    smooth=False,
    host=True,
    numbers=("p",),
)
def random_flip_left_right(key: Any, data: Any, *, p: float = 0.5) -> Any:
    """An image mirrored with probability `p`."""
    _image(data, "random_flip_left_right")
    return _flipped_perhaps(key, data, p, -2)


@op(
    "image_random_flip_top_bottom",
    npx_image="random_flip_top_bottom",
    keyed=True,
    samples=[case(_IMAGE)],
    smooth=False,
    host=True,
    numbers=("p",),
)
def random_flip_top_bottom(key: Any, data: Any, *, p: float = 0.5) -> Any:
    """An image turned upside down with probability `p`."""
    _image(data, "random_flip_top_bottom")
    return _flipped_perhaps(key, data, p, -3)


def _cubic(distance: np.ndarray) -> np.ndarray:
    a = -0.75  # OpenCV's
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _lanczos(distance: np.ndarray) -> np.ndarray:
    return np.where(np.abs(distance) < 4, np.sinc(distance) * np.sinc(distance / 4), 0.0)


@functools.lru_cache(256)
def _taps(size: int, new: int, interp: int) -> tuple[np.ndarray, np.ndarray]:
    """The old positions that each new one is made of, and their weights: (new, taps) each."""
    scale = 1.0 / (new / size)  # as OpenCV computes it
    at = np.arange(new)
    if interp == NEAREST or size == new:
        index = np.minimum(np.floor(at * scale).astype(int), size - 1)[:, None]
        return index, np.ones((new, 1), np.float32)
    if interp == AREA:
        lower, upper = at * scale, (at + 1) * scale
        first = np.floor(lower).astype(int)
        index = first[:, None] + np.arange(math.ceil(scale) + 1)
        covered = np.minimum(index + 1, upper[:, None]) - np.maximum(index, lower[:, None])
        weights = np.maximum(covered, 0) / scale
        return np.minimum(index, size - 1), weights.astype(np.float32)
    if interp == _ENLARGING_AREA:
        base = np.floor(at * scale).astype(int)
        fraction = ((at + 1) - (base + 1) * (new / size)).astype(np.float32)
        fraction = np.where(fraction <= 0, 0.0, fraction - np.floor(fraction))
        kernel, reach = None, 1
    else:
        center = ((at + 0.5) * scale - 0.5).astype(np.float32)  # OpenCV's precision
        base = np.floor(center).astype(int)
        fraction = center - base
        kernel, reach = {BILINEAR: (None, 1), BICUBIC: (_cubic, 2), LANCZOS: (_lanczos, 4)}[interp]
    offsets = np.arange(1 - reach, reach + 1)
    distance = fraction[:, None] - offsets
    weights = 1 - np.abs(distance) if kernel is None else kernel(distance)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(base[:, None] + offsets, 0, size - 1), weights.astype(np.float32)


def _cubic_as_opencv(x: np.ndarray) -> list[np.ndarray]:
    """Four weights of float32, each rounded as OpenCV's; the last makes their sum 1."""
    a, one = np.float32(-0.75), np.float32(1)
    first = ((a * (x + one) - 5 * a) * (x + one) + 8 * a) * (x + one) - 4 * a
    second = ((a + 2) * x - (a + 3)) * x * x + one
    third = ((a + 2) * (one - x) - (a + 3)) * (one - x) * (one - x) + one
    return [first, second, third, one - first - second - third]


def _lanczos_as_opencv(x: np.ndarray) -> list[np.ndarray]:
    """Eight weights of float32, by OpenCV's sine and cosine of one angle and its order of sums."""
    half, at = math.sqrt(0.5), x.astype(np.float64) + 3
    turns = [
        (1, 0),
        (-half, -half),
        (0, 1),
        (half, -half),
        (-1, 0),
        (half, half),
        (0, -1),
        (-half, half),
    ]
    sine, cosine = np.sin(-at * np.pi / 4), np.cos(-at * np.pi / 4)
    whole = x < np.finfo(np.float32).eps  # the pixel itself
    angles = [np.where(whole, 1.0, -(at - k) * np.pi / 4) for k in range(8)]
    made = [
        ((s * sine + c * cosine) / (angle * angle)).astype(np.float32)
        for (s, c), angle in zip(turns, angles, strict=True)
    ]
    scale = np.float32(1) / sum(made, np.float32(0))
    return [np.where(whole, np.float32(k == 3), w * scale) for k, w in enumerate(made)]


@functools.lru_cache(256)
def _wide_taps(size: int, new: int, interp: int) -> tuple[np.ndarray, np.ndarray]:
    """As `_taps`, with the weights in 2048ths that OpenCV has for bytes."""
    center = ((np.arange(new) + 0.5) * (1.0 / (new / size)) - 0.5).astype(np.float32)
    base = np.floor(center).astype(int)
    x = (center - base).astype(np.float32)
    weights = np.stack(_cubic_as_opencv(x) if interp == BICUBIC else _lanczos_as_opencv(x), axis=1)
    reach = weights.shape[1] // 2
    index = np.clip(base[:, None] + np.arange(1 - reach, reach + 1), 0, size - 1)
    return index, np.rint(weights * np.float32(2048)).astype(np.int32)


def _along(data: Any, axis: int, taps: tuple[np.ndarray, np.ndarray]) -> Any:
    index, weights = taps
    shape = [1] * data.ndim
    shape[axis] = len(index)
    out = None
    for number in range(index.shape[1]):
        part = _module(data).take(data, index[:, number], axis=axis)
        if index.shape[1] > 1:
            part = part * weights[:, number].reshape(shape).astype(data.dtype)
        out = part if out is None else out + part
    return out


def _columns(sums: Any, vertical: Any) -> Any:
    """Bytes of rows in 2048ths. OpenCV rounds once, from 22 bits behind the point."""
    xp = _module(sums)
    out = _along(sums, sums.ndim - 3, vertical)
    return xp.clip((out + (1 << 21)) >> 22, 0, 255).astype(xp.uint8)


def _cubic_columns(sums: Any, vertical: Any) -> Any:
    """As `_columns`, by four taps: OpenCV sums eight numbers of a row at once, in float32, and what is left as integers.

    Rounding shows where a result lies halfway between two bytes, as many do if the picture keeps its width.
    """
    xp, (index, weights) = _module(sums), vertical
    width, channels = sums.shape[-2:]
    taps = index[:, ::-1], weights[:, ::-1] * np.float32(2.0**-22)
    out = _along(sums.astype(xp.float32), sums.ndim - 3, taps)
    out = xp.clip(xp.rint(out), 0, 255).astype(xp.uint8)
    at_once = width * channels // 8 * 8
    first = at_once // channels
    if first == width:
        return out
    left = _columns(sums[..., first:, :], vertical)
    number = np.arange(first * channels, width * channels).reshape(-1, channels)
    left = xp.where(number < at_once, out[..., first:, :], left)
    return xp.concatenate([out[..., :first, :], left], axis=-2)


def _resized(data: Any, width: int, height: int, interp: int) -> Any:
    if interp not in (NEAREST, BILINEAR, BICUBIC, AREA, LANCZOS):
        raise MXNetValueError(
            "interp must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) or 4 (Lanczos), "
            f"got {interp}"
        )
    rows, columns = data.shape[-3], data.shape[-2]
    if (rows, columns) == (height, width):
        return data
    if interp == AREA and (height > rows or width > columns):
        interp = _ENLARGING_AREA
    if data.dtype == np.uint8 and interp in (BICUBIC, LANCZOS):
        across, vertical = _wide_taps(columns, width, interp), _wide_taps(rows, height, interp)
        sums = _along(data.astype(_module(data).int32), data.ndim - 2, across)
        return (_cubic_columns if interp == BICUBIC else _columns)(sums, vertical)
    taps = [_taps(rows, height, interp), _taps(columns, width, interp)]
    if interp in (BILINEAR, _ENLARGING_AREA):
        return _bilinear(data, *taps)
    values = data if interp == NEAREST else _floating(data)
    out = _along(_along(values, data.ndim - 3, taps[0]), data.ndim - 2, taps[1])
    return out if interp == NEAREST else _back(out, data.dtype, rounded=True)


@op(
    "image_resize", npx_image="resize", samples=[case(_IMAGE, size=(4, 3))], smooth=False, host=True
)
def resize(data: Any, *, size: Any = 0, keep_ratio: bool = False, interp: int = 1) -> Any:
    """An image resized as OpenCV does it (without antialiasing); bytes by area up to rounding.

    Args:
      size: (width, height); one number for both, or with `keep_ratio` for the shorter side.
      keep_ratio: with one number, keep the ratio of the sides.
      interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.
    """
    rows, columns = _image(data, "resize")
    if not isinstance(size, Sequence):
        size = (size,)
    if len(size) == 1:
        width = height = int(size[0])
        if keep_ratio and rows > columns:
            height = int(rows * width / columns)
        elif keep_ratio:
            width = int(columns * height / rows)
    else:
        width, height = (int(side) for side in size)
    if width < 1 or height < 1:
        raise MXNetValueError(f"npx.image.resize: width and height must be positive, got {size}")
    return _resized(data, width, height, interp)


def resized_on_host(pixels: np.ndarray, width: int, height: int, interp: int = 1) -> np.ndarray:
    """`resize` of an array (height, width, channels) of NumPy, without JAX."""
    if width < 1 or height < 1:
        raise MXNetValueError(f"width and height must be positive, got {width} and {height}")
    return _resized(pixels, width, height, interp)


class _Scratch(threading.local):
    """Memory that a thread uses again: fresh memory for each picture takes longer than the arithmetic on it."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, Any], np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        size = math.prod(shape)
        if size > _MOST_HELD:
            return np.empty(shape, dtype)
        held = self.held.get((name, dtype))
        if held is None or held.size < size:
            held = self.held[name, dtype] = np.empty(size, dtype)
        return held[:size].reshape(shape)


_MOST_HELD = 1 << 21  # elements of one buffer
#: This thread's; what was taken under a name is overwritten when it is taken again.
scratch = _Scratch()


_QUICK = (np.uint8, np.float32)


def _bilinear(data: Any, vertical: Any, across: Any) -> Any:
    """What is made of the taps of `_taps` both ways. OpenCV computes bytes in fixed point."""
    if data.dtype == np.uint8:
        on_host = isinstance(data, np.ndarray) and data.ndim == 3
        return (_bytes_on_host if on_host else _bytes)(data, _fixed(vertical), _fixed(across))
    if isinstance(data, np.ndarray) and data.dtype == np.float32 and data.ndim == 3:
        return _bilinear_on_host(data, vertical, across)
    out = _along(_along(_floating(data), data.ndim - 3, vertical), data.ndim - 2, across)
    return _back(out, data.dtype, rounded=True)


def _fixed(taps: Any) -> tuple[Any, Any]:
    """The taps with weights in 2048ths."""
    index, weights = taps
    xp = _module(weights)
    return index, xp.rint(weights * xp.float32(2048)).astype(xp.int32)


def _bytes(pixels: Any, vertical: Any, across: Any) -> Any:
    """Bytes (..., height, width, channels) in OpenCV's fixed point: rows are made first, and lose 4 bits."""
    xp, axis = _module(pixels), pixels.ndim - 3
    rows = _along(pixels.astype(xp.int32), axis + 1, across)
    rows = (
        rows >> 4 if across[0].shape[1] > 1 else rows << 7
    )  # one tap is 2048 / 2048, which `_along` leaves out
    out = None
    for number in range(vertical[0].shape[1]):
        weights = vertical[1][:, number].reshape(-1, 1, 1)
        part = (xp.take(rows, vertical[0][:, number], axis=axis) * weights) >> 16
        out = part if out is None else out + part
    assert out is not None
    return ((out + 2) >> 2).astype(xp.uint8)


def _bytes_on_host(pixels: np.ndarray, vertical: Any, across: Any) -> np.ndarray:
    """What `_bytes` gives of one image, in memory that is there already."""
    (top, down), (left, right) = vertical, across
    rows, columns, channels = pixels.shape
    height, width = len(top), len(left)
    # The rows that are asked for, which a part of an image does not all need; each is made once.
    first, last = int(top.min()), int(top.max()) + 1
    flat = pixels.reshape(rows, columns * channels)[first:last]
    shape, size = (last - first, width * channels), (height, width * channels)
    given = scratch.take("given", shape, np.uint8)
    made, more = (scratch.take(name, shape, np.int32) for name in ("made", "more"))
    parts = np.arange(channels)
    for number in range(left.shape[1]):
        out = more if number else made
        np.take(
            flat, (left[:, number, None] * channels + parts).ravel(), axis=1, out=given, mode="clip"
        )
        np.multiply(given, np.repeat(right[:, number], channels), out=out)
        if number:
            made += more
    made >>= 4
    upper, lower = (scratch.take(name, size, np.int32) for name in ("upper", "lower"))
    for number in range(top.shape[1]):
        out = lower if number else upper
        np.take(made, top[:, number] - first, axis=0, out=out, mode="clip")
        out *= down[:, number, None]
        out >>= 16
        if number:
            upper += lower
    upper += 2
    upper >>= 2
    return upper.astype(np.uint8).reshape(height, width, channels)


def _bilinear_on_host(pixels: np.ndarray, vertical: Any, across: Any) -> np.ndarray:
    """What `_bilinear` gives of one image of 32-bit floats: the same sums, in memory that is there already."""
    (top, down), (left, right) = vertical, across
    rows, columns, channels = pixels.shape
    height, width = len(top), len(left)
    flat = pixels.reshape(rows, columns * channels)
    given = scratch.take("given", (height, columns * channels), np.float32)
    upper, lower = (scratch.take(name, given.shape, np.float32) for name in ("upper", "lower"))
    out = upper
    for number in range(top.shape[1]):
        out = lower if number else upper
        np.take(flat, top[:, number], axis=0, out=given, mode="clip")
        np.multiply(given, down[:, number, None], out=out)
    if out is lower:
        upper += lower
    near, far = (
        scratch.take(name, (height, width * channels), np.float32) for name in ("near", "far")
    )
    # Numbers one by one: NumPy moves those of 4 bytes more quickly than pixels of 12.
    parts = np.arange(channels)
    for number in range(left.shape[1]):
        out = far if number else near
        np.take(
            upper, (left[:, number, None] * channels + parts).ravel(), axis=1, out=out, mode="clip"
        )
        out *= np.repeat(right[:, number], channels)
    if out is far:
        near += far
    return near.reshape(height, width, channels).copy()


def _fitting(rows: int, columns: int, width: int, height: int) -> tuple[int, int]:
    """The part of an image that is cut out where it is smaller than what is asked for: MXNet keeps
    the ratio of the sides where the height is too large, and cuts the width alone otherwise."""
    if height > rows:
        width, height = max(1, width * rows // height), rows
    return min(width, columns), height


def _cut(data: Any, x: Any, y: Any, width: int, height: int) -> Any:
    if isinstance(data, np.ndarray):
        return data[int(y) : int(y) + height, int(x) : int(x) + width]
    starts = [0] * (data.ndim - 3) + [y, x, 0]
    sizes = [*data.shape[:-3], height, width, data.shape[-1]]
    return jax.lax.dynamic_slice(data, [jnp.asarray(start, jnp.int32) for start in starts], sizes)


@op(
    "image_random_crop",
    npx_image="random_crop",
    keyed=True,
    samples=[case(_IMAGE, width=3, height=2)],
    smooth=False,
    host=True,
)
def random_crop(
    key: Any,
    data: Any,
    *,
    xrange: tuple[float, float] = (0.0, 1.0),
    yrange: tuple[float, float] = (0.0, 1.0),
    width: int,
    height: int,
    interp: int = 1,
) -> Any:
    """A part of an image at a random place; where the image is smaller, a part of it enlarged.

    Args:
      xrange, yrange: where the place may be, from 0 (left, top) to 1 (right, bottom).
      width, height: of the result.
      interp: how a part is enlarged, see `resize`.
    """
    rows, columns = _image(data, "random_crop")
    part_width, part_height = _fitting(rows, columns, width, height)
    xp = _module(data)
    x, y = (
        xp.floor(uniform(k, low, max(high, low)) * free)
        for k, (low, high), free in zip(
            split(key),
            (xrange, yrange),
            (columns - part_width, rows - part_height),
            strict=True,
        )
    )
    return _resized(_cut(data, x, y, part_width, part_height), width, height, interp)


@op(
    "image_random_resized_crop",
    npx_image="random_resized_crop",
    keyed=True,
    samples=[case(_IMAGE, width=3, height=2)],
    smooth=False,
    host=True,
)
def random_resized_crop(
    key: Any,
    data: Any,
    *,
    width: int,
    height: int,
    area: Any = (0.08, 1.0),
    ratio: Any = (3 / 4, 4 / 3),
    interp: int = 1,
    max_trial: int = 10,
) -> Any:
    """A part of random size and shape, resized: the usual augmentation for ImageNet.

    Args:
      width, height: of the result.
      area: the smallest and largest part, as fractions of the image's area.
      ratio: the smallest and largest width / height of the part.
      interp: 1 (bilinear) or 0 (nearest); the part's size is known only when the program runs.
      max_trial: draws that may fail to fit into the image before the middle is taken.
    """
    rows, columns = _image(data, "random_resized_crop")
    if interp not in (NEAREST, BILINEAR):
        interp = BILINEAR
    area = (area, 1.0) if isinstance(area, (int, float)) else area
    x, y, w, h = _random_part(split(key, 4), rows, columns, area, ratio, max_trial, _module(data))
    vertical = _stretch(y, h, height, rows, interp, _module(data))
    across = _stretch(x, w, width, columns, interp, _module(data))
    if interp == BILINEAR:
        return _bilinear(data, vertical, across)
    return _along(_along(data, data.ndim - 3, vertical), data.ndim - 2, across)


def _random_part(
    keys: Any, rows: int, columns: int, area: Any, ratio: Any, trials: int, xp: Any
) -> tuple[Any, Any, Any, Any]:
    """Place and size of the first part that was drawn and lies within the image, otherwise of its middle."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    middle_w, middle_h = min(columns, rows * ratio[1]), min(rows, columns / ratio[0])
    if xp is np:
        fits, w, h = False, middle_w, middle_h
        for k in range(trials):
            part, shape = (
                rows * columns * float(uniform(keys[0], area[0], area[1], k)),
                math.exp(uniform(keys[1], low, high, k)),
            )
            wide, tall = round(math.sqrt(part * shape)), round(math.sqrt(part / shape))
            if 1 <= wide <= columns and 1 <= tall <= rows:
                fits, w, h = True, wide, tall
                break
        if not fits:
            return (columns - w) / 2, (rows - h) / 2, w, h
        u, v = uniform(keys[2], k=0), uniform(keys[2], k=1)
        return (
            math.floor(u * np.float32(columns - w + 1)),
            math.floor(v * np.float32(rows - h + 1)),
            w,
            h,
        )
    part = rows * columns * jax.random.uniform(keys[0], (trials,), jnp.float32, *area)
    shape = jnp.exp(jax.random.uniform(keys[1], (trials,), jnp.float32, low, high))
    widths, heights = jnp.round(jnp.sqrt(part * shape)), jnp.round(jnp.sqrt(part / shape))
    all_fit = (widths <= columns) & (heights <= rows) & (widths >= 1) & (heights >= 1)
    chosen = jnp.argmax(all_fit)
    fits = all_fit[chosen]
    w, h = jnp.where(fits, widths[chosen], middle_w), jnp.where(fits, heights[chosen], middle_h)
    u = jax.random.uniform(keys[2], (2,), jnp.float32)
    x = jnp.where(fits, jnp.floor(u[0] * (columns - w + 1)), (columns - w) / 2)
    y = jnp.where(fits, jnp.floor(u[1] * (rows - h + 1)), (rows - h) / 2)
    return x, y, w, h


def _stretch(start: Any, length: Any, new: int, size: int, interp: int, xp: Any) -> tuple[Any, Any]:
    """As `_taps`, of the `length` positions from `start` on; both may be traced."""
    if xp is np:
        half = np.arange(0.5, new)
        if interp == NEAREST:
            index = np.clip(
                start + np.floor((half - 0.5) * length / new), start, start + length - 1
            )
            return index.astype(np.intp)[:, None], np.ones((new, 1), np.float32)
        half *= length
        half /= new
        half += start - 0.5
        center = np.minimum(np.maximum(half, start, out=half), start + length - 1, out=half)
        index, weights = np.empty((new, 2), np.intp), np.empty((new, 2), np.float32)
        index[:, 0] = center  # none is below 0
        np.minimum(index[:, 0] + 1, size - 1, out=index[:, 1])
        np.subtract(center, index[:, 0], out=weights[:, 1], casting="same_kind")
        np.subtract(1, weights[:, 1], out=weights[:, 0])
        return index, weights
    exact = jax.dtypes.canonicalize_dtype(
        np.float64
    )  # of float32 XLA would multiply by a rounded 1 / new
    at, start, length = jnp.arange(new, dtype=exact), start.astype(exact), length.astype(exact)
    last = start + length - 1
    if interp == NEAREST:
        index = jnp.clip(start + jnp.floor(at * length / new), start, last)
        return index.astype(jnp.int32)[:, None], np.ones((new, 1), np.float32)
    center = jnp.clip(start + (at + 0.5) * length / new - 0.5, start, last)
    base = jnp.floor(center)
    fraction = (center - base).astype(np.float32)
    index = jnp.clip(jnp.stack([base, base + 1], 1), 0, size - 1).astype(jnp.int32)
    return index, jnp.stack([1 - fraction, fraction], 1)


# ------------------------------------------------------------------------------------ colour


_BYTES = np.arange(256, dtype=np.float32)


def _pointwise(data: Any, change: Callable[[Any], Any]) -> Any:
    """An image with each value changed by itself, as floats."""
    if isinstance(data, np.ndarray) and data.dtype == np.uint8:
        table = _back(change(_BYTES), data.dtype).tobytes()
        changed = bytearray(np.ascontiguousarray(data).data).translate(table)
        return np.frombuffer(changed, np.uint8).reshape(data.shape)
    return _back(change(_floating(data)), data.dtype)


def _in_strips(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A long computation on pixels by themselves; of NumPy's arrays some rows at a time, which stay in a cache."""

    @functools.wraps(change)
    def run(data: Any, by: Any) -> Any:
        if not isinstance(data, np.ndarray) or data.size <= 2 * _STRIP:
            return change(data, by)
        step = max(1, _STRIP // (data.size // len(data)))
        made = np.empty(data.shape, data.dtype)
        for start in range(0, len(data), step):
            made[start : start + step] = change(data[start : start + step], by)
        return made

    return run


_STRIP = 1 << 14  # numbers: 64 KiB of float32


def _fit(factor: Any, values: Any) -> Any:
    return factor.astype(values.dtype)


def _brightness(data: Any, factor: Any) -> Any:
    return _pointwise(data, lambda values: values * _fit(factor, values))


def _contrast(data: Any, factor: Any) -> Any:
    mean = _mean_gray(data)

    def change(values: Any) -> Any:
        by = _fit(factor, values)
        return values * by + _fit(mean, values) * (1 - by)

    return _pointwise(data, change)


def _mean_gray(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        rows, columns, channels = data.shape
        sums = data.reshape(rows, -1).sum(
            0, dtype=np.uint32 if data.dtype == np.uint8 else np.float32
        )
        means = sums.reshape(columns, channels).sum(0, dtype=np.float64) / (rows * columns)
        return np.float32(means[0] if channels == 1 else np.dot(means, _GRAY))
    values = _floating(data)
    return jnp.mean(values[..., 0] if values.shape[-1] == 1 else _weighted(values), axis=(-2, -1))


def _weighted(values: Any) -> Any:
    red, green, blue = (np.asarray(weight, values.dtype) for weight in _GRAY)
    return values[..., 0] * red + values[..., 1] * green + values[..., 2] * blue


def _saturation(data: Any, factor: Any) -> Any:
    if data.shape[-1] == 1:
        return data
    values = _floating(data)
    by = _fit(factor, values)
    # MXNet's gray is the blue part alone: each channel's term replaces the one before.
    if isinstance(data, np.ndarray) and data.dtype in _QUICK and data.shape[2] == 3:
        rows, columns, _ = data.shape
        gray = np.take(data.reshape(rows, -1), _blue(columns), axis=1) * np.float32(_GRAY[2])
        gray *= 1 - by
        gray += (values * by).reshape(rows, -1)
        return _back(gray, data.dtype).reshape(data.shape)
    gray = values[..., 2:] * np.asarray(_GRAY[2], values.dtype)
    return _back(values * by + gray * (1 - by), data.dtype)


@functools.lru_cache(64)
def _blue(columns: int) -> np.ndarray:
    """In a row of pixels the place of the blue part for each part."""
    return np.repeat(np.arange(columns) * 3 + 2, 3)


@_in_strips
def _hue(data: Any, turns: Any) -> Any:
    """The colours turned by `turns` of the colour circle, lightness and saturation kept (HLS)."""
    if data.shape[-1] == 1:
        return data
    xp, values = _module(data), _floating(data)
    if values.dtype.itemsize == 2:
        values = values.astype(np.float32)  # as MXNet computes colours
    turns = _fit(turns, values)
    scaled = (
        np.ascontiguousarray(values.transpose(2, 0, 1)) if xp is np else jnp.moveaxis(values, -1, 0)
    ) / 255
    red, green, blue = scaled[0], scaled[1], scaled[2]
    high, low = xp.max(scaled, 0), xp.min(scaled, 0)
    spread, total = high - low, high + low
    lightness = total / 2
    colourless = spread <= np.float32(1e-7)
    safe = xp.where(colourless, 1, spread)
    bound = xp.where(lightness < 0.5, total, 2 - total)
    saturation = xp.where(colourless, 0, spread / xp.where(bound == 0, 1, bound))
    sector = xp.where(
        high == red,
        (green - blue) / safe,
        xp.where(high == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = _round_the_circle(sector + turns * 6)
    top = xp.where(
        lightness <= 0.5, lightness * (1 + saturation), lightness * (1 - saturation) + saturation
    )
    bottom = 2 * lightness - top

    def channel(at: Any) -> Any:
        at = _round_the_circle(at)
        rising, falling = xp.clip(at, 0, 1), xp.clip(4 - at, 0, 1)
        return bottom + (top - bottom) * xp.minimum(rising, falling)

    out = xp.stack([channel(hue + 2), channel(hue), channel(hue - 2)], -1)
    out = xp.where(colourless[..., None], xp.stack([red, green, blue], -1), out) * 255
    # What is a whole number but for rounding is not truncated to the one below.
    return _back(out if out.dtype == data.dtype else out + np.float32(1 / 1024), data.dtype)


def _round_the_circle(sectors: Any) -> Any:
    """Modulo 6; a number that is rounded to the other end means the same colour."""
    if isinstance(sectors, np.ndarray):
        return sectors - np.floor(sectors * np.float32(1 / 6)) * np.float32(6)
    return jnp.mod(sectors, 6)


def _check_factors(min_factor: Any, max_factor: Any, name: str = "random_brightness") -> None:
    numbers = not (hasattr(min_factor, "dtype") or hasattr(max_factor, "dtype"))
    if numbers and not 0 <= min_factor <= max_factor:
        raise MXNetValueError(
            f"npx.image.{name}: factors must satisfy 0 <= min_factor <= max_factor, "
            f"got {min_factor} and {max_factor}"
        )


def _with_factor(
    key: Any, data: Any, low: float, high: float, change: Callable[[Any, Any], Any], name: str
) -> Any:
    _image(data, name, batches=False)
    _check_factors(low, high, name)
    return change(data, uniform(key, low, high))


@op(
    "image_random_brightness",
    npx_image="random_brightness",
    keyed=True,
    samples=[case(_IMAGE, min_factor=0.5, max_factor=1.5)],
    smooth=False,
    host=True,
    numbers=("min_factor", "max_factor"),
    check=_check_factors,
)
def random_brightness(key: Any, data: Any, *, min_factor: float, max_factor: float) -> Any:
    """An image times a random factor."""
    return _with_factor(key, data, min_factor, max_factor, _brightness, "random_brightness")


@op(
    "image_random_contrast",
    npx_image="random_contrast",
    keyed=True,
    samples=[case(_IMAGE, min_factor=0.5, max_factor=1.5)],
    smooth=False,
    host=True,
    numbers=("min_factor", "max_factor"),
    check=_check_factors,
)
def random_contrast(key: Any, data: Any, *, min_factor: float, max_factor: float) -> Any:
    """An image moved away from its mean gray (or towards it) by a random factor."""
    return _with_factor(key, data, min_factor, max_factor, _contrast, "random_contrast")


@op(
    "image_random_saturation",
    npx_image="random_saturation",
    keyed=True,
    samples=[case(_IMAGE, min_factor=0.5, max_factor=1.5)],
    smooth=False,
    host=True,
    numbers=("min_factor", "max_factor"),
    check=_check_factors,
)
def random_saturation(key: Any, data: Any, *, min_factor: float, max_factor: float) -> Any:
    """An image moved away from gray (or towards it) by a random factor, with MXNet's gray."""
    return _with_factor(key, data, min_factor, max_factor, _saturation, "random_saturation")


@op(
    "image_random_hue",
    npx_image="random_hue",
    keyed=True,
    samples=[case(_IMAGE, min_factor=0.5, max_factor=1.5)],
    smooth=False,
    host=True,
    numbers=("min_factor", "max_factor"),
    check=_check_factors,
)
def random_hue(key: Any, data: Any, *, min_factor: float, max_factor: float) -> Any:
    """An image whose colours are turned round the colour circle; a factor of 1 is a whole turn."""
    return _with_factor(key, data, min_factor, max_factor, _hue, "random_hue")


@op(
    "image_random_color_jitter",
    npx_image="random_color_jitter",
    keyed=True,
    samples=[case(_IMAGE, brightness=0.5, contrast=0.0, saturation=0.0, hue=0.1)],
    smooth=False,
    host=True,
)
def random_color_jitter(
    key: Any,
    data: Any,
    *,
    brightness: float = 0.0,
    contrast: float = 0.0,
    saturation: float = 0.0,
    hue: float = 0.0,
) -> Any:
    """Random brightness, contrast, saturation and hue, one after the other in random order.

    The factors are drawn from `max(0, 1 - amount) ... 1 + amount`; an amount of 0 changes nothing.
    """
    _image(data, "random_color_jitter", batches=False)
    changes = [
        (change, max(0.0, 1 - amount), 1 + amount)
        for change, amount in (
            (_brightness, brightness),
            (_contrast, contrast),
            (_saturation, saturation),
            (_hue, hue),
        )
        if amount > 0
    ]
    if not changes:
        return data

    def step(change: Callable[[Any, Any], Any], low: float, high: float, key: Any) -> Any:
        return lambda image: change(image, uniform(key, low, high))

    order_key, *keys = split(key, len(changes) + 1)
    steps = [step(*change, k) for change, k in zip(changes, keys, strict=True)]
    if len(steps) == 1:
        return steps[0](data)
    order = permutation(order_key, len(steps))
    for position in range(len(steps)):
        if isinstance(data, np.ndarray):
            data = steps[order[position]](data)
        else:
            data = jax.lax.switch(order[position], steps, data)
    return data


def _lit(data: Any, alpha: Any) -> Any:
    if data.shape[-1] == 1:
        return data
    values = _floating(data)
    if isinstance(data, np.ndarray):
        rows, columns, channels = data.shape
        shifts = np.tile(_LIGHTING @ alpha, columns)  # a row is added to as one
        return _back(values.reshape(rows, columns * channels) + shifts, data.dtype).reshape(
            data.shape
        )
    shift = jnp.asarray(_LIGHTING) @ jnp.asarray(alpha, jnp.float32)
    return _back(values + shift.astype(values.dtype), data.dtype)


@op(
    "image_adjust_lighting",
    npx_image="adjust_lighting",
    samples=[case(_IMAGE, alpha=(0.1, 0.2, 0.3))],
    smooth=False,
    host=True,
)
def adjust_lighting(data: Any, *, alpha: Any) -> Any:
    """AlexNet's colour noise with the three given strengths."""
    _image(data, "adjust_lighting", batches=False)
    return _lit(data, np.asarray(alpha, np.float32))


@op(
    "image_random_lighting",
    npx_image="random_lighting",
    keyed=True,
    samples=[case(_IMAGE)],
    smooth=False,
    host=True,
    numbers=("alpha_std",),
)
def random_lighting(key: Any, data: Any, *, alpha_std: float = 0.05) -> Any:
    """AlexNet's colour noise with strengths drawn from a normal distribution.

    Krizhevsky, Sutskever, Hinton: ImageNet Classification with Deep Convolutional Neural
    Networks, 2012.
    """
    _image(data, "random_lighting", batches=False)
    return _lit(data, alpha_std * normal(key, 3))
