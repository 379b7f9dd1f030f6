"""Abstract values: what is known about an array before it exists."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PINNED = "pinned_host"  # JAX's name for the part of the host's memory that devices copy from and to


class MeshDevice:
    """All devices of a JAX mesh as one place; one object per mesh (``mesh.py``)."""

    __slots__ = ("mesh", "platform", "replicated")

    _known: dict[jax.sharding.Mesh, MeshDevice] = {}

    def __init__(self, mesh: jax.sharding.Mesh):
        self.mesh = mesh
        self.platform: str = mesh.devices.flat[0].platform
        self.replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    @classmethod
    def of(cls, mesh: jax.sharding.Mesh) -> MeshDevice:
        found = cls._known.get(mesh)
        return cls._known.setdefault(mesh, cls(mesh)) if found is None else found

    @property
    def device_set(self) -> set[jax.Device]:
        return set(self.mesh.devices.flat)

    def __repr__(self) -> str:
        return f"mesh({', '.join(f'{k}={n}' for k, n in self.mesh.shape.items())})"


class NamedDevice:
    """A device of the host that is but a name: arrays and programs lie on the physical device behind it.

    One object per name (``devices.placement``). Programs belong to the physical device (``Segment``'s steps have a twin
    there), so that all its names share them. ``compute`` is the place where calls on arrays of this name run: itself,
    or for ``cpu_pinned(i)`` and ``cpu_shared(i)``, which only keep arrays, ``cpu(i)``.
    """

    __slots__ = ("compute", "id", "kind", "physical")

    platform = "cpu"

    def __init__(self, kind: str, number: int, physical: jax.Device, compute: Any = None):
        self.kind = kind
        self.id = number
        self.physical = physical
        self.compute: Any = self if compute is None else compute

    @property
    def device_set(self) -> set[jax.Device]:
        return {self.physical}

    def __repr__(self) -> str:
        return f"{self.kind}({self.id})"


def physical(device: Any) -> Any:
    """What JAX knows a place as: the physical device of a name, anything else as it is."""
    return device.physical if type(device) is NamedDevice else device


class Aval:
    """Shape, dtype and placement of a value; interned, so that equality is identity.

    ``device`` is a ``jax.Device`` for ordinary values, a :class:`NamedDevice` for those on a CPU that is but a name,
    and a :class:`MeshDevice` for values on a mesh, whose ``spread`` says how they lie there (``None``: as the program
    that makes them decides). It is a
    ``jax.sharding.Sharding`` for values from outside that are spread over several devices without a
    mesh. ``memory`` is ``None`` in the device's own memory, else
    the kind of the other memory the value waits in (:data:`PINNED`); see ``memory.py``. ``layout`` is ``None``
    for rows one after the other, else the order of the axes in memory, the slowest first; see ``memory.py``.
    """

    __slots__ = (
        "_elsewhere", "_laid", "_layouts", "device", "differentiable", "dtype", "layout", "memory", "nbytes",
        "shape", "size", "spread",
    )  # fmt: skip

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        device: Any,
        memory: str | None = None,
        spread: Any = None,
    ):
        self.shape = shape
        self.spread: jax.sharding.Sharding | None = spread
        self._laid: dict[Any, Aval] = {spread: self}
        self.dtype = dtype
        self.device = device
        self.memory = memory
        self._elsewhere: dict[str | None, Aval] = {memory: self}
        self.layout: tuple[int, ...] | None = None
        self._layouts: dict[tuple[int, ...] | None, Aval] = {None: self}
        size = 1
        for n in shape:
            size *= n
        self.size = size
        self.nbytes = size * dtype.itemsize
        self.differentiable = bool(jnp.issubdtype(dtype, jnp.inexact))

    def __repr__(self) -> str:
        kept = f" ({self.memory})" if self.memory else ""
        return f"{self.dtype}{list(self.shape)}@{self.device}{kept}"

    def on(self, memory: str | None) -> Aval:
        """The one Aval of the same array in another memory of its device."""
        found = self._elsewhere.get(memory)
        if found is None:
            made = Aval(self.shape, self.dtype, self.device, memory, self.spread)
            made._elsewhere = self._elsewhere
            found = self._elsewhere.setdefault(memory, made)
        return found

    def at(self, device: Any) -> Aval:
        """The one Aval of the same array on another device, in its memory and order of axes there."""
        if device is self.device:
            return self
        found = aval(self.shape, self.dtype, device).in_layout(self.layout)
        return found if self.memory is None else found.on(self.memory)

    def in_layout(self, layout: tuple[int, ...] | None) -> Aval:
        """The one Aval of the same array with its axes in this order in memory."""
        found = self._layouts.get(layout)
        if found is None:
            made = Aval(self.shape, self.dtype, self.device, self.memory, self.spread)
            made.layout, made._layouts = layout, self._layouts
            found = self._layouts.setdefault(layout, made)
        return found

    @property
    def format(self) -> Any:
        """The placement, with the order of the axes where that is not the usual one."""
        if self.layout is None:
            return self.sharding
        from jax.experimental.layout import Format, Layout

        return Format(Layout(self.layout), self.sharding)

    def laid(self, sharding: Any) -> Aval:
        """The one Aval of the same array on its mesh, spread in this way."""
        if isinstance(sharding, jax.sharding.NamedSharding):
            parts = list(sharding.spec)
            while parts and parts[-1] is None:
                parts.pop()
            if len(parts) != len(sharding.spec):  # one way of writing it
                sharding = jax.sharding.NamedSharding(
                    sharding.mesh, jax.sharding.PartitionSpec(*parts)
                )
        found = self._laid.get(sharding)
        if found is None:
            made = Aval(self.shape, self.dtype, self.device, self.memory, sharding)
            made._laid = self._laid
            found = self._laid.setdefault(sharding, made)
        return found

    @property
    def sharding(self) -> jax.sharding.Sharding:
        if type(self.device) is MeshDevice:
            lies = self.device.replicated if self.spread is None else self.spread
            return lies if self.memory is None else lies.with_memory_kind(self.memory)
        if isinstance(self.device, jax.sharding.Sharding):
            return self.device if self.memory is None else self.device.with_memory_kind(self.memory)
        return jax.sharding.SingleDeviceSharding(physical(self.device), memory_kind=self.memory)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """The form ``jax.eval_shape`` reads."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)

    @property
    def placed_struct(self) -> jax.ShapeDtypeStruct:
        """The form ``jit(...).lower`` reads: with the placement the program is compiled for."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=self.format)


#: Whether any array was given an order of axes of its own: until then nobody need ask for it.
layouts_in_use = [False]

_interned: dict[tuple[tuple[int, ...], Any, Any], Aval] = {}


def aval(shape: tuple[int, ...], dtype: Any, device: Any) -> Aval:
    """The one Aval of this shape, dtype and placement."""
    key = (shape, dtype, device)
    found = _interned.get(key)
    if found is None:
        dtype = np.dtype(dtype)
        if (
            dtype.byteorder == "<"
        ):  # as h5py and others spell it: equal, but every array would print as it from now on
            dtype = dtype.newbyteorder("=")
        # Keyed by the canonical dtype, then filed under the spelling that was asked for as well.
        found = _interned.setdefault((shape, dtype, device), Aval(shape, dtype, device))
        _interned[key] = found
        if len(_interned) > 200_000:  # shapes that never come back must not pile up
            _interned.clear()
    return found


def _default_memory(device: Any) -> str:
    return str(device.default_memory().kind)


def aval_of(array: jax.Array, name: Any = None) -> Aval:
    """The Aval of a JAX array: its device, or its sharding when there are several.

    ``name``: where it was put, which counts if that is a :class:`NamedDevice`.
    """
    if type(name) is NamedDevice:
        return aval_of(array).at(name)
    sharding = array.sharding
    devices = sharding.device_set
    if isinstance(sharding, jax.sharding.NamedSharding) and sharding.mesh in MeshDevice._known:
        device = MeshDevice._known[sharding.mesh]
        found = aval(array.shape, array.dtype, device)
        if sharding.memory_kind == PINNED:
            return found.laid(sharding.with_memory_kind(_default_memory(array.devices().pop()))).on(
                PINNED
            )
        return found.laid(sharding)
    memory = PINNED if sharding.memory_kind == PINNED else None
    if len(devices) == 1:
        where: Any = next(iter(devices))
    elif memory is None:
        where = sharding
    else:
        where = sharding.with_memory_kind(_default_memory(next(iter(devices))))
    found = aval(array.shape, array.dtype, where)
    if layouts_in_use[0] and memory is None and len(devices) == 1:
        order = tuple(array.format.layout.major_to_minor)  # type: ignore[attr-defined]
        if order != tuple(range(array.ndim)):
            found = found.in_layout(order)
    return found if memory is None else found.on(memory)


# What a dynamic scalar looks like to inference and to the program that receives it.
SCALARS = {
    "d": jax.ShapeDtypeStruct((), np.dtype("float64")),
    "q": jax.ShapeDtypeStruct((), np.dtype("int64")),
}
