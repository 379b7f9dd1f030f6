"""Sums over the devices of this process, as one compiled program."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import core
from mxjax.core import TRACED, Value, compile_function

NAME = "kvstore_allreduce"
_AXIS = "devices"
_ADD = core.bind("kvstore_add", jnp.add)


class _Reduction(NamedTuple):
    """The program for one list of shapes on one list of devices."""

    compiled: Any
    shardings: tuple[NamedSharding, ...]  # one: all arrays are cut along the first axis
    devices: tuple[Any, ...]


class Devices:
    """The collective of one process (``core.interfaces.Collective``)."""

    def __init__(self) -> None:
        self._programs: dict[Any, _Reduction] = {}
        self._lock = threading.Lock()
        self._last: Any = None  # a small result of the last program

    def all_reduce(self, groups: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """For each group (values of one shape and dtype) the sum, on each of its values' devices.

        All groups that lie on the same devices are summed by one program.
        """
        results: list[list[Value]] = [[] for _ in groups]
        by_devices: dict[tuple[Any, ...], list[tuple[int, list[Value]]]] = {}
        for k, group in enumerate(groups):
            partial: dict[Any, Value] = {}
            for v in group:
                device = v.aval.device
                partial[device] = core.record2(_ADD, partial[device], v) if device in partial else v
            if len(partial) == 1:
                results[k] = [next(iter(partial.values()))] * len(group)
            else:
                by_devices.setdefault(tuple(partial), []).append((k, list(partial.values())))
        for devices, members in by_devices.items():
            sums = self._run(devices, [values for _, values in members])
            for (k, _), found in zip(members, sums, strict=True):
                at = dict(zip(devices, found, strict=True))
                results[k] = [at[v.aval.device] for v in groups[k]]
        return results

    def _run(self, devices: tuple[Any, ...], groups: list[list[Value]]) -> list[list[Value]]:
        shapes = tuple((values[0].aval.shape, values[0].aval.dtype) for values in groups)
        key = devices, shapes
        arrays = [[core.memory.on_device(v) for v in values] for values in groups]
        # XLA's CPU devices share their threads: two programs that wait for each other's partners block
        # both, so the last one ends before the next begins.
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = self._programs[key] = _compile(devices, shapes)
            sharding = found.shardings[0]
            n = len(devices)
            given = [
                jax.make_array_from_single_device_arrays(
                    (n * shape[0], *shape[1:]) if shape else (n,),
                    sharding,
                    parts if shape else [a.reshape(1) for a in parts],
                )
                for (shape, _), parts in zip(shapes, arrays, strict=True)
            ]
            if self._last is not None and devices[0].platform == "cpu":
                self._last.block_until_ready()
            start = time.time_ns()
            *sums, self._last = found.compiled(*given)
            core.stats.programs += 1
            for o in core.observers:
                o.on_run(NAME, (), start, time.time_ns())
        out = []
        for values, (shape, _), total in zip(groups, shapes, sums, strict=True):
            shards = {s.device: s.data for s in total.addressable_shards}
            parts = [shards[d] if shape else shards[d].reshape(()) for d in devices]
            out.append(
                [
                    core.concrete(p, shared=False, of=v.aval.on(None))
                    for p, v in zip(parts, values, strict=True)
                ]
            )
        return out


def _compile(devices: tuple[Any, ...], shapes: Sequence[tuple[tuple[int, ...], Any]]) -> _Reduction:
    n = len(devices)
    mesh = Mesh(np.array(devices), (_AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec(_AXIS)
    sharding = NamedSharding(mesh, spec)

    def sums(*local: Any) -> tuple[Any, ...]:
        # One list of sums: XLA makes them one all-reduce.
        totals = jax.lax.psum(local, _AXIS)
        return (*totals, jnp.zeros((1,), "float32"))

    run = jax.shard_map(sums, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    run.__name__ = NAME
    structs = [
        jax.ShapeDtypeStruct(
            (n * shape[0], *shape[1:]) if shape else (n,), dtype, sharding=sharding
        )
        for shape, dtype in shapes
    ]
    compiled, _ = compile_function(
        run,
        structs,
        donate=(),
        device=devices[0],
        out_shardings=(sharding,) * (len(shapes) + 1),
        name=NAME,
        reason="new shapes to sum over devices",
    )
    return _Reduction(compiled, (sharding,), devices)


def moved(v: Value, device: Any) -> Value:
    """The value on a device, without a trace on the tape."""
    if v.aval.device is device or v.seg is TRACED:
        return v
    array = core.place(core.memory.on_device(v), device)
    return core.concrete(array, shared=False, of=core.aval_of(array))
