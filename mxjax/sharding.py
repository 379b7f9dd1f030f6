"""Meshes: several devices that compute as one, by one program per step (`mx.mesh`)."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from . import core, errors
from . import device as _devices
from .device import Device

__all__ = ["Mesh", "mesh"]

Spec = Any  # None, an axis' name, or a tuple with one entry per dimension: a name, names or None


class Mesh(Device):
    """Several devices in a grid with named axes, used as one device; made by `mx.mesh`.

    Arrays and parameters on a mesh lie on all of its devices: whole on each (replicated), or cut along
    axes of the mesh. Calls, blocks, `autograd` and a `Trainer` work as on one device; XLA makes one program
    of them that all devices run, and adds the communication.

    Attributes:
      jax_mesh: the `jax.sharding.Mesh`.
      shape: the lengths of the axes by name.
    """

    __slots__ = ("_place", "jax_mesh")

    def __init__(self, jax_mesh: jax.sharding.Mesh):
        first = jax_mesh.devices.flat[0]
        kind = {"cpu": "cpu", "tpu": "tpu"}.get(first.platform, "gpu")
        super().__init__(kind, 0)
        self.jax_mesh = jax_mesh
        self._place = core.mesh_device(jax_mesh)
        self._found = self._place
        _devices._known.setdefault(self._place, self)

    @property
    def shape(self) -> dict[str, int]:
        """The lengths of the axes by name."""
        return dict(self.jax_mesh.shape)

    @property
    def size(self) -> int:
        """The number of devices."""
        return int(self.jax_mesh.size)

    def __hash__(self) -> int:
        return hash(self.jax_mesh)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.jax_mesh == other.jax_mesh

    def __repr__(self) -> str:
        return repr(self._place)

    def __reduce__(self) -> tuple[Any, ...]:
        return mesh, (self.shape,)

    # ---- specs -----------------------------------------------------------------------------------------------

    def spec(self, given: Spec, shape: Sequence[int], what: str = "the array") -> PartitionSpec:
        """A spec of the user's as JAX's, checked against a shape.

        Raises:
          ValueError: an axis the mesh does not have, too many entries, or a length that cannot be cut.
        """
        if isinstance(given, NamedSharding):
            given = given.spec
        parts: tuple[Any, ...]
        if given is None:
            parts = ()
        elif isinstance(given, str):
            parts = (given,)
        else:
            parts = tuple(given)
        if len(parts) > len(shape):
            raise errors.MXNetValueError(
                f"{what} has {len(shape)} dimensions {tuple(shape)}, and the spec {parts} has {len(parts)} entries"
            )
        for length, part in zip(shape, parts, strict=False):
            names = () if part is None else (part,) if isinstance(part, str) else tuple(part)
            ways = 1
            for name in names:
                if name not in self.shape:
                    raise errors.MXNetValueError(
                        f"{self!r} has no axis {name!r}{errors.did_you_mean(name, self.shape)}; its axes are "
                        f"{', '.join(self.shape)}"
                    )
                ways *= self.shape[name]
            if length % ways:
                raise errors.MXNetValueError(
                    f"{what} of shape {tuple(shape)} cannot be sharded by {parts}: {length} is not divisible by {ways}"
                )
        return PartitionSpec(*parts)

    def put(self, data: Any, spec: Spec = None) -> Any:
        """An array on the mesh: whole on every device, or cut as `spec` says.

        Args:
          data: an array of mxjax, NumPy or JAX, of any shape and dtype.
          spec: None, the name of the axis along which the first dimension is cut, or one entry per dimension.

        >>> import mxjax as mx
        >>> mx.mesh(data=1).put(mx.np.ones((4, 2)), ("data", None)).shape
        (4, 2)
        """
        from . import np as mxnp

        array = data if hasattr(data, "_value") else mxnp.array(data)
        wanted = self.spec(spec, array.shape)
        if core.local.st.taping and array._value().tape is not None:
            raise errors.MXNetError(
                "put() inside autograd.record() would cut the gradient off: bring arrays onto the mesh first, or "
                "use x.to_device(mesh)"
            )
        return type(array)._wrap(core.lay(array._value(), self.jax_mesh, wanted))

    def split(
        self, data: Any, batch_axis: int = 0, along: str | Sequence[str] | None = None
    ) -> Any:
        """A batch, cut between the devices along `batch_axis`.

        Args:
          data: an array of any shape; the batch axis' length must be a multiple of the number of parts.
          along: axes of the mesh; by default ``'data'`` where there is one, else the first.

        >>> import mxjax as mx
        >>> mx.mesh(data=1).split(mx.np.ones((4, 2))).shape
        (4, 2)
        """
        if along is None:
            along = self.data_axis
        spec = [None] * batch_axis + [along if isinstance(along, str) else tuple(along)]
        return self.put(data, spec)

    @property
    def data_axis(self) -> str:
        """The axis batches are cut along: ``'data'``, or the first."""
        return "data" if "data" in self.shape else next(iter(self.shape))

    def fsdp(self, shape: Sequence[int]) -> PartitionSpec:
        """How a parameter is cut over the data axis: along its longest dimension that can be."""
        name = self.data_axis
        fits = [k for k, n in enumerate(shape) if n and n % self.shape[name] == 0]
        if not fits or self.shape[name] == 1:
            return PartitionSpec()
        longest = max(fits, key=lambda k: (shape[k], -k))
        return PartitionSpec(*[name if k == longest else None for k in range(longest + 1)])

    def shard(self, params: Mapping[str, Any], specs: Any = None) -> None:
        """Put parameters (as `net.collect_params()` gives them) onto the mesh; see `Block.shard`."""
        table = specs if isinstance(specs, Mapping) else {}
        if isinstance(specs, str) and specs not in ("fsdp", "replicated"):
            raise errors.MXNetValueError(
                f"specs={specs!r}: 'fsdp', 'replicated' or a dictionary from names to specs is expected"
            )
        for pattern in table:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in params):
                raise errors.MXNetValueError(
                    f"no parameter is called {pattern!r}{errors.did_you_mean(pattern, params)}; there are "
                    f"{', '.join(params)}"
                )
        for name, param in params.items():
            if param._arrays is None and param._deferred is None:
                raise errors.MXNetValueError(
                    f"parameter {name!r} is not initialized: call initialize() before shard()"
                )
            chosen: Any = [v for p, v in table.items() if fnmatch.fnmatchcase(name, p)][:1]
            if chosen:
                (chosen,) = chosen
            elif param.sharding is not None:
                chosen = param.sharding
            else:
                chosen = self.fsdp if specs == "fsdp" else None
            if param._arrays is None:  # its shape is found at the first forward pass
                param._lie_on(self, chosen, name)
            else:
                param._lay(self, self.spec_of(chosen, param.shape, name))

    def spec_of(self, chosen: Any, shape: Sequence[int], name: str) -> PartitionSpec:
        """A parameter's spec from what was chosen for it: a spec, or a function of its shape."""
        if callable(chosen):
            chosen = chosen(shape)
        return self.spec(chosen, shape, f"parameter {name!r}")


