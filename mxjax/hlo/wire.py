"""Read protocol buffers from a short description of the fields that matter, without a package.

XLA leaves its programs inside the trace as serialized messages.  Of their hundreds of fields the
profiler and memonger need a dozen, so a description lists those and everything else is stepped over unread.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

# A field is described by its name and its kind: a scalar kind below, or the description of the
# message it holds; a list around either says that it repeats.
Spec = Mapping[int, tuple[str, Any]]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def read(data: bytes, spec: Spec, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """The fields of `spec` in the message that lies in `data[start:stop]`.

    Kinds are ``"int"``, ``"str"``, ``"bytes"`` or another description; a list of one kind repeats.
    Absent scalars are absent from the result, absent repeated fields are empty lists.

    Raises:
      ValueError: the bytes are no such message.

    >>> read(b"\\x08\\x05\\x12\\x02hi", {1: ("number", "int"), 2: ("text", "str")})
    {'number': 5, 'text': 'hi'}
    """
    out: dict[str, Any] = {name: [] for name, kind in spec.values() if isinstance(kind, list)}
    at, end = start, len(data) if stop is None else stop
    try:
        while at < end:
            key, at = _varint(data, at)
            field, wire = key >> 3, key & 7
            wanted = spec.get(field)
            if wire == 0:
                value, at = _varint(data, at)
                if wanted is None:
                    continue
                name, kind = wanted
                if isinstance(kind, list):
                    out[name].append(_signed(value))
                else:
                    out[name] = _signed(value)
            elif wire == 2:
                size, at = _varint(data, at)
                low, at = at, at + size
                if wanted is None:
                    continue
                name, kind = wanted
                if isinstance(kind, list):
                    if kind[0] == "int":  # packed
                        while low < at:
                            value, low = _varint(data, low)
                            out[name].append(_signed(value))
                    else:
                        out[name].append(_payload(data, low, at, kind[0]))
                else:
                    out[name] = _payload(data, low, at, kind)
            elif wire == 1:
                at += 8
            elif wire == 5:
                at += 4
            else:
                raise ValueError(f"wire type {wire} in field {field} at byte {at}")
    except IndexError:
        raise ValueError(f"the message ends in the middle of a field at byte {at}") from None
    if at != end:
        raise ValueError(f"the message ends at byte {end}, its last field at {at}")
    return out


def _payload(data: bytes, low: int, high: int, kind: Any) -> Any:
    if kind == "str":
        return data[low:high].decode("utf-8", "replace")
    if kind == "bytes":
        return data[low:high]
    return read(data, kind, low, high)


_SMALL = [bytes([n]) for n in range(0x80)]


def varint(value: int) -> bytes:
    """A number as the wire holds it; a negative one as its 64-bit complement."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """A message of these (number, value) fields: whole numbers, floats (as doubles), texts, messages.

    >>> read(write((1, 5), (2, "hi")), {1: ("number", "int"), 2: ("text", "str")})
    {'number': 5, 'text': 'hi'}
    """
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            # Half a pair of surrogates, which a name may hold, has no code in UTF-8.
            data = value.encode(errors="backslashreplace") if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def fixed64(number: int, value: int) -> bytes:
    """A field of eight bytes, as ids of arrows are."""
    return varint(number << 3 | 1) + struct.pack("<Q", value)
