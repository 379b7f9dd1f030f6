"""Which devices there are, by MXNet's names, and which of them is the default.

A CPU is a name: ``cpu(i)`` is XLA's i-th CPU device where there are so many, else a `NamedDevice` on device i mod n.
"""

from __future__ import annotations

import functools
from typing import Any

import jax

from ... import errors, settings
from ..calls.aval import MeshDevice, NamedDevice
from ..calls.state import ThreadState, local
from ..run.interrupts import in_the_main_thread
from . import host_memory

#: MXNet's names, with the JAX platforms that serve each. cpu_pinned and cpu_shared are the host's memory.
PLATFORMS = {
    "cpu": ("cpu",),
    "gpu": ("gpu",),
    "tpu": ("tpu",),
    "cpu_pinned": ("cpu",),
    "cpu_shared": ("cpu",),
}


def of_type(kind: str) -> list[jax.Device]:
    """The physical devices of a type in this process."""
    for platform in PLATFORMS[kind]:
        if platform == "cpu":
            host_memory.keep()
        try:
            return _local(platform)
        except RuntimeError:
            continue
    return []


def _local(platform: str) -> list[jax.Device]:
    found: list[jax.Device]
    if settings.backend_is_up():
        found = jax.local_devices(backend=platform)
    else:
        with in_the_main_thread(), settings.backend_starting():
            found = jax.local_devices(backend=platform)
    return found


class Absent:
    """A device that is not there as the default of a ``with``: an error where something is to be made on it."""

    __slots__ = ("kind", "number")

    def __init__(self, kind: str, number: int):
        self.kind = kind
        self.number = number


@functools.cache
def absent(kind: str, number: int) -> Absent:
    """The one object for a device that is not there."""
    return Absent(kind, number)


def placement(kind: str, number: int) -> Any:
    """The place of values on a device: the JAX device, or the `NamedDevice` of a CPU that is but a name.

    Raises:
      DeviceError: there is no such device.
    """
    found = of_type(kind)
    if PLATFORMS[kind] == ("cpu",) and found:
        return _cpu(kind, max(number, 0))  # MXNet takes a negative number for 0
    if 0 <= number < len(found):
        return found[number]
    raise _none(kind, number, found)


@functools.cache
def _cpu(kind: str, number: int) -> Any:
    found = of_type("cpu")
    one = found[number % len(found)]
    if kind == "cpu":
        return one if number < len(found) else NamedDevice(kind, number, one)
    return NamedDevice(kind, number, one, _cpu("cpu", number))


def _none(kind: str, number: int, found: list[jax.Device]) -> errors.DeviceError:
    cause = None if found else _why_none(kind)
    more, words = "", ""
    if cause is not None and PLATFORMS[kind] == ("cpu",):
        more = f"; JAX could not start: {cause}"
    elif not found:
        more = f"; install the extra for it (pip install 'mxjax[{'tpu' if kind == 'tpu' else 'cuda12'}]')"
        words = (
            " (in MXNet's words: Compile with USE_CUDA=1 to enable GPU usage)"
            if kind == "gpu"
            else ""
        )
    elif kind == "gpu":
        words = " (in MXNet's words: CUDA: invalid device ordinal)"
    made = errors.DeviceError(
        f"there is no device {kind}({number}): this process has {len(found)} of that type{more}{words}"
    )
    made.__cause__ = cause
    return made


def _why_none(kind: str) -> RuntimeError | None:
    """What JAX says about devices of this type."""
    try:
        jax.local_devices(backend=PLATFORMS[kind][0])
    except RuntimeError as error:
        return error
    return None


def name_of(device: Any) -> tuple[str, int]:
    """Type and number of the device that values lie on; of several the first."""
    if type(device) is NamedDevice:
        return device.kind, device.id
    if type(device) is Absent:
        return device.kind, device.number
    one: Any = device
    if isinstance(device, (MeshDevice, jax.sharding.Sharding)):
        one = min(device.device_set, key=_number)
    kind = {"cpu": "cpu", "tpu": "tpu"}.get(one.platform, "gpu")
    peers = of_type(kind)
    return kind, peers.index(one) if one in peers else one.id


def _number(device: Any) -> int:
    return int(device.id)


def shown(device: Any) -> str:
    """A device as messages name it: ``cpu(1)``, or what several say of themselves."""
    if device is None or isinstance(device, (MeshDevice, jax.sharding.Sharding)):
        return str(device)
    kind, number = name_of(device)
    return f"{kind}({number})"


_named = settings.snapshot("engine.device")


def default_device(st: ThreadState | None = None) -> Any:
    """The place new arrays go to: the innermost ``with`` device, or the setting's, or ``cpu(0)``."""
    chosen = (st or local.st).device
    if type(chosen) is Absent:
        return placement(chosen.kind, chosen.number)  # which says what is missing
    return _placed(_named()) if chosen is None else chosen


def default_name() -> tuple[str, int]:
    """Type and number of the setting's device, or of ``cpu(0)``, for which JAX need not have started."""
    return _meant(_named())


@functools.cache
def _placed(name: str | None) -> Any:
    return placement(*_meant(name))


@functools.cache
def _meant(name: str | None) -> tuple[str, int]:
    """The device that engine.device names; xpu is the best there is."""
    if name is None:
        return "cpu", 0
    kind, number = name[:3], int(name[3:])
    if kind == "xpu":
        kind = "gpu" if of_type("gpu") else "tpu" if of_type("tpu") else "cpu"
    return kind, number
