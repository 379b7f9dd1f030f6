"""The idx format of MNIST's files (http://yann.lecun.com/exdb/mnist): a header with the shape, then bytes.

Sizes are checked before memory is taken. Nothing here needs JAX: worker processes read with it.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import Any

import numpy as np

from ..errors import FormatError, MXNetFileNotFoundError

__all__ = ["read_idx"]

_BLOCK = 1 << 20
# Deflate cannot shrink data more than this.
_MOST_SHRINKING = 1032
_IDX_UBYTE = 0x08


def read_idx(path: str, axes: int) -> np.ndarray:
    """The array of unsigned bytes in an idx file, which may be gzipped.

    Args:
      path: the file; whether it is gzipped is seen from its content. Where it is not there, `path` with `.gz` is taken.
      axes: how many axes the array must have.

    Raises:
      FormatError: it is no such file, it is cut off, or it holds more than it says.
      FileNotFoundError: neither is there.
    """
    if not os.path.exists(path):
        if not os.path.exists(path + ".gz"):
            raise MXNetFileNotFoundError(f"there is no file {path}, nor one with .gz")
        path += ".gz"
    size = os.path.getsize(path)
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            return _idx(raw, path, axes, size)
        try:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                return _idx(unpacked, path, axes, size * _MOST_SHRINKING)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                f"{path} is damaged ({error}): it was probably not downloaded completely"
            ) from error


def _idx(file: Any, path: str, axes: int, most: int) -> np.ndarray:
    header = file.read(4 + 4 * axes)
    if len(header) < 4 + 4 * axes or header[:4] != bytes([0, 0, _IDX_UBYTE, axes]):
        raise FormatError(
            f"{path} is no idx file of unsigned bytes with {axes} axes: it begins with "
            f"{header[:4].hex(' ')} instead of 00 00 08 {axes:02x}"
        )
    shape = struct.unpack(f">{axes}I", header[4:])
    count = math.prod(shape)
    if count > most:
        raise FormatError(
            f"{path} is cut off: at offset 4 its header promises {count} bytes, more than a file of its size "
            "can hold"
        )
    data = bytearray()
    while len(data) <= count and (block := file.read(min(_BLOCK, count + 1 - len(data)))):
        data += block
    if len(data) != count:
        found = "ends after" if len(data) < count else "goes on after"
        raise FormatError(
            f"{path} is damaged: at offset 4 its header promises {' x '.join(map(str, shape))} bytes, but it "
            f"{found} {min(len(data), count)}"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)
