"""Sums over the devices of this process: one compiled program, or in the memory they share."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import core, settings
from mxjax.core import TRACED, Value, compile_function, in_flight, physical, renamed

from . import _host, _tree

NAME = "kvstore_allreduce"
_AXIS = "devices"
ADD = core.row("kvstore_add", jnp.add).bind()


_SUMMED_ON_HOST = frozenset(
    map(np.dtype, ("float32", "float64", "int32", "int64", "int8", "uint8"))
)


class _Reduction(NamedTuple):
    """The program for one list of shapes on one list of devices."""

    compiled: Any
    sharding: NamedSharding  # all arrays are cut along the first axis


class Trees(NamedTuple):
    """How arrays are summed along trees: `bound` elements and more by all of them at once."""

    found: tuple[_tree.Levels, ...]
    bound: int


class Devices:
    """The collective of one process (``core.hooks.Collective``).

    Args:
      kind: ``'nccl'`` always sums by a program; others sum on the host where the devices are CPUs, or
        where ``comm.p2p`` is off, and along trees where ``comm.tree`` is on and the kind is ``'device'``.
    """

    def __init__(self, kind: str = "device") -> None:
        self._kind = kind
        self._programs: dict[Any, _Reduction] = {}
        self._pool = _host.Pool()
        self.priority = 0  #: how urgent the sums of the next call are, beside those of other stores

    def all_reduce(self, groups: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """For each group (values of one shape and dtype) the sum, on each of its values' devices.

        All groups that lie on the same devices are summed by one program. Names of one physical device count as that
        device: what lies there is added there, and all of them get the one sum.
        """
        results: list[list[Value]] = [[] for _ in groups]
        by_devices: dict[tuple[Any, ...], list[tuple[int, list[Value]]]] = {}
        for k, group in enumerate(groups):
            if len(group) == 1:
                results[k] = [group[0]]
                continue
            partial: dict[Any, Value] = {}
            if len({physical(v.aval.device) for v in group}) < len({v.aval.device for v in group}):
                for (
                    v
                ) in group:  # what gives the values runs by itself: all names share that program
                    core.read(v)
            for v in group:
                device = physical(v.aval.device)
                v = moved(v, device)
                partial[device] = core.record2(ADD, partial[device], v) if device in partial else v
            if len(partial) == 1:
                (total,) = partial.values()
                total.shared |= len({v.aval.device for v in group}) > 1
                results[k] = [total] * len(group)
            else:
                by_devices.setdefault(tuple(partial), []).append((k, list(partial.values())))
        for devices, members in by_devices.items():
            sums = self._sums(devices, [values for _, values in members])
            for (k, _), found in zip(members, sums, strict=True):
                at = dict(zip(devices, found, strict=True))
                results[k] = [at[physical(v.aval.device)] for v in groups[k]]
                if len({v.aval.device for v in groups[k]}) > len(devices):
                    for total in found:
                        total.shared = True
        return results

    def _sums(self, devices: tuple[Any, ...], groups: list[list[Value]]) -> list[list[Value]]:
        if len({d.platform for d in devices}) > 1:
            return [self._one_by_one(devices, values) for values in groups]
        trees = self._trees(devices)
        shared = devices[0].platform == "cpu" or not settings.get("comm.p2p")
        if self._kind == "nccl" or trees is not None or not shared:
            return self._run(devices, groups, trees)
        mine = [values[0].aval.dtype in _SUMMED_ON_HOST for values in groups]
        rest = [values for values, own in zip(groups, mine, strict=True) if not own]
        by_program = iter(self._run(devices, rest, None) if rest else [])
        here = [values for values, own in zip(groups, mine, strict=True) if own]
        on_host = iter(self._on_host(devices, here) if here else [])
        return [next(on_host if own else by_program) for own in mine]

    def _one_by_one(self, devices: tuple[Any, ...], values: list[Value]) -> list[Value]:
        """The sum on each device, added up on the first: no program has devices of two kinds, as a CPU and a GPU."""
        total = values[0]
        for v in values[1:]:
            total = core.record2(ADD, total, moved(v, devices[0]))
        return [moved(total, device) for device in devices]

    def _trees(self, devices: tuple[Any, ...]) -> Trees | None:
        if "device" not in self._kind or not settings.get("comm.tree"):
            return None
        return _trees_of(
            devices, settings.get("comm.tree_backtrack"), settings.get("comm.tree_link_penalty"),
            settings.get("comm.tree_array_bound"), settings.get("comm.tree_log"),
        )  # fmt: skip

    def _on_host(self, devices: tuple[Any, ...], groups: list[list[Value]]) -> list[list[Value]]:
        arrays = [[np.asarray(core.memory.on_device(v)) for v in values] for values in groups]
        start = time.time_ns()
        totals = _host.sums(arrays, self._pool, self.priority)
        with in_flight.lock:
            placed = _host.on_devices(totals, devices)
            for o in core.hooks.observers:
                o.on_run(NAME, (), start, time.time_ns())
        # One memory for all devices (and the pool's): nobody may write over it.
        return [
            [
                core.concrete(a, shared=True, of=v.aval.on(None))
                for a, v in zip(row, values, strict=True)
            ]
            for row, values in zip(placed, groups, strict=True)
        ]

    def _run(
        self, devices: tuple[Any, ...], groups: list[list[Value]], trees: Trees | None
    ) -> list[list[Value]]:
        shapes = tuple((values[0].aval.shape, values[0].aval.dtype) for values in groups)
        key = devices, shapes, trees
        arrays = [[core.memory.on_device(v) for v in values] for values in groups]
        with in_flight.lock:
            found = self._programs.get(key)
            if found is None:
                found = self._programs[key] = _compile(devices, shapes, trees)
            n = len(devices)
            given = [
                jax.make_array_from_single_device_arrays(
                    (n * shape[0], *shape[1:]) if shape else (n,),
                    found.sharding,
                    parts if shape else [a.reshape(1) for a in parts],
                )
                for (shape, _), parts in zip(shapes, arrays, strict=True)
            ]
            in_flight.wait(devices[0].platform)
            start = time.time_ns()
            *sums, last = found.compiled(*given)
            in_flight.began([last], devices[0].platform)
            core.stats.programs += 1
            for o in core.hooks.observers:
                o.on_run(NAME, (), start, time.time_ns())
        out = []
        for values, (shape, _), total in zip(groups, shapes, sums, strict=True):
            parts = [total.addressable_data(k) for k in range(n)]
            out.append(
                [
                    core.concrete(p if shape else p.reshape(()), shared=False, of=v.aval.on(None))
                    for p, v in zip(parts, values, strict=True)
                ]
            )
        return out


@functools.lru_cache(16)
def _trees_of(
    devices: tuple[Any, ...], backtrack: bool, penalty: float, bound: int, log: bool
) -> Trees:
    links = _tree.links_of(devices)
    found = _tree.trees(links, backtrack=backtrack, penalty=penalty)
    if log:
        _tree.log(found, links)
    return Trees(tuple(found), bound)


def _compile(
    devices: tuple[Any, ...], shapes: Sequence[tuple[tuple[int, ...], Any]], trees: Trees | None
) -> _Reduction:
    n = len(devices)
    mesh = Mesh(np.array(devices), (_AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec(_AXIS)
    sharding = NamedSharding(mesh, spec)

    def along(k: int, x: Any) -> Any:
        assert trees is not None
        if x.size >= max(trees.bound, n):
            return _tree.sum_by_trees(x, trees.found, _AXIS)
        return _tree.sum_along(x, trees.found[k % n], _AXIS)

    def sums(*local: Any) -> tuple[Any, ...]:
        if trees is None:
            totals = jax.lax.psum(local, _AXIS)  # one list of sums: XLA makes them one all-reduce
        else:
            totals = tuple(along(k, x) for k, x in enumerate(local))
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
    return _Reduction(compiled, sharding)


def moved(v: Value, device: Any) -> Value:
    """The value on a device, without a trace on the tape."""
    if v.aval.device is device or v.seg is TRACED:
        return v
    if physical(v.aval.device) is physical(device):
        core.read(v)
        return renamed(v, device)
    array = core.memory.on_device(v)
    return core.placed(
        array if settings.get("comm.p2p") else np.asarray(array), device, shared=False
    )
