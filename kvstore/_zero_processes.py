"""The optimizer shared out between processes (ZeRO, stage 1): each updates a part and keeps its states.

What `_zero_devices` does with the devices of one process, in three steps instead of one program, because sums of CPUs
travel through memory that processes share and not through XLA: a process gets its part of a gradient's sum,
updates that part of the weight, and all collect the new parts (`_processes`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from mxjax import core
from mxjax.array.classes import ndarray
from mxjax.core import compile_function, memory
from mxjax.errors import MXNetValueError
from mxjax.optimizer import Optimizer
from mxjax.optimizer.optimizer import flatten

from ._processes import Operation, Processes, Update, padded, part_of
from ._zero_devices import Kept, ShardedUpdater, mapped, wholes


class PartUpdater(ShardedUpdater):
    """An `Updater` whose states lie shared out over the processes of a job.

    Whether a weight is updated in parts is decided at its first update; all ranks decide the same.

    Args:
      optimizer: the same on all ranks.
      processes: the job's.
      store: the number of the store that updates with it.
    """

    def __init__(self, optimizer: Optimizer, processes: Processes, store: int) -> None:
        super().__init__(optimizer)
        self._processes = processes
        self._store = store
        self._in_parts: dict[Any, bool] = {}
        self._home: Any = None  # the device of this process that updates

    def in_parts(self, key: Any, size: int) -> bool:
        """Whether each process updates a part of this weight."""
        found = self._in_parts.get(key)
        if found is None:
            found = self._in_parts[key] = self.cuts(size, self._processes.size)
        return found

    # ---- updating ------------------------------------------------------------------------------------------

    def update_parts(
        self, device: Any, keys: Sequence[Any], weights: Sequence[np.ndarray], sums: Sequence[Any]
    ) -> Update:
        """New values of weights, as one program.

        Args:
          device: of this process.
          keys: the weights' indices.
          weights: whole ones, on the host.
          sums: of their gradients: this process's part, flat, where `in_parts` says so (or all of it).

        Returns the new values in the form of the sums, or the old ones with what went wrong.
        """
        parts = [self._part(key, w) for key, w in zip(keys, weights, strict=True)]
        try:
            for key, weight, part in zip(keys, weights, parts, strict=True):
                self._share_part(key, weight, part, device)
            mine = [
                self._part(key, s) if s.shape == w.shape else s
                for key, w, s in zip(keys, weights, sums, strict=True)
            ]
            return Update(self._run(keys, parts, mine))
        except Exception as error:
            return Update(parts, error)

    def _part(self, key: Any, whole: np.ndarray) -> np.ndarray:
        """This process's part of an array as large as a weight, or all of it."""
        if not self.in_parts(key, whole.size):
            return whole
        size = self._processes.size
        start, stop = part_of(whole.size, self._processes.rank, size)
        return padded(whole.reshape(-1)[start:stop], whole.size, size)

    def _run(
        self, keys: Sequence[Any], weights: list[np.ndarray], sums: Sequence[Any]
    ) -> list[Any]:
        kept = [self._kept[k] for k in keys]
        numbers, pure = self._numbers_and_update(keys, weights, kept)
        states = [leaf for k in kept for leaf in k.leaves]
        given = [numbers, *weights, *sums]
        shapes = tuple((x.shape, x.dtype) for x in (*given, *states))
        name = shapes, pure
        with jax.enable_x64(True):
            run = self._programs.get(name)
            if run is None:
                run = self._programs[name] = _compile(
                    functools.partial(pure), shapes, len(given), self._home
                )
            start = time.time_ns()
            out = run(*jax.device_put(given, self._home), *states)
        self._has_run(keys, kept, out[len(keys) :], start)
        return [np.asarray(new) for new in out[: len(keys)]]

    def _share_part(self, key: Any, weight: np.ndarray, part: np.ndarray, device: Any) -> None:
        """See to it that the states of this process's part are there, and no others."""
        if key in self._kept:
            return
        self._home = self._home or device
        cut = self.in_parts(key, weight.size)
        made = key not in self.states
        if made:
            own = ndarray._wrap(core.concrete(core.place(part, self._home), shared=True))
            self.states[key] = self.optimizer.create_state_multi_precision(key, own)
        leaves: list[jax.Array] = []
        cuts: list[bool] = []

        def put(leaf: Any) -> int:
            mine = cut and leaf.shape == (part.shape if made else weight.shape)
            array = memory.on_device(leaf._value())
            if mine and not made:
                array = self._part(key, np.asarray(array))
            with jax.enable_x64(True):
                # A copy: programs write over their states, and nothing else may lie in that memory.
                leaves.append(jax.device_put(np.asarray(array), self._home, may_alias=False))
            cuts.append(mine)
            return len(leaves) - 1

        form = mapped(put, self.states.pop(key))
        self.unsynced.discard(key)
        self._kept[key] = Kept(tuple(leaves), tuple(cuts), form, weight.shape, (self._home,), cut)

    # ---- whole states --------------------------------------------------------------------------------------

    def _collected(self, key: Any, kept: Kept) -> Any:
        return wholes(kept, self._collect_leaves(key, kept))

    def _collect_leaves(self, key: Any, kept: Kept) -> list[np.ndarray]:
        """The leaves of a weight's states, the cut ones put together from all ranks."""
        leaves = [np.asarray(leaf) for leaf in kept.leaves]
        if any(kept.cut):
            parts = [leaf for leaf, cut in zip(leaves, kept.cut, strict=True) if cut]
            operation = Operation("collecting the optimizer's states", self._store, key)
            found = iter(self._processes.collect(operation, parts))
            leaves = [next(found) if c else leaf for leaf, c in zip(leaves, kept.cut, strict=True)]
        return leaves

    def give_states(self) -> None:
        """Do what `get_states` on another rank needs from this one, and keep nothing of it."""
        for key, kept in self._kept.items():
            self._collect_leaves(key, kept)

    def set_states(self, states: bytes) -> None:
        super().set_states(states)
        self._in_parts.clear()

    def keep_parts(self, weights: Mapping[Any, np.ndarray], device: Any) -> None:
        """Let go of what of loaded states other processes keep, for these weights."""
        for key in [k for k in self.states if k in weights]:
            whole = weights[key]
            self._share_part(key, whole, self._part(key, whole), device)


