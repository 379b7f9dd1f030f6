"""Devices: where arrays live and calls run."""

from __future__ import annotations

import functools
from typing import Any

import jax

from . import errors, settings
from .core.state import local

# MXNet's names, with the JAX platforms that serve each. cpu_pinned and cpu_shared are the host's memory.
_PLATFORMS = {
    "cpu": ("cpu",),
    "gpu": ("gpu",),
    "tpu": ("tpu",),
    "cpu_pinned": ("cpu",),
    "cpu_shared": ("cpu",),
}


class Device:
    """A device by type and number; used in ``with`` it becomes the default for new arrays.

    ``device_type`` is one of cpu, gpu, tpu, cpu_pinned, cpu_shared (or another Device to copy).
    Raises ``KeyError`` for another type; a device that is not there is an error when first used.

    >>> import mxjax as mx
    >>> with mx.cpu(0):
    ...     x = mx.np.ones(3)
    >>> x.device
    cpu(0)
    """

    __slots__ = ("_found", "_outer", "device_id", "device_type")
    device_type: str
    device_id: int

    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared", 6: "tpu"}
    devstr2type = {v: k for k, v in devtype2str.items()}

    def __init__(self, device_type: str | Device, device_id: int = 0):
        if isinstance(device_type, Device):
            device_id, device_type = device_type.device_id, device_type.device_type
        if device_type not in _PLATFORMS:
            raise errors.MXNetKeyError(
                f"no device type {device_type!r}: one of {', '.join(_PLATFORMS)} is expected"
            )
        self.device_type = device_type
        self.device_id = int(device_id)
        self._found: Any = None
        self._outer: list[Any] = []

    @property
    def device_typeid(self) -> int:
        """MXNet's number of the type."""
        return self.devstr2type[self.device_type]

    @property
    def jax_device(self) -> jax.Device:
        """The JAX device behind this one; raises ``DeviceError`` if there is none."""
        if self._found is None:
            self._found = _find(self)
        return self._found  # type: ignore[no-any-return]

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

    def __enter__(self) -> Device:
        st = local.st
        self._outer.append(st.device)
        st.device = self.jax_device
        return self

    def __exit__(self, *exc: object) -> None:
        local.st.device = self._outer.pop()

    def empty_cache(self) -> None:
        """Return cached memory to the device; XLA's allocators keep theirs, so this only waits."""
        from .core import wait_all

        wait_all()


Context = Device


def _devices(device_type: str) -> list[jax.Device]:
    for platform in _PLATFORMS[device_type]:
        try:
            return jax.local_devices(backend=platform)
        except RuntimeError:
            continue
    return []


def _find(device: Device) -> jax.Device:
    found = _devices(device.device_type)
    if device.device_id < len(found) and device.device_id >= 0:
        return found[device.device_id]
    have = f"this process has {len(found)} of that type"
    cause = None if found else _why_none(device)
    if cause is not None and device.device_type == "cpu":
        more = f"; JAX could not start: {cause}"
    elif device.device_type == "cpu":
        more = (
            "; more are made by setting XLA_FLAGS=--xla_force_host_platform_device_count=N "
            "before the first array is created"
        )
    elif not found:
        more = f"; install the extra for it (pip install 'mxjax[{'tpu' if device.device_type == 'tpu' else 'cuda12'}]')"
    else:
        more = ""
    raise errors.DeviceError(f"there is no device {device}: {have}{more}") from cause


def _why_none(device: Device) -> RuntimeError | None:
    """What JAX says about devices of this type."""
    try:
        jax.local_devices(backend=_PLATFORMS[device.device_type][0])
    except RuntimeError as error:
        return error
    return None


def _number(device: Any) -> int:
    return int(device.id)


_known: dict[Any, Device] = {}


def of(placement: Any) -> Device:
    """The Device of a JAX device (the first one of a sharding)."""
    found = _known.get(placement)
    if found is None:
        one: Any = placement
        if isinstance(placement, jax.sharding.Sharding):
            one = min(placement.device_set, key=_number)
        kind = {"cpu": "cpu", "tpu": "tpu"}.get(one.platform, "gpu")
        peers = _devices(kind)
        found = Device(kind, peers.index(one) if one in peers else one.id)
        found._found = one
        _known[placement] = found
    return found


def cpu(device_id: int = 0) -> Device:
    """The host's CPU (``device_id`` counts XLA's CPU devices)."""
    return Device("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Device:
    """Host memory for fast copies to a GPU; the same arrays as :func:`cpu` here."""
    return Device("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Device:
    """The GPU with this number."""
    return Device("gpu", device_id)


def tpu(device_id: int = 0) -> Device:
    """The TPU core with this number."""
    return Device("tpu", device_id)


def num_gpus() -> int:
    """How many GPUs this process sees."""
    return len(_devices("gpu"))


def num_tpus() -> int:
    """How many TPU cores this process sees."""
    return len(_devices("tpu"))


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory, as its allocator counts them."""
    stats = gpu(device_id).jax_device.memory_stats() or {}
    total = int(stats.get("bytes_limit", 0))
    return total - int(stats.get("bytes_in_use", 0)), total


_DEFAULT = Device("cpu", 0)


def current_device() -> Device:
    """The device new arrays go to: the innermost ``with`` device, or ``cpu(0)``."""
    st = local.st
    if st.device is None:
        return _DEFAULT if _named() is None else _by_name(_named())
    return of(st.device)


_named = settings.snapshot("engine.device")


@functools.cache
def _by_name(name: str) -> Device:
    """The device that engine.device names; xpu is the best there is."""
    kind, number = name[:3], int(name[3:])
    if kind == "xpu":
        kind = "gpu" if num_gpus() else "tpu" if num_tpus() else "cpu"
    return Device(kind, number)


def current_context() -> Device:
    """The 1.x name of :func:`current_device`."""
    return current_device()


errors.explain_names(__name__)
