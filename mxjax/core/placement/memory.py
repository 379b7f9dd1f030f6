"""Memories of one device: values that wait in the host's memory while nothing computes with them.

An :class:`~.aval.Aval` knows the memory its value is in. A program copies inputs from the host's memory to
the device as its first act (``program.fetched``); inside a program there is but one memory. What goes back
is the result of a :class:`Move`, which computes nothing: the memory of its results is where the program
puts them.

An :class:`~.aval.Aval` knows the order of its array's axes in memory, too. Programs are compiled for it, and what they
write over a donated input stays in it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ... import errors, settings
from ..calls.aval import PINNED, Aval, layouts_in_use
from ..calls.call import Call, Row
from ..calls.record import record, record1
from ..calls.state import local
from ..calls.value import TRACED, Value, concrete, place
from ..compile.compiler import platform_of, wide_types
from ..run.scheduler import read

DEVICE = "device"  # what users call the device's own memory


class Move(Call):
    """The values as they are, each in the memory of its place in ``memories``."""

    __slots__ = ("memories",)

    def __init__(self, memories: tuple[str | None, ...]):
        super().__init__(Row("to_memory", _as_they_are))
        self.memories = memories

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        return tuple(a.on(m) for a, m in zip(avals, self.memories, strict=True)), True


def _as_they_are(*arrays: Any) -> tuple[Any, ...]:
    return arrays


@functools.cache
def _move(memories: tuple[str | None, ...]) -> Move:
    return Move(memories)


def moved(values: Sequence[Value], memories: Sequence[str | None]) -> tuple[Value, ...]:
    """Record that these values go to these memories; one call for all."""
    return record(_move(tuple(memories)), values)


def move(v: Value, memory: str | None) -> Value:
    """The value in another memory of its device: at once where it exists, else with its program."""
    if v.aval.memory == memory or v.seg is TRACED:
        return v
    st = local.st
    exists = v.seg is None and isinstance(v.arr, (jax.Array, np.ndarray))
    if not exists or st.seg.graph or (st.taping and v.tape is not None):
        return moved((v,), (memory,))[0]
    target = v.aval.on(memory)
    return concrete(place(v.arr, target.sharding), shared=False, of=target)


def laid_out(v: Value, order: tuple[int, ...]) -> Value:
    """The same numbers with their axes in another order in memory."""
    layouts_in_use[0] = True
    of = v.aval.in_layout(order)
    with wide_types():
        return concrete(jax.device_put(read(v), of.format), shared=False, of=of)


class _Turn(Call):
    """The value as it is, with its axes in an order of their own in memory."""

    __slots__ = ("order",)

    def __init__(self, order: tuple[int, ...]):
        super().__init__(Row("to_layout", jax.numpy.asarray))
        self.order = order

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        return (avals[0].in_layout(self.order),), False


@functools.cache
def _turn(order: tuple[int, ...]) -> _Turn:
    return _Turn(order)


def in_order(v: Value, order: tuple[int, ...]) -> Value:
    """`laid_out` at once where the value exists, else with its program."""
    if v.seg is None and isinstance(v.arr, jax.Array | np.ndarray) and not local.st.seg.graph:
        return laid_out(v, order)
    return record1(_turn(order), v)


def on_device(v: Value) -> Any:
    """The JAX array of a value in the device's memory, for whoever computes with it outside the engine."""
    array = read(v)
    return (
        array
        if v.aval.memory is None or v.seg is TRACED
        else place(array, v.aval.on(None).sharding)
    )


def kind(name: Any) -> str | None:
    """An Aval's ``memory`` from the name a user gives: ``device`` or ``pinned_host``.

    Raises:
      ValueError: another name.
    """
    if name == DEVICE:
        return None
    if name == PINNED:
        return PINNED
    raise errors.MXNetValueError(
        f"memory={name!r}: '{DEVICE}' (the device's own memory) or '{PINNED}' (the host's) is expected"
    )


def of_variables() -> str | None:
    """Where parameters and the optimizer's states live unless told otherwise."""
    return PINNED if settings.get("memory.variable_placement") == "Host" else None


def check(device: Any, memory: str | None) -> None:
    """Refuse a memory the device does not have; warn, once, where it is the device's own under another name.

    Raises:
      DeviceError: the backend offers no such memory.
    """
    if memory is not None:
        for one in getattr(device, "device_set", (device,)):
            _check(one, memory)


@functools.cache
def _check(device: Any, memory: str) -> None:
    kinds = sorted({m.kind for m in device.addressable_memories()})
    if memory not in kinds:
        raise errors.DeviceError(
            f"{device} cannot reach memory of the kind {memory!r}: this backend offers {', '.join(kinds)}. "
            "Leave the arrays on the device (memory.variable_placement='Device'), or use memonger's "
            "rematerialisation to need less of it"
        )
    if platform_of(device) == "cpu":
        _warn_of_cpu()


@functools.cache
def _warn_of_cpu() -> None:
    warnings.warn(
        f"{PINNED} saves no memory on a CPU, whose own memory is the host's: arrays are placed there and every step "
        "copies them, as on a GPU, which only costs time. To need less memory on a CPU use hybridize(mirror=True) or "
        "the setting memory.remat",
        UserWarning,
        stacklevel=4,
    )
