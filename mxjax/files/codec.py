"""Pictures in their files' formats as arrays of the host: by OpenCV where it is installed, otherwise by Pillow.

Most JPEGs are decoded by simplejpeg where that is installed: the same library, libjpeg-turbo, gives the same bytes with
less around it. Whatever it refuses goes to the others, which know more formats and say what is wrong.

Nothing here needs JAX: worker processes decode with it.
"""

from __future__ import annotations

import importlib
import io
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..errors import FormatError, MXNetValueError, optional_import

__all__ = ["decode", "encode"]

_found: dict[str, ModuleType | None] = {}


def _installed(name: str) -> ModuleType | None:
    if name not in _found:
        try:
            _found[name] = importlib.import_module(name)
        except ImportError:
            _found[name] = None
    return _found[name]


def opencv() -> ModuleType | None:
    """The module `cv2`, or None where it is not installed."""
    return _installed("cv2")


def simplejpeg() -> ModuleType | None:
    """The module `simplejpeg`, or None where it is not installed."""
    return _installed("simplejpeg")


def decode(
    data: Any, flag: int = 1, to_rgb: bool = True, where: str = "the buffer",
    memory: Callable[[int], np.ndarray] | None = None,
) -> np.ndarray:  # fmt: skip
    """A picture as an array (height, width, channels), uint8 (with `flag` -1 also uint16).

    Args:
      data: the bytes of a JPEG, a PNG or another format that the library reads.
      flag: 1 for three channels, 0 for one (gray), -1 for what the file holds; 1 and 0 turn the image as its EXIF
        data says, like OpenCV.
      to_rgb: the order of colours: red first, otherwise blue first.
      where: the file, and the place in it, for the message of an error.
      memory: gives an array of so many bytes, which the result may lie in.

    Raises:
      FormatError: it is not an image, or a damaged one.
    """
    if flag not in (1, 0, -1):
        raise MXNetValueError(f"flag must be 1 (colour), 0 (gray) or -1 (as it is), got {flag!r}")
    data = memoryview(data).cast("B")
    if not len(data):
        raise FormatError(f"{where} is empty: a picture was expected")
    head = _claimed(data)
    _check_size(head.width, head.height, head.most, data, where)
    library = simplejpeg()
    if head.colours and library is not None:
        colours = head.colours if flag < 0 else 3 if flag else 1
        size = (
            head.width * head.height * colours
        )  # what was checked, whatever else the file says later
        held = np.empty(size, np.uint8) if memory is None else memory(size)
        pixels = _by_simplejpeg(library, data, colours, to_rgb, held)
        if pixels is not None:
            return pixels
    cv2 = opencv()
    return (
        _by_pillow(data, flag, to_rgb, where)
        if cv2 is None
        else _by_opencv(cv2, data, flag, to_rgb, where)
    )


#: So many pixels are taken at a file's word: the memory for them is small.
_PIXELS_ANYWAY = 1 << 21
#: How many pixels a byte stands for at most: of a JPEG one bit for each block of 8 x 8 in each colour, of a GIF (LZW)
#: and of a BMP in runs; deflate, in a PNG, makes 1032 bytes of one.
_JPEG, _GIF, _BMP, _DEFLATE = 512, 2730, 128, 1032


def _check_size(width: int, height: int, most: int, data: memoryview, where: str) -> None:
    """Refuse a picture with more pixels than its bytes can hold, before there is memory for them."""
    if width * height > max(_PIXELS_ANYWAY, most * len(data)):
        raise FormatError(
            f"{where} says that it is a picture of {width} x {height} pixels, which is more than {len(data)} bytes can "
            "hold"
        )


class _Head(NamedTuple):
    """What a picture's beginning says of it.

    Attributes:
      width, height: zero where it says nothing.
      most: how many pixels a byte can hold.
      colours: 1 or 3 of a JPEG that simplejpeg may decode: one without EXIF data, which may turn it; otherwise 0.
    """

    width: int = 0
    height: int = 0
    most: int = 0
    colours: int = 0


