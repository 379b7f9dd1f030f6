"""How `ImageRecordIter` varies a picture: cut, moved, coloured; on the host, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import FormatError, optional_import
from ..files import codec
from ..ops.image import resized_on_host, scratch

__all__ = ["AUGMENT", "Augmenter", "put", "resized"]

_EIGVAL = np.array([55.46, 4.794, 1.148])
_EIGVEC = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)

#: Arguments about how a picture is varied, with MXNet's defaults.
AUGMENT = {
    "resize": -1, "rand_crop": False, "random_resized_crop": False, "max_rotate_angle": 0, "max_aspect_ratio": 0.0,
    "min_aspect_ratio": None, "max_shear_ratio": 0.0, "max_crop_size": -1, "min_crop_size": -1,
    "max_random_scale": 1.0, "min_random_scale": 1.0, "max_random_area": 1.0, "min_random_area": 1.0,
    "max_img_size": 1e10, "min_img_size": 0.0, "brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "pca_noise": 0.0,
    "random_h": 0, "random_s": 0, "random_l": 0, "rotate": -1, "fill_value": 255, "inter_method": 1, "pad": 0,
}  # fmt: skip


def resized(pixels: np.ndarray, width: int, height: int, method: int, dice: Any) -> np.ndarray:
    rows, columns = pixels.shape[:2]
    if method == 9:
        larger, smaller = height > rows and width > columns, height < rows and width < columns
        method = 2 if larger else 3 if smaller else 1
    elif method == 10:
        method = int(dice.integers(0, 5))
    cv2 = codec.opencv()
    if cv2 is None:
        return resized_on_host(pixels, width, height, method)
    out = cv2.resize(pixels, (width, height), interpolation=method)
    return out[..., None] if out.ndim == 2 else out


def put(pixels: np.ndarray, planes: np.ndarray, mirror: bool) -> None:
    """Write a picture (height, width, channels) of bytes channel by channel; with `mirror` left becomes right."""
    cv2 = codec.opencv()
    if cv2 is None or len(planes) == 1:
        np.copyto(planes, (pixels[:, ::-1] if mirror else pixels).transpose(2, 0, 1))
        return
    if mirror:
        pixels = cv2.flip(pixels, 1, dst=scratch.take("mirrored", pixels.shape, np.uint8))
    cv2.split(pixels, list(planes))


def _warped(
    pixels: np.ndarray, matrix: np.ndarray, width: int, height: int, fill: float
) -> np.ndarray:
    """The picture moved by an affine map (2, 3), between pixels bilinear, outside `fill`."""
    cv2 = codec.opencv()
    if cv2 is not None:
        border = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": (fill,) * 4}
        out = cv2.warpAffine(pixels, matrix, (width, height), flags=cv2.INTER_LINEAR, **border)
        return out[..., None] if out.ndim == 2 else out
    (a, b, right), (c, d, down) = matrix.tolist()
    whole = a * d - b * c
    # Where a pixel comes from; Pillow counts from a pixel's corner, and the picture gets a frame of the fill's colour.
    back_x, back_y = (d / whole, -b / whole), (-c / whole, a / whole)
    data = [
        number
        for one, other in (back_x, back_y)
        for number in (one, other, 1.5 - one * (right + 0.5) - other * (down + 0.5))
    ]
    around = np.pad(pixels.astype(np.float32), ((1, 1), (1, 1), (0, 0)), constant_values=fill)
    image: Any = optional_import("PIL.Image", "data")
    how = image.Transform.AFFINE, data, image.Resampling.BILINEAR
    planes = [image.fromarray(around[..., k]).transform((width, height), *how, fillcolor=fill)
              for k in range(pixels.shape[2])]  # fmt: skip
    return np.rint(np.stack([np.asarray(plane) for plane in planes], axis=-1)).astype(pixels.dtype)


class Augmenter:
    """MXNet's default augmenter: from a decoded picture to one of the wanted size."""

    def __init__(self, given: dict[str, Any], shape: tuple[int, int, int]):
        self.given, self.shape = given, shape
        self.amounts = {
            name: given[name]
            for name in ("brightness", "contrast", "saturation")
            if given[name] > 0
        }
        self.steps = [int(given[name]) for name in ("random_h", "random_l", "random_s")]

    def __call__(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        given, (_, height, width) = self.given, self.shape
        method = int(given["inter_method"])
        if given["resize"] > 0:
            rows, columns = pixels.shape[:2]
            side = int(given["resize"])
            new = (
                (side, side * rows // columns) if rows > columns else (side * columns // rows, side)
            )
            pixels = resized(pixels, new[0], new[1], method, dice)
        pixels = self._moved(pixels, dice)
        if given["pad"] > 0:
            side = int(given["pad"])
            pixels = np.pad(
                pixels, ((side, side), (side, side), (0, 0)), constant_values=given["fill_value"]
            )
        pixels = self._cut(pixels, width, height, method, dice)
        return self._coloured(self._shifted(pixels, dice), dice)

    def _moved(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        """Turned, sheared and scaled, where asked for."""
        given = self.given
        shear, turn = given["max_shear_ratio"], given["max_rotate_angle"]
        aspect = 0.0 if given["random_resized_crop"] else given["max_aspect_ratio"]
        scales = given["min_random_scale"], given["max_random_scale"]
        if not (shear > 0 or turn > 0 or given["rotate"] > 0 or aspect > 0 or scales != (1.0, 1.0)):
            return pixels
        rows, columns = pixels.shape[:2]
        angle = (
            given["rotate"]
            if given["rotate"] > 0
            else dice.integers(-turn, turn + 1)
            if turn > 0
            else 0
        )
        a, b = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        s = dice.uniform(-shear, shear)
        scale = dice.uniform(*scales)
        ratio = 1 + dice.uniform(-aspect, aspect)
        hs = 2 * scale / (1 + ratio)
        ws = ratio * hs
        new_w = int(max(given["min_img_size"], min(given["max_img_size"], scale * columns)))
        new_h = int(max(given["min_img_size"], min(given["max_img_size"], scale * rows)))
        turned = np.array([[hs * a - s * b * ws, hs * b + s * a * ws], [-b * ws, a * ws]])
        shift = (np.array([new_w, new_h]) - turned @ [columns, rows]) / 2
        return _warped(pixels, np.column_stack([turned, shift]), new_w, new_h, given["fill_value"])

    def _cut(
        self, pixels: np.ndarray, width: int, height: int, method: int, dice: Any
    ) -> np.ndarray:
        given = self.given
        rows, columns = pixels.shape[:2]
        if given["random_resized_crop"]:
            w, h, x, y = self._random_part(rows, columns, dice)
        elif given["max_crop_size"] != -1 or given["min_crop_size"] != -1:
            w = h = int(dice.integers(given["min_crop_size"], given["max_crop_size"] + 1))
            if w > min(rows, columns):
                raise FormatError(
                    f"max_crop_size {w} is larger than the picture of {columns} x {rows}"
                )
            x, y = self._place(columns - w, rows - h, dice)
        else:
            # A picture that is too small is enlarged first.
            if rows < height or columns < width:
                factor = max(height / rows, width / columns)
                new = max(width, round(columns * factor)), max(height, round(rows * factor))
                pixels = resized(pixels, new[0], new[1], method, dice)
                rows, columns = pixels.shape[:2]
            w, h = width, height
            x, y = self._place(columns - w, rows - h, dice)
        pixels = pixels[y : y + h, x : x + w]
        return pixels if (w, h) == (width, height) else resized(pixels, width, height, method, dice)

    def _place(self, free_x: int, free_y: int, dice: Any) -> tuple[int, int]:
        if self.given["rand_crop"]:
            return int(dice.integers(0, free_x + 1)), int(dice.integers(0, free_y + 1))
        return free_x // 2, free_y // 2

    def _random_part(self, rows: int, columns: int, dice: Any) -> tuple[int, int, int, int]:
        given = self.given
        most = given["max_aspect_ratio"] or 1.0
        least = given["min_aspect_ratio"] if given["min_aspect_ratio"] is not None else 1 / most
        for _ in range(10):
            area = dice.uniform(given["min_random_area"], given["max_random_area"]) * rows * columns
            ratio = math.exp(dice.uniform(math.log(least), math.log(most)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= columns and 0 < h <= rows:
                return (
                    w,
                    h,
                    int(dice.integers(0, columns - w + 1)),
                    int(dice.integers(0, rows - h + 1)),
                )
        side = min(rows, columns)
        return side, side, (columns - side) // 2, (rows - side) // 2

    def _shifted(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        """Hue, lightness and saturation moved, each by a number of steps of an 8-bit picture (180 hues)."""
        if not any(self.steps) or pixels.shape[2] != 3:
            return pixels
        steps = [int(dice.uniform(-each, each)) for each in self.steps]
        hls = _to_hls(pixels).astype(np.int16)
        return _from_hls(
            np.clip(hls + np.array(steps, np.int16), 0, (180, 255, 255)).astype(np.uint8)
        )

    def _coloured(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        """Brightness, contrast and saturation in a new order each time, and AlexNet's noise."""
        if not self.amounts and not self.given["pca_noise"] or pixels.shape[2] != 3:
            return pixels
        out = pixels.astype(np.float32)
        for name in dice.permutation(list(self.amounts)):
            factor = np.float32(1 + dice.uniform(-self.amounts[name], self.amounts[name]))
            if name == "brightness":
                out = out * factor
            else:
                gray = (out @ _GRAY)[..., None]
                out = out * factor + (gray if name == "saturation" else gray.mean()) * (1 - factor)
        if self.given["pca_noise"] > 0:
            out = out + (_EIGVEC * dice.normal(0, self.given["pca_noise"], 3)) @ _EIGVAL
        return np.clip(out, 0, 255).astype(np.uint8)


def _to_hls(pixels: np.ndarray) -> np.ndarray:
    """Red, green, blue of uint8 as hue (0 ... 179), lightness and saturation (0 ... 255), as OpenCV has them."""
    cv2 = codec.opencv()
    if cv2 is not None:
        return cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2HLS)
    rgb = pixels.astype(np.float32) / 255
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    high, low = rgb.max(-1), rgb.min(-1)
    spread, total = high - low, high + low
    some = np.where(spread > 0, spread, 1)
    hue = np.where(
        high == red, (green - blue) / some,
        np.where(high == green, 2 + (blue - red) / some, 4 + (red - green) / some),
    ) % 6  # fmt: skip
    saturation = np.where(
        spread > 0, spread / np.maximum(np.where(total < 1, total, 2 - total), 1e-9), 0
    )
    hls = np.stack(
        [np.rint(hue * 30) % 180, np.rint(total / 2 * 255), np.rint(saturation * 255)], axis=-1
    )
    return hls.astype(np.uint8)


def _from_hls(hls: np.ndarray) -> np.ndarray:
    """The picture that `_to_hls` was given, up to rounding."""
    cv2 = codec.opencv()
    if cv2 is not None:
        return cv2.cvtColor(hls, cv2.COLOR_HLS2RGB)
    hue, light, saturation = (
        hls[..., 0] / np.float32(30),
        hls[..., 1] / np.float32(255),
        hls[..., 2] / np.float32(255),
    )
    high = np.where(light <= 0.5, light * (1 + saturation), light + saturation - light * saturation)
    low = 2 * light - high
    parts = []
    for shift in (2, 0, -2):
        place = (hue + shift) % 6
        share = np.clip(np.where(place < 3, place, 4 - place), 0, 1)
        parts.append(low + (high - low) * share)
    return np.rint(np.clip(np.stack(parts, axis=-1), 0, 1) * 255).astype(np.uint8)
