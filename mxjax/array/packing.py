"""Small host arrays that go to a device together: one copy, and a program that takes them apart."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .. import core
from ..core import Value, compile_function
from . import handle

_ALIGN = 64
_here = threading.local()

Layout = tuple[tuple[tuple[int, ...], np.dtype], ...]


class Packet:
    """Arrays that wait to be copied, in `Value.seg` of their values (``core.hooks.Deferred``)."""

    graph = False
    closed = False
    step = core.Step()

    def __init__(self, below: int):
        self.below = below
        self.lock = threading.RLock()
        self._waiting: dict[Any, list[tuple[np.ndarray, Value]]] = {}
        core.hooks.deferred.add(self)

    def add(self, array: np.ndarray, device: Any) -> Value:
        """The value of a private array that will be on this device."""
        v = core.pending(self, core.aval(array.shape, array.dtype, device), shared=False)
        self._waiting.setdefault(device, []).append((array, v))
        return v

    def run(self) -> None:
        """Copy them; an error goes to whoever reads one, Ctrl-C to the caller: what is left is copied later."""
        with self.lock:
            while self._waiting:
                device, members = next(iter(self._waiting.items()))
                try:
                    arrays = _sent([a for a, _ in members], device)
                    for (_, v), array in zip(members, arrays, strict=True):
                        v.arr, v.seg = array, None
                except BaseException as error:
                    if core.is_asynchronous(error):
                        raise
                    core.failed([v for _, v in members], error)
                del self._waiting[device]


@contextmanager
def packed(below: int) -> Iterator[None]:
    """Host arrays of fewer bytes, made into arrays by `offered` in this block, travel as one copy."""
    outer = getattr(_here, "packet", None)
    _here.packet = packet = Packet(below)
    try:
        yield
    finally:
        _here.packet = outer
        core.hooks.deferred.discard(packet)
        packet.run()


def offered(array: np.ndarray) -> Value | None:
    """The value of a host array that the block at hand sends with others; None where it travels by itself."""
    packet: Packet | None = getattr(_here, "packet", None)
    if (
        packet is None
        or array.nbytes >= packet.below
        or array.dtype.kind not in "biufV"
        or core.is_recording()
    ):
        return None
    return packet.add(np.ascontiguousarray(array), core.default_device())


def _sent(arrays: Sequence[np.ndarray], device: Any) -> Sequence[Any]:
    device = core.physical(device)
    if len(arrays) == 1 or not isinstance(device, jax.Device):
        return [core.read(handle.on_device(a.copy(), device)) for a in arrays]
    places, size = [], 0
    for a in arrays:
        places.append(size)
        size += -(-a.nbytes // _ALIGN) * _ALIGN
    buffer = np.zeros(size, np.uint8)
    for at, a in zip(places, arrays, strict=True):
        buffer[at : at + a.nbytes] = a.reshape(-1).view(np.uint8)
    whole = core.read(handle.on_device(buffer, device))
    core.stats.programs += 1
    return _parts(tuple((a.shape, a.dtype) for a in arrays), device)(whole)  # type: ignore[no-any-return]


@functools.lru_cache(256)
def _parts(layout: Layout, device: Any) -> Any:
    """The program that takes a buffer apart."""
    sharding = jax.sharding.SingleDeviceSharding(device)

    def unpack_batch(buffer: Any) -> tuple[Any, ...]:
        out, at = [], 0
        for shape, dtype in layout:
            size = math.prod(shape) * dtype.itemsize
            flat = jax.lax.slice(buffer, (at,), (at + size,))
            at += -(-size // _ALIGN) * _ALIGN
            if dtype.kind == "b":
                out.append((flat != 0).reshape(shape))
                continue
            if dtype.itemsize > 1:
                flat = flat.reshape(-1, dtype.itemsize)
            out.append(jax.lax.bitcast_convert_type(flat, dtype).reshape(shape))
        return tuple(out)

    size = sum(-(-math.prod(shape) * dtype.itemsize // _ALIGN) * _ALIGN for shape, dtype in layout)
    compiled, _ = compile_function(
        unpack_batch, [jax.ShapeDtypeStruct((size,), np.dtype("uint8"), sharding=sharding)], donate=(),
        device=device, out_shardings=(sharding,) * len(layout), name="unpack_batch",
        reason="a batch of other shapes is sent as one copy",
    )  # fmt: skip
    return compiled