def _claimed(data: memoryview) -> _Head:
    """What a PNG, a GIF, a BMP or a JPEG says of itself; nothing for what is none of them."""
    start = bytes(data[:32])
    if start[:8] == b"\x89PNG\r\n\x1a\n" and len(start) >= 26:
        width, height, depth, kind = struct.unpack_from(">IIBB", start, 16)
        bits = max(1, depth) * {0: 1, 2: 3, 3: 1, 4: 2}.get(kind, 4)
        return _Head(width, height, max(1, 8 * _DEFLATE // bits))
    if start[:4] == b"GIF8" and len(start) >= 10:
        width, height = struct.unpack_from("<HH", start, 6)
        return _Head(width, height, _GIF)
    if start[:2] == b"BM" and len(start) >= 26:
        width, height = struct.unpack_from("<ii", start, 18)
        return _Head(abs(width), abs(height), _BMP)
    return _claimed_by_jpeg(data) if start[:2] == b"\xff\xd8" else _Head()


def _claimed_by_jpeg(data: memoryview) -> _Head:
    at, plain = 2, True
    while at + 10 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0xDA:
            break
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            bits, height, width, colours = struct.unpack_from(">BHHB", data, at + 4)
            return _Head(
                width, height, _JPEG, colours if plain and bits == 8 and colours in (1, 3) else 0
            )
        plain = plain and marker != 0xE1
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return _Head()


def _by_simplejpeg(
    library: Any, data: memoryview, colours: int, to_rgb: bool, held: np.ndarray
) -> np.ndarray | None:
    """A JPEG's pixels, in the memory that is given; None where simplejpeg refuses the picture."""
    space = "GRAY" if colours == 1 else "RGB" if to_rgb else "BGR"
    try:
        return library.decode_jpeg(data, space, buffer=held)  # type: ignore[no-any-return]
    except ValueError:
        return None


def _by_opencv(cv2: Any, data: memoryview, flag: int, to_rgb: bool, where: str) -> np.ndarray:
    in_order = (
        flag == 1 and to_rgb and hasattr(cv2, "IMREAD_COLOR_RGB")
    )  # from 4.11 on it can give red first
    try:
        pixels = cv2.imdecode(
            np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB if in_order else flag
        )
    except cv2.error as error:
        raise FormatError(f"{where} is not a readable image: {error}") from None
    if pixels is None:
        raise FormatError(
            f"{where} is not an image that OpenCV reads, or a damaged one; it has {len(data)} bytes"
        )
    if pixels.ndim == 2:
        return pixels[..., None]
    return _swapped(pixels) if to_rgb and not in_order else pixels


def _swapped(pixels: np.ndarray) -> np.ndarray:
    """Blue and red change places; an alpha channel stays the last."""
    if pixels.shape[2] not in (3, 4):
        return pixels
    return np.ascontiguousarray(pixels[..., [2, 1, 0, 3][: pixels.shape[2]]])


def _by_pillow(data: memoryview, flag: int, to_rgb: bool, where: str) -> np.ndarray:
    pillow: Any = optional_import("PIL.Image", "data")
    ops: Any = optional_import("PIL.ImageOps", "data")
    try:
        with pillow.open(io.BytesIO(data)) as picture:
            most = {
                "PNG": 8 * _DEFLATE,
                "JPEG": _JPEG,
                "MPO": _JPEG,
                "GIF": _GIF,
                "BMP": _BMP,
                "DIB": _BMP,
            }
            if (
                picture.format in most
            ):  # a later part of the file may say another size than its beginning
                width, height = picture.size
                _check_size(width, height, most[picture.format], data, where)
            if flag == 0:
                picture.draft("L", picture.size)  # a JPEG's own gray, as OpenCV takes it
            # Both give a copy where there is nothing to do, so they are asked only where there is.
            turned = flag >= 0 and (picture.format != "JPEG" or "exif" in picture.info)
            png = picture.format == "PNG"
            pixels = _pixels(ops.exif_transpose(picture) if turned else picture, flag, png)
    except (FormatError, MemoryError):
        raise
    except pillow.UnidentifiedImageError:
        raise FormatError(
            f"{where} is not an image that Pillow reads, or a damaged one: it has {len(data)} bytes and begins with "
            f"{bytes(data[:8])!r}"
        ) from None
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them to
        raise FormatError(f"{where} is not a readable image, or a damaged one: {error}") from None
    if pixels.ndim == 2:
        return pixels[..., None]
    return pixels if to_rgb else _swapped(pixels)


def _gray_of_libpng(pixels: np.ndarray) -> np.ndarray:
    """Gray as libpng makes it, by which OpenCV reads a PNG: weights of 15 bits, and what is left over is cut off."""
    wide = pixels.astype(np.uint32)
    return ((wide @ np.array([9797, 19234, 3737], np.uint32)) >> 15).astype(np.uint8)


def _pixels(picture: Any, flag: int, png: bool) -> np.ndarray:
    deep = picture.mode.startswith("I")
    if flag < 0:
        if deep:
            return np.asarray(picture).astype(np.uint16)
        if picture.mode in ("L", "RGB", "RGBA"):
            return np.asarray(picture)
        alpha = picture.mode in ("LA", "PA") or "transparency" in picture.info
        return np.asarray(
            picture.convert("L" if picture.mode == "1" else "RGBA" if alpha else "RGB")
        )
    if deep:
        gray = (np.asarray(picture) >> 8).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2) if flag else gray
    if flag == 0 and png and picture.mode == "RGB":
        return _gray_of_libpng(np.asarray(picture))
    mode = "RGB" if flag else "L"
    return np.asarray(picture if picture.mode == mode else picture.convert(mode))


def encode(pixels: Any, img_fmt: str = ".jpg", quality: int = 95) -> bytes:
    """An array (height, width[, channels]) of uint8, blue first, in the format that `img_fmt` names.

    Args:
      quality: of a JPEG 1 to 100, of a PNG the effort 0 to 9 of the compression.

    Raises:
      MXNetValueError: the array is not an image, or the format is not known.

    >>> encode(np.zeros((2, 3, 3), np.uint8), ".png")[1:4]
    b'PNG'
    """
    pixels = np.asarray(pixels.asnumpy() if hasattr(pixels, "asnumpy") else pixels)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype != np.uint8 or not (
        pixels.ndim == 2 or pixels.ndim == 3 and pixels.shape[2] in (3, 4)
    ):
        raise MXNetValueError(
            "a picture is an array (height, width) or (height, width, 1, 3 or 4) of uint8, got "
            f"{pixels.shape} of {pixels.dtype}"
        )
    kind = img_fmt.lower()
    cv2 = opencv()
    if cv2 is not None:
        options = []
        if kind in (".jpg", ".jpeg"):
            options = [cv2.IMWRITE_JPEG_QUALITY, int(quality)]
        elif kind == ".png":
            options = [cv2.IMWRITE_PNG_COMPRESSION, min(int(quality), 9)]
        try:
            done, found = cv2.imencode(img_fmt, pixels, options)
        except cv2.error:
            done = False
        if not done:
            raise MXNetValueError(
                f"failed to encode image: {img_fmt!r} is no format that OpenCV writes"
            )
        return found.tobytes()
    pillow: Any = optional_import("PIL.Image", "data")
    name = pillow.registered_extensions().get(kind)
    if name is None or name not in pillow.SAVE:
        raise MXNetValueError(
            f"failed to encode image: {img_fmt!r} is no format that Pillow writes; '.jpg' and '.png' are"
        )
    more: dict[str, Any] = {}
    if name == "JPEG":
        more = {"quality": max(1, min(int(quality), 100))}
        if pixels.ndim == 3:
            pixels = pixels[..., :3]
    elif name == "PNG":
        more = {"compress_level": max(0, min(int(quality), 9))}
    out = io.BytesIO()
    pillow.fromarray(_swapped(pixels) if pixels.ndim == 3 else pixels).save(out, name, **more)
    return out.getvalue()
