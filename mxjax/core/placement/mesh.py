"""Several devices as one place: values spread over a mesh, and programs that all of its devices run.

A value on a mesh has the mesh as its device, so that recorded calls may mix values however each lies
there. How a value lies is its Aval's ``spread``; results of programs have none until the program is
compiled, because the compiler chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..calls.aval import Aval, MeshDevice, aval
from ..calls.call import Call, Row
from ..calls.record import record
from ..calls.value import TRACED, Value, concrete
from ..compile.compiler import wide_types
from ..run.scheduler import read


def mesh_device(mesh: Mesh) -> MeshDevice:
    """The one place that stands for a mesh."""
    return MeshDevice.of(mesh)


class Spread(Call):
    """The values as they are, each spread as its place in ``avals`` says."""

    __slots__ = ("avals",)

    def __init__(self, avals: tuple[Aval, ...]):
        super().__init__(Row("spread", self._constrained))
        self.avals = avals

    def _constrained(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(
            jax.lax.with_sharding_constraint(x, a.sharding)
            for x, a in zip(arrays, self.avals, strict=True)
        )

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        return self.avals, True


_spreads: dict[tuple[Aval, ...], Spread] = {}


def spread(values: Sequence[Value], like: Sequence[Aval]) -> tuple[Value, ...]:
    """Record that these values lie as those do, which have the same shapes; one call for all."""
    key = tuple(like)
    call = _spreads.get(key)
    if call is None:
        call = _spreads.setdefault(key, Spread(key))
    return record(call, values)


def lay(v: Value, mesh: Mesh, spec: PartitionSpec) -> Value:
    """The value spread over a mesh in this way."""
    if v.seg is TRACED:
        return v
    sharding = NamedSharding(mesh, spec)
    with wide_types():
        array = jax.device_put(read(v), sharding)
    device = MeshDevice.of(mesh)
    of = aval(array.shape, array.dtype, device).laid(sharding)
    v.shared = True  # both may have one buffer on a device: nobody may write over it
    return concrete(array, shared=True, of=of)


def relaid(v: Value, like: Aval) -> Value:
    """A value on a mesh, spread as another one of its shape there."""
    sharding = like.spread
    if (
        type(like.device) is not MeshDevice
        or not isinstance(sharding, NamedSharding)
        or v.seg is TRACED
    ):
        return v
    return lay(v, like.device.mesh, sharding.spec)