def refuse_strange(
    states: Mapping[Any, Any], optimizer: Optimizer, shapes: Mapping[Any, tuple[tuple[int, ...], Any]],
    awaited: Iterable[Any],
) -> None:  # fmt: skip
    """Refuse states that do not fit a store's weights.

    Args:
      states: by key.
      optimizer: whose they are.
      shapes: of the weights: shape and dtype by key.
      awaited: keys that will be known to the store.

    Raises:
      ValueError: there is no such key, or its states are of other shapes.
    """
    for index, state in states.items():
        for key in index if isinstance(index, tuple) else (index,):
            if key not in shapes and key not in awaited:
                raise MXNetValueError(
                    f"there are states of key {key!r}, which this kvstore does not have; its keys: "
                    f"{', '.join(map(repr, shapes)) or 'none'}"
                )
        if index not in shapes or optimizer.rule_fn is None:
            continue
        like = jax.ShapeDtypeStruct(*shapes[index])
        expected = [s.shape for s in jax.eval_shape(optimizer.init, like)]
        if optimizer.has_master_copy(like):
            expected.insert(0, like.shape)
        found = [leaf.shape for leaf in flatten(state)]
        if found != expected:
            raise MXNetValueError(
                f"the states of key {index!r} have the shapes {found}; {type(optimizer).__name__} of a weight of "
                f"shape {like.shape} has {expected}"
            )


def _compile(step: Any, shapes: Sequence[Any], donated_from: int, device: Any) -> Any:
    here = jax.sharding.SingleDeviceSharding(device)
    step.__name__ = "kvstore_update"
    compiled, _ = compile_function(
        step,
        [jax.ShapeDtypeStruct(shape, dtype, sharding=here) for shape, dtype in shapes],
        donate=tuple(range(donated_from, len(shapes))),
        device=device,
        out_shardings=here,
        name="kvstore_update",
        reason="new weights to update in parts",
    )
    return compiled
