"""The optimizer shared out between devices (ZeRO, stage 1): each updates a part and keeps its states.

A big array's gradient is summed so that each device gets one part of the sum (reduce-scatter); the device
updates that part of the weight with the optimizer's states of that part, which nobody else has; then all
collect the new weight (all-gather). Small arrays are summed and updated on every device. All arrays of a
step are one program. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", SC 2020.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import core, settings
from mxjax.array.classes import ndarray
from mxjax.core import Value, compile_function, concrete, in_flight
from mxjax.optimizer import Optimizer, Updater, rules

from ._collective import NAME

_AXIS = "devices"
# A rule with one of these in it looks at more than one element at a time, and needs whole arrays.
_MIXING = (
    "reduce", "arg", "cum", "dot", "conv_general", "sort", "scan", "while", "random", "rng", "gather", "scatter",
)  # fmt: skip


class Kept(NamedTuple):
    """The states of one weight on a mesh: flat and cut, or whole on every device."""

    leaves: tuple[jax.Array, ...]
    cut: tuple[bool, ...]
    state: Any  # the nested form, with the leaves' numbers in their places
    shape: tuple[int, ...]  # the weight's
    devices: tuple[Any, ...]
    shared: bool  # whether what has the weight's shape is cut


class _Key(NamedTuple):
    """What of one weight shapes the program."""

    shape: tuple[int, ...]
    dtype: Any
    cut: bool
    states: tuple[tuple[tuple[int, ...], Any, bool], ...]  # shape (global), dtype, whether cut


class ShardedUpdater(Updater):
    """An `Updater` whose states may lie shared out over devices; read and written as any other's.

    What is saved does not know how many devices there were.
    """

    def __init__(self, optimizer: Optimizer):
        super().__init__(optimizer)
        self._kept: dict[Any, Kept] = {}
        self._programs: dict[Any, Any] = {}

    # ---- whether -------------------------------------------------------------------------------------------

    @property
    def can_share(self) -> bool:
        """Whether this optimizer is one pure rule and its states live on the devices."""
        optimizer = self.optimizer
        if optimizer.rule_fn is None:
            return False
        own = "fused_step" if optimizer.use_fused_step else "step"
        return self.home is None and getattr(type(optimizer), own) is getattr(Optimizer, own)

    def cuts(self, size: int, devices: int) -> bool:
        """Whether an array of so many elements is shared out."""
        big = size >= max(devices, settings.get("comm.bigarray_bound"))
        return devices > 1 and big and elementwise(self.optimizer)

    # ---- updating ------------------------------------------------------------------------------------------

    def update(
        self,
        devices: tuple[Any, ...],
        keys: Sequence[Any],
        weights: Sequence[Sequence[Value]],
        grads: Sequence[Sequence[Value]],
    ) -> list[list[Value]]:
        """Sum gradients over devices and update weights, as one program.

        Args:
          devices: all that take part.
          keys: the weights' indices.
          weights, grads: for each key a value per device, in order.

        Returns the new weights in the same form.
        """
        firsts = [ndarray._wrap(w[0]) for w in weights]
        for key, first in zip(keys, firsts, strict=True):
            self._share(key, first, devices)
        kept = [self._kept[k] for k in keys]
        numbers, pure = self._numbers_and_update(keys, firsts, kept)
        spec = tuple(
            _Key(
                w.shape, np.dtype(w.dtype), self.cuts(w.size, len(devices)),
                tuple((s.shape, s.dtype, c) for s, c in zip(k.leaves, k.cut, strict=True)),
            )
            for w, k in zip(firsts, kept, strict=True)
        )  # fmt: skip
        grad_types = tuple(g[0].aval.dtype for g in grads)
        name = devices, spec, grad_types, pure, numbers.dtype
        whole, parts = _shardings(devices)
        n = len(devices)
        given = [
            _global([core.memory.on_device(v) for v in w], k.shape, whole)
            for w, k in zip(weights, spec, strict=True)
        ]
        for g, k in zip(grads, spec, strict=True):
            arrays = [core.memory.on_device(v) for v in g]
            if not k.shape:
                arrays = [a.reshape(1) for a in arrays]
            shape = (n * k.shape[0], *k.shape[1:]) if k.shape else (n,)
            given.append(_global(arrays, shape, parts))
        states = [s for k in kept for s in k.leaves]
        with in_flight.lock, jax.enable_x64(True):
            run = self._programs.get(name)
            if run is None:
                run = self._programs[name] = _compile(devices, spec, grad_types, pure, numbers)
            in_flight.wait(devices[0].platform)
            start = time.time_ns()
            *out, last = run(jax.device_put(numbers, whole), *given, *states)
            in_flight.began([last], devices[0].platform)
        self._has_run(keys, kept, out[len(keys) :], start)
        return [_values(a, w) for a, w in zip(out[: len(keys)], weights, strict=True)]

    def _has_run(
        self, keys: Sequence[Any], kept: Sequence[Kept], leaves: Sequence[Any], start: int
    ) -> None:
        """Keep the states that a program begun at `start` (ns) gave, and tell the observers of it."""
        core.stats.programs += 1
        for o in core.hooks.observers:
            o.on_run(NAME, (), start, time.time_ns())
        fresh = iter(leaves)
        for key, old in zip(keys, kept, strict=True):
            self._kept[key] = old._replace(leaves=tuple(next(fresh) for _ in old.leaves))

    def _numbers_and_update(
        self, keys: Sequence[Any], weights: Sequence[Any], kept: Sequence[Kept]
    ) -> tuple[np.ndarray, rules.PureUpdate]:
        """An update, which is counted: its numbers, and the function that takes them."""
        double = any(w.dtype == np.float64 for w in weights)
        numbers = self.optimizer.count_updates(
            keys, np.float64 if double else np.float32, device_id=0
        )
        return numbers, self.optimizer.pure_update(keys, weights, [len(k.leaves) for k in kept])

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update on the weights' own device, as an `Updater` does."""
        for i in index if isinstance(index, (list, tuple)) else (index,):
            self._collect(i)
        super().__call__(index, grad, weight)

    def _share(self, key: Any, weight: Any, devices: tuple[Any, ...]) -> None:
        """See to it that a weight's states lie on these devices, shared out as they should be."""
        cut = self.cuts(weight.size, len(devices))
        found = self._kept.get(key)
        if found is not None and found.devices == devices and found.shared is cut:
            return
        self._collect(key)
        if key not in self.states:
            self.states[key] = self.optimizer.create_state_multi_precision(key, weight)
        leaves: list[jax.Array] = []
        cuts: list[bool] = []
        whole, parts = _shardings(devices)

        def put(leaf: Any) -> int:
            array = leaf.asnumpy()
            mine = cut and array.shape == weight.shape
            if mine:
                flat = array.reshape(-1)
                array = np.pad(flat, (0, -flat.size % len(devices)))
            with jax.enable_x64(True):
                leaves.append(jax.device_put(array, parts if mine else whole))
            cuts.append(mine)
            return len(leaves) - 1

        state = mapped(put, self.states.pop(key))
        self.unsynced.discard(key)
        self._kept[key] = Kept(tuple(leaves), tuple(cuts), state, weight.shape, devices, cut)

    def _collect(self, key: Any) -> None:
        """Bring a weight's states back to where an `Updater` has them."""
        found = self._kept.pop(key, None)
        if found is not None:
            self.states[key] = self._collected(key, found)
            self.unsynced.add(key)

    def _collected(self, key: Any, kept: Kept) -> Any:
        """The whole states of a weight as an `Updater` has them."""
        return wholes(kept, [np.asarray(leaf) for leaf in kept.leaves])

    # ---- states as bytes -----------------------------------------------------------------------------------

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states of whole weights as bytes, however they lie now."""
        own = self.states
        try:
            self.states = {
                **own,
                **{k: self._collected(k, found) for k, found in self._kept.items()},
            }
            return super().get_states(dump_optimizer)
        finally:
            self.states = own

    def set_states(self, states: bytes) -> None:
        super().set_states(states)
        self._kept.clear()

    def place(self, where: str) -> None:
        for key in list(self._kept):
            self._collect(key)
        super().place(where)


def elementwise(optimizer: Optimizer) -> bool:
    """Whether the rule of an optimizer updates each element by itself, so that parts may be updated alone."""
    like = jax.ShapeDtypeStruct((4, 3), np.dtype("float32"))
    pure = optimizer.pure_update([None], [like], [0])
    found = _known.get(pure)
    if found is None:
        states = jax.eval_shape(optimizer.init, like)
        if any(s.shape not in ((4, 3), ()) for s in states):
            found = False
        else:
            update = functools.partial(optimizer.rule, lr=0.1, wd=0.1, t=1)
            found = not _mixes(jax.make_jaxpr(update)(like, like, states).jaxpr)
        _known[pure] = found
    return found


_known: dict[rules.PureUpdate, bool] = {}


def _mixes(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith(_MIXING) and eqn.primitive.name != "reduce_precision":
            return True
        inner = [getattr(p, "jaxpr", p) for p in jax.tree.leaves(list(eqn.params.values()))]
        if any(_mixes(p) for p in inner if hasattr(p, "eqns")):
            return True
    return False


def mapped(fn: Callable[[Any], Any], state: Any) -> Any:
    if state is None:
        return None
    if isinstance(state, (tuple, list)):
        return tuple(mapped(fn, s) for s in state)
    return fn(state)


def wholes(kept: Kept, leaves: Sequence[np.ndarray]) -> Any:
    """States in their nested form, of their leaves as whole arrays (those that were cut flat and padded)."""
    size = int(np.prod(kept.shape))

    def whole(number: int) -> Any:
        array = leaves[number]
        if kept.cut[number]:
            array = array[:size].reshape(kept.shape)
        home = next(iter(kept.leaves[number].addressable_shards)).device
        return ndarray._wrap(concrete(core.place(array, home), shared=False))

    return mapped(whole, kept.state)


@functools.cache
def _shardings(devices: tuple[Any, ...]) -> tuple[NamedSharding, NamedSharding]:
    mesh = Mesh(np.array(devices), (_AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    return NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(_AXIS))


def _global(arrays: list[jax.Array], shape: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


def _values(array: jax.Array, like: Sequence[Value]) -> list[Value]:
    at = {s.device: s.data for s in array.addressable_shards}
    return [concrete(at[v.aval.device], shared=False, of=v.aval) for v in like]


def _compile(
    devices: tuple[Any, ...],
    spec: tuple[_Key, ...],
    grad_types: tuple[Any, ...],
    step: Callable[..., tuple[Any, ...]],
    numbers: np.ndarray,
) -> Any:
    n, count = len(devices), len(spec)
    whole, parts = _shardings(devices)

    def padded(x: Any) -> Any:
        flat = x.reshape(-1)
        return jnp.pad(flat, (0, -flat.size % n))

    def local(numbers: Any, *arrays: Any) -> tuple[Any, ...]:
        weights, grads = list(arrays[:count]), list(arrays[count : 2 * count])
        here = jax.lax.axis_index(_AXIS)
        small = [k for k in range(count) if not spec[k].cut]
        sums = jax.lax.psum(tuple(grads[k].reshape(spec[k].shape) for k in small), _AXIS)
        for k, total in zip(small, sums, strict=True):
            grads[k] = total
        for k, key in enumerate(spec):
            if key.cut:
                grads[k] = jax.lax.psum_scatter(padded(grads[k]), _AXIS, tiled=True)
                part = grads[k].size
                weights[k] = jax.lax.dynamic_slice(padded(weights[k]), (here * part,), (part,))
        out = list(step(numbers, *weights, *grads, *arrays[2 * count :]))
        for k, key in enumerate(spec):
            if key.cut:
                full = jax.lax.all_gather(out[k], _AXIS, tiled=True)
                out[k] = full[: int(np.prod(key.shape))].reshape(key.shape)
        return (*out, jnp.zeros((1,), "float32"))

    spec_whole, spec_part = PartitionSpec(), PartitionSpec(_AXIS)
    state_specs = [spec_part if cut else spec_whole for k in spec for _, _, cut in k.states]
    ins = [spec_whole, *[spec_whole] * count, *[spec_part] * count, *state_specs]
    outs = [*[spec_whole] * count, *state_specs, spec_part]
    run = jax.shard_map(
        local, mesh=whole.mesh, in_specs=tuple(ins), out_specs=tuple(outs), check_vma=False
    )
    run.__name__ = "kvstore_update"
    shapes = [(numbers.shape, numbers.dtype)]
    shapes += [(k.shape, k.dtype) for k in spec]
    shapes += [
        ((n * k.shape[0], *k.shape[1:]) if k.shape else (n,), t)
        for k, t in zip(spec, grad_types, strict=True)
    ]
    shapes += [(shape, dtype) for k in spec for shape, dtype, _ in k.states]
    structs = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=parts if p == spec_part else whole)
        for (shape, dtype), p in zip(shapes, ins, strict=True)
    ]
    compiled, _ = compile_function(
        run,
        structs,
        donate=tuple(range(1 + 2 * count, len(structs))),
        device=devices[0],
        out_shardings=tuple(parts if p == spec_part else whole for p in outs),
        name="kvstore_update",
        reason="new weights to update over devices",
    )
    return compiled
