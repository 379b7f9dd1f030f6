"""Abstract values: what is known about an array before it exists."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Aval:
    """Shape, dtype and placement of a value; interned, so that equality is identity.

    ``device`` is a ``jax.Device`` for ordinary values and a ``jax.sharding.Sharding`` for
    values that are spread over several devices.
    """

    __slots__ = ("device", "differentiable", "dtype", "nbytes", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: Any):
        self.shape = shape
        self.dtype = dtype
        self.device = device
        size = 1
        for n in shape:
            size *= n
        self.size = size
        self.nbytes = size * dtype.itemsize
        self.differentiable = bool(jnp.issubdtype(dtype, jnp.inexact))

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}@{self.device}"

    @property
    def sharding(self) -> jax.sharding.Sharding:
        if isinstance(self.device, jax.sharding.Sharding):
            return self.device
        return jax.sharding.SingleDeviceSharding(self.device)

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


def placement(array: jax.Array) -> Any:
    """Where an array lives: its device, or its sharding when there are several."""
    sharding = array.sharding
    devices = sharding.device_set
    return next(iter(devices)) if len(devices) == 1 else sharding


def aval_of(array: jax.Array) -> Aval:
    return aval(array.shape, array.dtype, placement(array))
