"""Compiled programs as XLA writes them down: protocol buffers, whose fields' numbers are those of its hlo.proto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import jax

# Of these each element of the result takes one operation.
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "compare", "select"})
_TRIPS = b"known_trip_count"


def module_of(compiled: Any) -> dict[int, list[Any]]:
    """The fields of a compiled program's module; none where it has several, or a backend tells none."""
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except jax.errors.JaxRuntimeError:  # this backend keeps none
        modules = ()
    return fields(modules[0].as_serialized_hlo_module_proto()) if len(modules) == 1 else {}


def repeated(compiled: Any) -> float:
    """The arithmetic of loops beyond their first turn, which is all that XLA counts of them."""
    found = module_of(compiled)
    if not any(_TRIPS in c for c in found.get(3, ())):
        return 0.0
    computations = {integer(c, 5): c for c in map(fields, found[3])}
    known: dict[int, tuple[float, float]] = {}

    def flops(computation: int) -> tuple[float, float]:
        """As it is done, and as XLA counts it."""
        if computation not in known:
            instructions = [fields(i) for i in computations[computation].get(2, [])]
            shapes = {integer(i, 35): i for i in instructions}
            done = counted = 0.0
            for i in instructions:
                opcode = i[2][0].decode()
                if opcode in ("fusion", "call", "while"):
                    inner = [flops(c) for c in integers(i.get(38, []))]
                    turns = _trips(i) if opcode == "while" else 1
                    done += turns * sum(x for x, _ in inner)
                    counted += sum(x for _, x in inner)
                    continue
                own = _flops(opcode, i, shapes)
                done += own
                counted += own
            known[computation] = done, counted
        return known[computation]

    done, counted = flops(integer(found, 6))
    return done - counted


def _trips(loop: dict[int, list[Any]]) -> int:
    """How many turns a loop takes, as far as XLA knows."""
    try:
        return int(json.loads(loop[43][0])["known_trip_count"]["n"])
    except (KeyError, ValueError):
        return 1


def _flops(opcode: str, i: dict[int, list[Any]], shapes: dict[int, dict[int, list[Any]]]) -> float:
    if opcode in _ARITHMETIC:
        return prod(_shape(i))
    if opcode == "reduce":
        return prod(_shape(shapes[integers(i[36])[0]]))
    if opcode == "dot":
        first = _shape(shapes[integers(i[36])[0]])
        contracting = integers(fields(i[30][0]).get(1, []))
        return 2.0 * prod(_shape(i)) * prod(first[d] for d in contracting)
    if opcode == "convolution":
        image, kernel = (_shape(shapes[k]) for k in integers(i[36]))
        dims, out = fields(i[16][0]), _shape(i)
        across = out[integer(dims, 9)] * out[integer(dims, 10)] * kernel[integer(dims, 3)]
        windows = [fields(w) for w in fields(i[15][0]).get(1, [])] if 15 in i else []
        places = (integers(dims.get(f, [])) for f in (11, 12))
        return 2.0 * across * prod(_inside(w, image[a], out[b]) for w, a, b in zip(windows, *places, strict=True))
    return 0.0


def _inside(window: dict[int, list[Any]], image: int, out: int) -> int:
    """Along one axis, how often a kernel's element meets one of the image."""
    size, stride, low, _, dilation, base = (integer(window, f) for f in range(1, 7))
    low -= (low >> 63) << 64  # negative where the image is cut
    at = (o * stride - low + k * dilation for o in range(out) for k in range(size))
    return sum(0 <= x <= (image - 1) * base and x % base == 0 for x in at)


def _shape(i: dict[int, list[Any]]) -> list[int]:
    return integers(fields(i[3][0]).get(3, []))



def fields(message: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: integers, or bytes."""
    found: dict[int, list[Any]] = {}
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        kind, values = tag & 7, found.setdefault(tag >> 3, [])
        if kind == 0:
            value, at = _varint(message, at)
            values.append(value)
            continue
        length = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            length, at = _varint(message, at)
        if length is None or at + length > end:
            raise ValueError(f"no message: a field of kind {kind} at byte {at} of {end}")
        values.append(message[at : at + length])
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def integer(message: dict[int, list[Any]], which: int) -> int:
    return int(message.get(which, (0,))[0])


def integers(values: Sequence[Any]) -> list[int]:
    """Repeated integers, packed or not."""
    return list(_unpacked(values))


def _unpacked(values: Sequence[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield number
