"""Devices: where arrays live and calls run."""

from __future__ import annotations

import functools
from typing import Any

import jax

from . import errors
from .core import wait_all
from .core.calls.aval import physical
from .core.calls.state import ThreadState, local
from .core.interpret.numpy_memory import release as release_memory
from .core.placement import devices
from .scopes import Scope

#: Types of devices that only keep arrays; what is computed of those is on the CPU of the same number.
KEEPERS = ("cpu_pinned", "cpu_shared")


class _Current:
    """The thread's current device, as MXNet 1 (`Context._default_ctx.value`) and 2 (`device._current.set`) keep it."""

    __slots__ = ()

    @property
    def value(self) -> Device:
        return current_device()

    @value.setter
    def value(self, device: Device) -> None:
        device._set()

    def get(self) -> Device:
        return current_device()

    def set(self, device: Device) -> Device:
        """Make it the current one; what was is the token that `reset` takes."""
        before = current_device()
        device._set()
        return before

    def reset(self, token: Device) -> None:
        token._set()


_current = _Current()


class _Devices(type):
    """The class of `Device`, which has the current device as MXNet 1 spells it: `Context.default_ctx = mx.gpu(1)`."""

    _default_ctx = _current

    @property
    def default_ctx(cls) -> Device:
        return current_device()

    @default_ctx.setter
    def default_ctx(cls, device: Device) -> None:
        device._set()


class Device(Scope, metaclass=_Devices):
    """A device by type and number; used in ``with`` it becomes the default for new arrays.

    ``device_type`` is one of cpu, gpu, tpu, cpu_pinned, cpu_shared (or another Device to copy). Every number of a CPU
    names a device, as in MXNet: its arrays are told from those of others, and its work is done by one of XLA's CPU
    devices, the one of that number modulo their count.
    Raises ``KeyError`` for another type; a device that is not there is an error when first used.

    Args:
      device_type: a kind of device, such as "gpu", or a device.
      device_id: the number of the device among those of its kind.

    >>> import mxjax as mx
    >>> with mx.cpu(0):
    ...     x = mx.np.ones(3)
    >>> x.device
    cpu(0)
    """

    __slots__ = ("_found", "device_id", "device_type")
    device_type: str
    device_id: int

    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared", 6: "tpu"}
    devstr2type = {v: k for k, v in devtype2str.items()}

    def __init__(self, device_type: str | Device, device_id: int = 0):
        if isinstance(device_type, Device):
            device_id, device_type = device_type.device_id, device_type.device_type
        if device_type not in devices.PLATFORMS:
            raise errors.MXNetKeyError(
                f"no device type {device_type!r}: one of {', '.join(devices.PLATFORMS)} is expected"
            )
        self.device_type = device_type
        try:
            self.device_id = int(device_id)
        except (TypeError, ValueError):
            raise errors.MXNetValueError(
                f"device_id={device_id!r}: the device's number is expected, as in mx.{device_type}(0)"
            ) from None
        self._found: Any = None

    @property
    def device_typeid(self) -> int:
        """MXNet's number of the type."""
        return self.devstr2type[self.device_type]

    @property
    def placement(self) -> Any:
        """What its arrays have for their place in the core: the JAX device, or a name of one.

        Raises ``DeviceError`` if there is no such device.
        """
        if self._found is None:
            self._found = devices.placement(self.device_type, self.device_id)
        return self._found

    @property
    def jax_device(self) -> jax.Device:
        """The JAX device that does this one's work; raises ``DeviceError`` if there is none."""
        return physical(self.placement)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Device)
            and self.device_type == other.device_type
            and self.device_id == other.device_id
        )

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.device_type, self.device_id)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle of MXNet holds; those of this package need `__reduce__` alone."""
        Device.__init__(self, self.devtype2str[state["device_typeid"]], state["device_id"])

    def _now(self) -> tuple[ThreadState, Any]:
        st = local.st
        return st, st.device

    def _set(self) -> Device:
        st = local.st
        try:
            st.device = self.placement
        except errors.DeviceError:
            st.device = devices.absent(self.device_type, self.device_id)
        return self

    def _give_back(self, before: tuple[ThreadState, Any], broken: bool) -> None:
        st, outer = before
        st.device = outer

    @property
    def default_ctx(self) -> Device:
        """The current device, as MXNet 1 spells it."""
        return current_device()

    def empty_cache(self) -> None:
        """Wait, and return memory that the host keeps for results; XLA's allocators keep theirs."""
        wait_all()
        release_memory()


Context = Device


_known: dict[Any, Device] = {}


@functools.cache
def _device(kind: str, number: int) -> Device:
    return Device(kind, number)


def of(placement: Any) -> Device:
    """The Device of a place in the core (the first one of several)."""
    found = _known.get(placement)
    if found is None:
        found = Device(*devices.name_of(placement))
        _known[placement] = found
    return found


def cpu(device_id: int = 0) -> Device:
    """The host's CPU; every number names a device (`Device`).

    Args:
      device_id: the number of the device among those of its kind.

    Returns:
      Device: the processor.
    """
    return Device("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Device:
    """Host memory for fast copies to a GPU: it keeps arrays, and what is computed of them is on `cpu(device_id)`.

    Args:
      device_id: the number of the device among those of its kind.

    Returns:
      Device: the processor.
    """
    return Device("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Device:
    """The GPU with this number.

    Args:
      device_id: the number of the device among those of its kind.

    Returns:
      Device: the graphics processor.
    """
    return Device("gpu", device_id)


def tpu(device_id: int = 0) -> Device:
    """The TPU core with this number.

    Args:
      device_id: the number of the device among those of its kind.

    Returns:
      Device: the tensor processor.
    """
    return Device("tpu", device_id)


def num_gpus() -> int:
    """How many GPUs this process sees.

    Returns:
      int: how many GPUs this process has.
    """
    return len(devices.of_type("gpu"))


def num_tpus() -> int:
    """How many TPU cores this process sees."""
    return len(devices.of_type("tpu"))


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory, as its allocator counts them.

    Args:
      device_id: the number of the device among those of its kind.

    Returns:
      tuple of int: free and all bytes.
    """
    stats = gpu(device_id).jax_device.memory_stats() or {}
    total = int(stats.get("bytes_limit", 0))
    return total - int(stats.get("bytes_in_use", 0)), total


def current_device() -> Device:
    """The device new arrays go to: the innermost ``with`` device, or ``cpu(0)``.

    Returns:
      Device: where new arrays lie.
    """
    st = local.st
    return _device(*devices.default_name()) if st.device is None else of(st.device)


def current_context() -> Device:
    """The 1.x name of :func:`current_device`.

    Returns:
      Device: where new arrays lie.
    """
    return current_device()


errors.explain_names(__name__)
