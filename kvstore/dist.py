"""The synchronous store of several processes: every push is summed over all ranks.

It is the store of one process with four hooks: whose first values count (rank 0's), what is summed
(everything), how (`_processes`), and when it must begin.  There are no servers: every rank holds the
sums, and runs the optimizer where the store has one, with the same result; with `comm.distribute` each
key's optimizer runs on one rank alone, which sends the others the new value.
"""

from __future__ import annotations

import atexit
import json
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import core, settings
from mxjax.array.ndarray import NDArray
from mxjax.core import Value

from ._compression import Packer, Settings, unpacked
from ._gather import Request
from ._processes import Operation, Processes, on_host, processes
from ._words import worthwhile
from ._zero import ShardedUpdater
from .store import KVStore

__all__ = ["DistKVStore"]


class DistKVStore(KVStore):
    """Values by key, summed over the devices of all processes of a job; made by `create`.

    Every rank makes the same calls in the same order.  They are compared before anything is sent, and
    a rank that reads a result earlier than the others waits for them.

    Args:
      name: ``'dist_sync'``, ``'dist_device_sync'``, ``'dist_sync_device'``, ``'dist'`` (one and the same
        here) or ``'p3'``, in which priorities order what is sent together; all send in pieces of 4 MB.

    Raises:
      MXNetError: the process belongs to no job, or its JAX runs already without knowing of the others.
    """

    def __init__(self, name: str = "dist_sync") -> None:
        super().__init__(name)
        self._processes: Processes = processes()
        self._updates: list[tuple[Any, dict[Any, Value]]] = []
        # Whether ranks share the updates out, as servers of parameters do; then who updates each key.
        self._serving = settings.get("comm.distribute") is not None
        self._servers: dict[Any, int] = {}
        self._elements = [0] * self._processes.size
        self._packer: Packer | None = None
        self._number = self._processes.stores
        self._processes.stores += 1
        # What a script pushed and never looked at takes place all the same: other ranks may wait for it.
        atexit.register(_end, weakref.ref(self))

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._processes.rank

    @property
    def num_workers(self) -> int:
        """How many processes the job has."""
        return self._processes.size

    def barrier(self) -> None:
        """Run what was gathered, and wait until all ranks have come here.

        Raises:
          MXNetError: a rank is missing, or makes another call.
        """
        self._agree("barrier", None)

    _barrier = barrier

    def set_optimizer(self, optimizer: Any) -> None:
        """Let an optimizer update the stored values at each push; the same one on every rank.

        Raises:
          MXNetError: the ranks have different optimizers.
        """
        self._agree("set_optimizer", _numbers_of(optimizer))
        super().set_optimizer(optimizer)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Send gradients compressed, and add what that lost to this process's next gradient of the key.

        What the devices of a process push is summed first, as MXNet's stores of several processes do.

        Args:
          compression_params: as for other stores, the same on every rank; of float32 2bit sends 1/16 of the bytes,
            1bit 1/32, fp16 and bf16 1/2.

        Raises:
          MXNetError: the parameters are not allowed, or another rank has others.
        """
        wanted = Settings.of(compression_params)
        self._agree("set_gradient_compression", wanted)
        self._packer = Packer(wanted)

    def _agree(self, what: str, about: Any) -> None:
        self._end()
        self._processes.all([Operation(what, self._number, about)])

    # ---- hooks -----------------------------------------------------------------------------------------

    def _first(self, keys: list[Any], arrays: list[NDArray]) -> list[NDArray]:
        self._end()
        operations = [
            Operation("init", self._number, k, on_host(a._value()))
            for k, a in zip(keys, arrays, strict=True)
        ]
        found = self._processes.all(operations)
        for k, a in zip(keys, arrays, strict=True):
            self._servers[k] = self._least(int(a.size))
        return [
            type(a)._wrap(_value(result, a._value().aval.device))
            for a, result in zip(arrays, found, strict=True)
        ]

    def _push(self, groups: dict[Any, list[NDArray]], priority: int) -> None:
        super()._push(groups, priority)
        # An optimizer needs the first sum at once: only now are all keys of the call gathered.
        updates, self._updates = self._updates, []
        shared = self._serving and isinstance(self._updater, ShardedUpdater)
        if shared and updates:
            self._end()  # ranks with nothing to update sum with the others all the same
        for key, sums in updates:
            if not shared or self._servers[key] == self.rank:
                super()._store(key, sums)
        if shared:
            self._serve([key for key, _ in updates])

    def _least(self, size: int) -> int:
        """The rank with the fewest elements to update; it gets these too. The same on all ranks."""
        rank = self._elements.index(min(self._elements))
        self._elements[rank] += size
        return rank

    def _serve(self, keys: list[Any]) -> None:
        """Give every rank the new values of these keys, from the ranks that updated them."""
        arrays = [self._entries[k].array for k in keys]
        operations = [
            Operation("init", self._number, k, on_host(a._value()), root=self._servers[k])
            for k, a in zip(keys, arrays, strict=True)
        ]
        for a, result in zip(arrays, self._processes.all(operations), strict=True):
            a._assign(_value(result, a._value().aval.device))

    def _store(self, key: Any, sums: dict[Any, Value]) -> None:
        if self._updater is None:
            super()._store(key, sums)
        else:
            self._updates.append((key, sums))

    def _needs_sum(self, values: list[Value]) -> bool:
        return True

    def _reduce(self, requests: Sequence[Request]) -> list[dict[Any, Value]]:
        if all(len(r.values) == 1 for r in requests):
            own = [r.values for r in requests]  # there is nothing to sum within this process
        else:
            own = [list(sums.values()) for sums in super()._reduce(requests)]
        # The order of the calls is the same on all ranks; the order of priorities within what one of
        # them has gathered need not be.
        order = sorted(range(len(requests)), key=lambda k: requests[k].index)
        operations = [self._operation(requests[k], on_host(own[k][0])) for k in order]
        results: list[dict[Any, Value]] = [{} for _ in requests]
        for k, total in zip(order, self._processes.all(operations), strict=True):
            for v in own[k]:
                results[k][v.aval.device] = _value(total, v.aval.device)
        return results


    def _operation(self, request: Request, gradient: np.ndarray) -> Operation:
        packed = None
        if self._packer is not None and request.values[0].aval.differentiable:
            packed = self._packer.pack(request.key, gradient)
            if not worthwhile(self.num_workers, packed.words.nbytes, gradient.nbytes):
                gradient, packed = unpacked(packed.how, [packed.words], gradient), None
        return Operation("push", self._number, request.key, gradient, request.priority, packed=packed)


def _value(result: Any, device: Any) -> Value:
    """A sum as a value on a device."""
    if isinstance(result, np.ndarray) and result.dtype.itemsize < 8:
        return core.host(result, device)  # the next program takes it as it is
    array = core.place(result, device)
    return core.concrete(array, shared=True, of=core.aval_of(array))


def _end(store: weakref.ref[DistKVStore]) -> None:
    found = store()
    if found is not None:
        found._end()


def _numbers_of(optimizer: Any) -> str:
    """An optimizer in words: its class and its numbers."""
    numbers = {
        name: value
        for name, value in sorted(vars(optimizer).items())
        if isinstance(value, bool | int | float | str)
    }
    return f"{type(optimizer).__name__} {json.dumps(numbers)}"
