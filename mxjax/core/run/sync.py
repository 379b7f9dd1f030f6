"""Where the host waits for, fetches or moves values."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from ... import errors
from ..calls.aval import MeshDevice, aval, aval_of, physical
from ..calls.state import local
from ..calls.value import TRACED, Failure, Value, concrete, place, renamed
from ..graph.tape import attach_python
from ..hooks import deadlines, memory_managers, movers, observers, transfer_listeners
from ..placement.memory import on_device
from .failures import failed_value, located
from .scheduler import UNUSUAL, read, told


def _watched(kind: str, start: int) -> None:
    stop = time.time_ns()
    for o in observers:
        o.on_sync(kind, start, stop)


def _limited(v: Value) -> Any:
    """The array of a value, which may take so long (`timeout.read`)."""
    if v.seg is TRACED or (v.seg is not None and v.seg.graph):
        return read(v)
    return deadlines[0](lambda: jax.block_until_ready(read(v)), "a value", "timeout.read")


def wait(v: Value) -> None:
    """Wait until a value is computed."""
    start = time.time_ns() if observers else 0
    array = _limited(v) if deadlines else read(v, True, True)
    if type(array) in UNUSUAL:
        if type(array) is np.ndarray:  # it is in the host's memory, and may stay there
            if start:
                _watched("wait_to_read", start)
            return
        array = read(v)
    if v.seg is TRACED:
        return
    try:
        array.block_until_ready()
    except Exception as error:
        made = _explained(v, error)
        told()
        raise made from error
    if start:
        _watched("wait_to_read", start)


def to_host(v: Value) -> np.ndarray:
    """A NumPy copy of a value."""
    start = time.time_ns() if observers else 0
    array = _limited(v) if deadlines else read(v, True, True)
    if type(array) in UNUSUAL:
        if type(array) is np.ndarray:  # it never left the host's memory
            return array.copy()
        array = read(v)
    if v.seg is TRACED:
        raise errors.MXNetTypeError(
            "asnumpy() inside jax.jit, jax.grad or jax.vmap: the array has no numbers there. "
            "Return it from the transformed function and look at it outside"
        )
    try:
        host = np.asarray(array).copy()
    except Exception as error:
        made = _explained(v, error)
        told()
        raise made from error
    if start:
        _watched("asnumpy", start)
    return host


def _explained(v: Value, error: Exception) -> BaseException:
    step = getattr(v, "step", None)
    if step is None:
        return errors.like(error, str(error))
    return located(None, step, error)


def transfer(v: Value, device: Any) -> Value:
    """The value on another device; differentiable."""
    moved = _put(v, device)
    if local.st.taping:
        source = v.aval.device

        def pull(given: list[Value | None]) -> list[Value | None]:
            return [None if g is None else _put(g, source) for g in given]

        attach_python((v,), (moved,), pull)
    for listen in transfer_listeners:
        listen(v, moved)
    return moved


movers.append(transfer)


def _put(v: Value, device: Any) -> Value:
    failure = read(v, raw=True)
    if type(failure) is Failure:  # whoever reads the copy gets the error
        return failed_value(aval(v.aval.shape, v.aval.dtype, device), failure)
    if (
        v.aval.device is not device
        and physical(v.aval.device) is physical(device)
        and v.aval.memory is None
    ):
        array = read(v)
        if not v.shared and not memory_managers:
            return renamed(
                v, device
            )  # nobody outside sees it, and values never change: two names share a buffer
        return concrete(
            place(np.array(array), device), shared=False, of=aval(array.shape, array.dtype, device)
        )
    array = place(on_device(v), device)
    of = aval_of(array, device)
    if of.device is not device and type(device) is MeshDevice:  # a mesh of one device
        of = aval(array.shape, array.dtype, device).laid(array.sharding)
    if type(device) is MeshDevice or type(v.aval.device) is MeshDevice:
        v.shared = True  # both may have one buffer on a device: nobody may write over it
        return concrete(array, shared=True, of=of)
    return concrete(array, shared=False, of=of)
