"""The synchronous store of several processes: every push is summed over all ranks.

It is the store of one process with four hooks: whose first values count (rank 0's), what is summed
(everything), how (`_processes`), and when it must begin.  There are no servers: every rank holds the
sums; where the store has an optimizer every rank runs it for its part of each big array (`_zero_processes`), and for
all of the small ones with the same result. With `comm.distribute` each key's optimizer runs on one rank alone,
which sends the others the new value.
"""

from __future__ import annotations

import atexit
import copy
import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mxjax import core, settings
from mxjax.array.ndarray import NDArray
from mxjax.core import Value
from mxjax.errors import MXNetError, MXNetNotImplementedError
from mxjax.files.atomic import read_whole, write_whole
from mxjax.launch.keeper import TEXT
from mxjax.optimizer import Optax, saving
from mxjax.optimizer.optimizer import flatten

from ._byte_gather import worthwhile
from ._compression import Packer, Settings, unpacked
from ._gather import Request
from ._processes import Operation, Processes, Update, on_host, processes
from ._zero_processes import PartUpdater, refuse_strange
from .store import HYPERPARAMETERS, KVStore

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

    _again = False

    def __init__(self, name: str = "dist_sync") -> None:
        super().__init__(name)
        self._processes: Processes = processes()
        self._updates: list[tuple[Any, dict[Any, Value]]] = []
        self._awaited: frozenset[Any] = frozenset()  # keys that a Trainer will give values later
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

        Of big arrays (``comm.bigarray_bound``) each process updates a part, and keeps the optimizer's states of
        that part alone.

        Raises:
          MXNetError: the ranks have different optimizers.
          TypeError: it is no `mx.optimizer.Optimizer`.
        """
        self._check_optimizer(optimizer)
        self._agree("set_optimizer", _in_words(optimizer))
        self.set_updater(PartUpdater(optimizer, self._processes, self._number))

    #: All ranks have to call `save_optimizer_states`.
    saves_together = True

    def expect(self, keys: Iterable[Any]) -> None:
        self._awaited = frozenset(keys)

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Write the states of whole weights to a file, with the optimizer itself if wanted: rank 0 does.

        Every rank makes the call, because each has parts of the states. They load at any number of processes, and in
        stores of one process.

        Raises:
          OSError: rank 0 cannot write the file; what was there stays. Other ranks get an MXNetError.
          MXNetError: the ranks do not all make this call, or one of them is missing.
        """
        get = self._states_of("save")
        self._agree("save_optimizer_states, which all ranks have to call,", None)
        if self._serving:
            self._collect_served()
        failure: Exception | None = None
        if self.rank == 0:
            states = get(dump_optimizer)
            try:
                write_whole(fname, lambda file: file.write(states))
            except OSError as error:
                failure = error
        elif isinstance(self._updater, PartUpdater):
            self._updater.give_states()
        if self._serving:
            self._forget_served()
        self._all_well(f"save the optimizer's states to {os.fspath(fname)!r}", failure)

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Read what `save_optimizer_states` of any store wrote, or MXNet; nothing in the file is executed.

        Every rank makes the call and reads the file. Where one of them cannot, all keep the states they have.

        Raises:
          OSError, ValueError: this rank cannot read the file, or its states do not fit the store's keys.
          MXNetError: another rank cannot, or it read another file.
        """
        self._states_of("load")
        self._agree("load_optimizer_states, which all ranks have to call,", None)
        failure: Exception | None = None
        states, summary = b"", ""
        try:
            states = read_whole(fname)
            summary = hashlib.sha256(states).hexdigest()
            self._refuse_strange(states)
        except (OSError, ValueError, MXNetError) as error:
            failure = error
        what = f"load the optimizer's states from {os.fspath(fname)!r}"
        self._all_well(what, failure, summary)
        self._updater.set_states(states)
        if self._serving:
            self._forget_served()
        elif isinstance(self._updater, PartUpdater) and self._updater.can_share:
            weights = {k: on_host(e.array._value()) for k, e in self._entries.items()}
            if weights:
                self._updater.keep_parts(weights, self._home())

    def _refuse_strange(self, states: bytes) -> None:
        """Refuse states that do not fit, without a change of anything."""
        scratch = copy.copy(self._updater.optimizer)
        scratch.lr_scheduler = copy.copy(scratch.lr_scheduler)
        found, optimizer = saving.loads(states, scratch)
        shapes = {k: (e.shape, np.dtype(e.array.dtype)) for k, e in self._entries.items()}
        refuse_strange(found, optimizer, shapes, self._awaited)

    def _all_well(self, what: str, failure: Exception | None, summary: str = "") -> None:
        """Tell the others whether this rank could do something, and how that ended; an error if one could not."""
        text = "" if failure is None else f"{type(failure).__name__}: {failure}"
        said = json.dumps([text[: TEXT // 4], summary], ensure_ascii=False)
        told = [json.loads(t) for t in self._processes.tell(said)]
        if failure is not None:
            raise failure
        bad = [f"rank {r}: {t}" for r, (t, _) in enumerate(told) if t]
        if bad:
            raise MXNetError(f"not all ranks could {what}, so none has. {'; '.join(bad)}")
        groups: dict[str, list[int]] = {}
        for r, (_, s) in enumerate(told):
            groups.setdefault(s, []).append(r)
        if len(groups) > 1:
            raise MXNetError(
                f"the ranks would {what}, but the files differ: "
                + "; ".join(
                    f"SHA-256 {s[:12]}... on rank {', '.join(map(str, r))}"
                    for s, r in groups.items()
                )
            )

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
        self._processes.all([Operation(what, self._number, None, about=about)])

    def _spread(self, groups: dict[Any, list[NDArray]]) -> bool:
        return True  # over the processes

    def _home(self) -> Any:
        """The device of this process that updates."""
        return core.physical(next(iter(self._entries.values())).array._value().aval.device)

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
        self._processes.gathers(self._number, self)
        super()._push(groups, priority)
        # An optimizer needs the first sum at once: only now are all keys of the call gathered.
        updates, self._updates = self._updates, []
        shared = self._serving and isinstance(self._updater, PartUpdater)
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

    def _collect_served(self) -> None:
        """Bring the states that each rank alone has to all ranks."""
        updater = self._updater
        if isinstance(updater.optimizer, Optax):
            raise MXNetNotImplementedError(
                "the states of an optax transformation are not saved where comm.distribute shares updates out"
            )
        for key, entry in self._entries.items():
            if key not in updater.states:  # another rank's: made for its shapes
                updater.states[key] = updater.optimizer.create_state_multi_precision(
                    key, entry.array
                )
            leaves = flatten(updater.states[key])
            operations = [
                Operation(
                    "init", self._number, (key, n), on_host(x._value()), root=self._servers[key]
                )
                for n, x in enumerate(leaves)
            ]
            for leaf, found in zip(leaves, self._processes.all(operations), strict=True):
                leaf._assign(_value(found, leaf._value().aval.device))

    def _forget_served(self) -> None:
        """Let go of states that another rank keeps."""
        states = self._updater.states
        for key in [k for k in states if self._servers.get(k, self.rank) != self.rank]:
            del states[key]

    def _own(self, requests: Sequence[Request]) -> list[list[Value]]:
        """Of each request the sum over this process's devices, on each of them."""
        if all(len(r.values) == 1 for r in requests):
            return [r.values for r in requests]  # there is nothing to sum within this process
        return [list(sums.values()) for sums in super()._reduce(requests)]

    def _reduce(self, requests: Sequence[Request]) -> list[dict[Any, Value]]:
        own = self._own(requests)
        order = _in_order(requests)
        operations = [self._operation(requests[k], on_host(own[k][0])) for k in order]
        results: list[dict[Any, Value]] = [{} for _ in requests]
        for k, total in zip(order, self._processes.all(operations), strict=True):
            for v in requests[k].values:
                results[k][v.aval.device] = _value(total, v.aval.device)
        return results

    def _operation(
        self, request: Request, gradient: np.ndarray, kind: str = "push", about: Any = None
    ) -> Operation:
        packed = None
        if self._packer is not None and request.values[0].aval.differentiable:
            packed = self._packer.pack(request.key, gradient)
            if not worthwhile(self.num_workers, packed.words.nbytes, gradient.nbytes):
                gradient, packed = unpacked(packed.how, [packed.words], gradient), None
        return Operation(
            kind, self._number, request.key, gradient, request.priority, packed=packed, about=about
        )

    def _shares(self) -> bool:
        updater = self._updater
        return isinstance(updater, PartUpdater) and updater.can_share and not self._serving

    def _updated(self, requests: Sequence[Request]) -> list[dict[Any, Value]]:
        updater, optimizer, home = self._updater, self._updater.optimizer, self._home()
        own, order = self._own(requests), _in_order(requests)
        about = ", ".join(f"{name}={getattr(optimizer, name)}" for name in HYPERPARAMETERS)
        old = [on_host(next(iter(r.old.values()))) for r in requests]
        operations = []
        for k in order:
            key, gradient = requests[k].key, on_host(own[k][0])
            kind = "update in parts" if updater.in_parts(key, gradient.size) else "update"
            operations.append(self._operation(requests[k], gradient, kind, about))

        def update(first: int, sums: list[Any]) -> Update:
            mine = order[first : first + len(sums)]
            return updater.update_parts(
                home, [requests[k].key for k in mine], [old[k] for k in mine], sums
            )

        results: list[dict[Any, Value]] = [{} for _ in requests]
        for k, new in zip(order, self._processes.all(operations, update), strict=True):
            whole = new[: old[k].size].reshape(old[k].shape) if new.shape != old[k].shape else new
            for device in requests[k].old:
                results[k][device] = _value(whole, device)
        return results


def _in_order(requests: Sequence[Request]) -> list[int]:
    """The requests in the order of the calls, which is the same on all ranks.

    The order of priorities within what one of them has gathered need not be.
    """
    return sorted(range(len(requests)), key=lambda k: requests[k].index)


def _value(result: Any, device: Any) -> Value:
    """A sum as a value on a device."""
    if isinstance(result, np.ndarray) and result.dtype.itemsize < 8:
        return core.host(result, device)  # the next program takes it as it is
    return core.placed(result, device, shared=True)


def _end(store: weakref.ref[DistKVStore]) -> None:
    found = store()
    if found is not None:
        found._end()


def _in_words(optimizer: Any) -> str:
    """An optimizer in words: its class, its numbers, its schedule."""
    described = saving.describe(optimizer)
    numbers = {
        name: value for name, value in sorted(described["attrs"].items()) if value is not None
    }
    for name in ("lr_mult", "wd_mult", "lr_scheduler"):
        if described[name]:
            numbers[name] = described[name]
    return f"{described['class']} {json.dumps(numbers, default=str)}"