def mesh(axes: Any = None, *, devices: Sequence[Any] | None = None, **named: int) -> Mesh:
    """A mesh of this process' devices (of all processes', once `mx.launch` or `jax.distributed` joined them).

    Args:
      axes: the axes' lengths: a dictionary, a text as ``'data=2,model=4'``, or a `jax.sharding.Mesh`; or give
        them by keyword. One length may be -1: all devices that are left. By default ``data=-1``.
      devices: `mx.Device` or JAX devices; by default all of the default kind.

    Raises:
      ValueError: more devices are asked for than there are, or a length is not allowed.

    >>> import mxjax as mx
    >>> mx.mesh(data=1)
    mesh(data=1)
    >>> mx.mesh("data=1,model=1").shape
    {'data': 1, 'model': 1}
    """
    if isinstance(axes, jax.sharding.Mesh):
        return _of(axes)
    shape = {**_axes(axes), **named} or {"data": -1}
    found = [d.jax_device if isinstance(d, Device) else d for d in devices or jax.devices()]
    if len(set(found)) < len(found):
        names = ", ".join(map(str, devices or ()))
        raise errors.MXNetValueError(
            f"a mesh needs physical devices, each once: of {names} several are names of one. More CPU devices are made "
            "by setting XLA_FLAGS=--xla_force_host_platform_device_count=N before the first array is created"
        )
    known = math.prod(n for n in shape.values() if n != -1)
    rest = [k for k, n in shape.items() if n == -1]
    if len(rest) > 1 or any(n < 1 and n != -1 for n in shape.values()):
        raise errors.MXNetValueError(
            f"the axes {shape}: lengths are positive, and at most one is -1 (the devices that are left)"
        )
    if rest:
        shape[rest[0]] = len(found) // known
    size = math.prod(shape.values())
    if size < 1 or size > len(found):
        more = (
            "; more CPU devices are made by setting XLA_FLAGS=--xla_force_host_platform_device_count=N before "
            "the first array is created"
        )
        raise errors.MXNetValueError(
            f"a mesh with the axes {shape} needs {max(size, known)} devices, and there are {len(found)}{more}"
        )
    if devices is None and size == len(found):
        made = jax.make_mesh(
            tuple(shape.values()), tuple(shape), axis_types=(AxisType.Auto,) * len(shape)
        )
    else:
        grid = np.array(found[:size], dtype=object).reshape(tuple(shape.values()))
        made = jax.sharding.Mesh(grid, tuple(shape), axis_types=(AxisType.Auto,) * len(shape))
    return _of(made)


def _of(jax_mesh: jax.sharding.Mesh) -> Mesh:
    """The one Mesh of a JAX mesh."""
    found = _devices._known.get(core.mesh_device(jax_mesh))
    return found if isinstance(found, Mesh) else Mesh(jax_mesh)


def _axes(given: Any) -> dict[str, int]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(k): int(n) for k, n in given.items()}
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.split(",") if part.strip()]
        try:
            return {name.strip(): int(number) for name, _, number in pairs}
        except ValueError:
            pass
    raise errors.MXNetValueError(
        f"axes={given!r}: a text as 'data=2,model=4' or a dictionary is expected"
    )


def lay_params(params: Sequence[Any], target: Any) -> Mesh:
    """Put parameters that are not there yet onto a mesh: a `Mesh`, a `jax.sharding.Mesh` or a `NamedSharding`.

    Returns the mesh.

    Raises:
      ValueError: a parameter is not initialized.
    """
    spec: Any = None
    if isinstance(target, NamedSharding):
        target, spec = target.mesh, target.spec
    found = target if isinstance(target, Mesh) else mesh(target)
    missing = [p for p in params if p._arrays is None or list(p._arrays) != [found]]

    def fitting(shape: Sequence[int]) -> Any:
        try:
            return found.spec(spec, shape)
        except errors.MXNetValueError:
            return None  # it cannot be cut so: whole

    for p in missing:
        cut = spec is not None and p.sharding is None
        found.shard({p.name: p}, {p.name: fitting} if cut else None)
    return found


errors.explain_names(__name__)
