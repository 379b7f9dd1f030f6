"""Arrays by name in the safetensors format: a JSON table of places, then the bytes. No code, nothing to execute.

The format is Hugging Face's (https://huggingface.co/docs/safetensors): eight bytes with the table's length, the table,
which says dtype, shape and place of each array, and the numbers, little-endian, one array after the other.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import errors

__all__ = ["is_safetensors", "metadata_of", "pack", "unpack"]

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
_NAMES = {v: k for k, v in _DTYPES.items()}
_LONGEST_TABLE = 100_000_000
_MAX_AXES = 32


def _bad(what: str) -> errors.MXNetError:
    return errors.FormatError(f"the file is damaged or no safetensors file: {what}")


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name).newbyteorder("<")


def is_safetensors(raw: bytes | memoryview) -> bool:
    """Whether bytes begin as such a file: a length, and a table within it."""
    return (
        len(raw) > 9
        and bytes(raw[8:9]) == b"{"
        and int.from_bytes(raw[:8], "little") <= len(raw) - 8
    )


def pack(arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """The bytes of a file, piece by piece. Arrays lie in the order of their size of element, so that all are aligned.

    Raises:
      TypeError: an array of a dtype that the format does not have, or a sparse one.
    """
    table: dict[str, Any] = {"__metadata__": {"format": "np", **(metadata or {})}}
    for name, a in arrays.items():
        if not isinstance(a, np.ndarray):
            raise errors.MXNetTypeError(f"{name}: sparse arrays cannot be stored as safetensors")
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    at = 0
    for name in order:
        a = arrays[name]
        if a.dtype.name not in _NAMES:
            raise errors.MXNetTypeError(
                f"{name}: arrays of {a.dtype.name} cannot be stored as safetensors"
            )
        table[name] = {
            "dtype": _NAMES[a.dtype.name],
            "shape": list(a.shape),
            "data_offsets": [at, at + a.nbytes],
        }
        at += a.nbytes
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        a = arrays[name]
        yield np.ascontiguousarray(a, _dtype(a.dtype.name)).tobytes()


def unpack(raw: bytes | memoryview) -> dict[str, np.ndarray]:
    """The arrays of a file's bytes, by name. Every place is checked against the bytes that are there.

    Raises:
      FormatError: the file is damaged or of another kind.

    >>> import numpy as np
    >>> unpack(b"".join(pack({"x": np.arange(3.0)})))
    {'x': array([0., 1., 2.])}
    """
    table, length = _table(raw)
    table.pop("__metadata__", None)
    body = memoryview(raw)[8 + length :]
    places = {name: _place(name, said, len(body)) for name, said in table.items()}
    end = 0
    for name, (_, _, begin, stop) in sorted(places.items(), key=lambda item: item[1][2:]):
        if begin != end:
            raise _bad(f"{name!r} begins at {begin}, where {end} is expected")
        end = stop
    if end != len(body):
        raise _bad(f"{len(body) - end} bytes belong to no array")
    return {
        name: _array(body[begin:stop], dtype, shape)
        for name, (dtype, shape, begin, stop) in places.items()
    }


def metadata_of(raw: bytes | memoryview) -> dict[str, str]:
    """The texts by name that were packed with the arrays.

    Raises:
      FormatError: the file is damaged or of another kind.

    >>> metadata_of(b"".join(pack({}, {"by": "nobody"})))
    {'format': 'np', 'by': 'nobody'}
    """
    found = _table(raw)[0].get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise _bad("its metadata are no texts")
    return found


def _table(raw: bytes | memoryview) -> tuple[dict[str, Any], int]:
    """The table, as it stands there, and how many bytes it takes."""
    if len(raw) < 8:
        raise _bad(f"it has {len(raw)} bytes")
    length = int.from_bytes(raw[:8], "little")
    if length > min(_LONGEST_TABLE, len(raw) - 8):
        raise _bad(f"a table of {length} bytes in a file of {len(raw)}")
    try:
        table = json.loads(bytes(raw[8 : 8 + length]), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _bad(f"its header is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise _bad("its table is no dictionary")
    return table, length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _place(name: str, said: Any, room: int) -> tuple[str, tuple[int, ...], int, int]:
    if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
        raise _bad(f"{name!r} has no dtype, shape and data_offsets")
    shape, ends = said["shape"], said["data_offsets"]
    if not isinstance(said["dtype"], str) or said["dtype"] not in _DTYPES:
        raise _bad(f"{name!r} has the dtype {said['dtype']!r}: {', '.join(_DTYPES)} are read")
    if (
        not isinstance(shape, list)
        or any(type(n) is not int or n < 0 for n in shape)
        or len(shape) > _MAX_AXES
    ):
        raise _bad(f"{name!r} has the shape {str(shape)[:80]}")
    if not isinstance(ends, list) or len(ends) != 2 or any(type(n) is not int for n in ends):
        raise _bad(f"{name!r} lies at {str(ends)[:80]}")
    begin, stop = ends
    dtype = _DTYPES[said["dtype"]]
    if math.prod(max(n, 1) for n in shape) >= 1 << 59:
        raise _bad(f"{name!r} has the shape {str(shape)[:80]}")
    size = math.prod(shape) * _dtype(dtype).itemsize
    if not 0 <= begin <= stop <= room or stop - begin != size:
        raise _bad(
            f"{name!r} of shape {shape} needs {size} bytes, but its range is {begin}..{stop} of {room}"
        )
    return dtype, tuple(shape), begin, stop


def _array(raw: memoryview, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return (np.frombuffer(raw, np.uint8) != 0).reshape(shape)
    found = np.frombuffer(raw, _dtype(dtype)).reshape(shape)
    return found.astype(found.dtype.newbyteorder("="))


def path_is(path: Any) -> bool:
    """Whether a file is to be written so: by its name."""
    return (
        os.fspath(path).endswith(".safetensors") if isinstance(path, (str, os.PathLike)) else False
    )
