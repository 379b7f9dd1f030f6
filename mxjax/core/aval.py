"""Abstract values: what is known about an array before it exists."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PINNED = "pinned_host"  # JAX's name for the part of the host's memory that devices copy from and to


class Aval:
    """Shape, dtype and placement of a value; interned, so that equality is identity.

    ``device`` is a ``jax.Device`` for ordinary values and a ``jax.sharding.Sharding`` for
    values that are spread over several devices. ``memory`` is ``None`` in the device's own memory, else
    the kind of the other memory the value waits in (:data:`PINNED`); see ``memory.py``.
    """

    __slots__ = ("_elsewhere", "device", "differentiable", "dtype", "memory", "nbytes", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: Any, memory: str | None = None):
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.memory = memory
        self._elsewhere: dict[str | None, Aval] = {memory: self}
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
            made = Aval(self.shape, self.dtype, self.device, memory)
            made._elsewhere = self._elsewhere
            found = self._elsewhere.setdefault(memory, made)
        return found

    @property
    def sharding(self) -> jax.sharding.Sharding:
        if isinstance(self.device, jax.sharding.Sharding):
            return self.device if self.memory is None else self.device.with_memory_kind(self.memory)
        return jax.sharding.SingleDeviceSharding(self.device, memory_kind=self.memory)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """The form ``jax.eval_shape`` reads."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)

    @property
    def placed_struct(self) -> jax.ShapeDtypeStruct:
        """The form ``jit(...).lower`` reads: with the placement the program is compiled for."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype, sharding=self.sharding)


_interned: dict[tuple[tuple[int, ...], Any, Any], Aval] = {}


def aval(shape: tuple[int, ...], dtype: Any, device: Any) -> Aval:
    """The one Aval of this shape, dtype and placement."""
    key = (shape, dtype, device)
    found = _interned.get(key)
    if found is None:
        dtype = np.dtype(dtype)
        # Keyed by the canonical dtype, then filed under the spelling that was asked for as well.
        found = _interned.setdefault((shape, dtype, device), Aval(shape, dtype, device))
        _interned[key] = found
        if len(_interned) > 200_000:  # shapes that never come back must not pile up
            _interned.clear()
    return found


def _default_memory(device: Any) -> str:
    return str(device.default_memory().kind)


def aval_of(array: jax.Array) -> Aval:
    """The Aval of a JAX array: its device, or its sharding when there are several."""
    sharding = array.sharding
    devices = sharding.device_set
    memory = PINNED if sharding.memory_kind == PINNED else None
    if len(devices) == 1:
        where: Any = next(iter(devices))
    elif memory is None:
        where = sharding
    else:
        where = sharding.with_memory_kind(_default_memory(next(iter(devices))))
    found = aval(array.shape, array.dtype, where)
    return found if memory is None else found.on(memory)
