"""The store of one process: keys, their values, and how they are summed and updated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mxjax import core, errors
from mxjax.array.ndarray import NDArray
from mxjax.core import Value
from mxjax.files.atomic import read_whole, write_whole
from mxjax.optimizer import Optimizer, Updater

from ._collective import ADD, Devices, moved
from ._compression import Compressor, Settings
from ._gather import LIMIT, Gathered, Request, alias, is_gathered
from ._keys import check_shapes, paired, urgency
from ._row_sparse import asked, check_target, dense_targets, dense_value, device_of, give, pushed
from ._zero_devices import ShardedUpdater
from .base import KVStoreBase

# What is as it was when a gradient was pushed, whenever the update runs.
HYPERPARAMETERS = "lr", "wd", "rescale_grad"


class _Entry:
    """A key's array, and the same value on the devices where it is already."""

    __slots__ = ("array", "copies", "shape")

    def __init__(self, array: NDArray):
        self.array = array
        self.shape = array.shape
        self.copies: dict[Any, Value] = {}

    def on(self, device: Any) -> Value:
        """The value on a device."""
        value = dense_value(self.array)
        home = self.copies.get(value.aval.device)
        if home is not value:  # it was written to since
            self.copies = {value.aval.device: value}
        found = self.copies.get(device)
        if found is None:
            found = self.copies[device] = moved(value, device)
        return found

    def put(self, sums: dict[Any, Value]) -> None:
        """Replace the value by one that is known on several devices."""
        home = device_of(self.array)
        value = sums.get(home) or moved(next(iter(sums.values())), home)
        hand(self.array, value)
        self.copies = {**sums, home: dense_value(self.array)}


def _keys_as_bytes(updater: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    def update(key: Any, summed: Any, stored: Any) -> None:
        updater(key.encode() if isinstance(key, str) else key, summed, stored)

    return update


class KVStore(KVStoreBase):
    """Values by key, summed over the devices of this process; made by `create`.

    Keys are all integers or all strings; lists of keys go with lists of what belongs to each. Sums
    are gathered: all that were asked for run as one program when somebody needs a result of one of them.

    A store of several processes overrides the hooks: `_first` (whose first values count), `_needs_sum`, `_reduce` (sums
    what was gathered), `_shares`, `_updated` (shares the optimizer out; its weights), `_full` (when that must begin).

    Args:
      name: what kind of store it is, as `create` takes it: "local" or "device".
    """

    def __init__(self, name: str = "local"):
        self._name = name
        self._entries: dict[Any, _Entry] = {}
        self._key_type: type | None = None
        self._updater: Any = None
        self._gathered: Gathered | None = None
        self._compressor: Compressor | None = None
        self._devices = Devices(name)

    # ---- what it is ----------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        return self._name

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do something: it can run an ``'optimizer'``.

        Raises:
          ValueError: for anything else.
        """
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise errors.MXNetValueError(
            f"Unknown capability: {capability}; kvstores are asked for 'optimizer'"
        )

    # ---- values --------------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Give keys their first values, which are copied; each key once."""
        pairs = self._new(key, value)
        firsts = self._first([k for k, _ in pairs], [values[0] for _, values in pairs])
        for (k, _), first in zip(pairs, firsts, strict=True):
            self._entries[k] = _Entry(first.copy())

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum a key's values (one array, or one per device); the sum replaces the stored value, or
        goes to the updater if there is one.

        Args:
          priority: of what is gathered, larger ones come first in the program.
        """
        self._push(self._merged(paired(key, value, "value")), urgency(priority))

    def pull(
        self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
    ) -> None:
        """Write the stored value of each key to one array or to several; to sparse ones unless `ignore_sparse`."""
        if out is None:
            raise errors.MXNetAssertionError("pull needs out=: the array (or arrays) to write to")
        pairs = self._checked(paired(key, out, "out"))
        self._pull(dense_targets(pairs) if ignore_sparse else pairs, priority)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` to `out`, which defaults to the pushed arrays themselves."""
        pairs = list(paired(key, value, "value"))
        targets = self._checked(pairs if out is None else paired(key, out, "out"))
        self._push(self._merged(pairs), urgency(priority))
        self._pull(targets, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`; neither where one of them cannot be."""
        shapes = {k: values[0].shape for k, values in self._new(key, value)}
        if out is None:
            raise errors.MXNetAssertionError(
                "broadcast needs out=: the array (or arrays) to write to"
            )
        for k, outs in paired(key, out, "out"):
            check_shapes(k, shapes[k], outs)
        self.init(key, value)
        self.pull(key, out=out, priority=priority)

    def row_sparse_pull(
        self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None
    ) -> None:
        """Write the rows with the numbers in `row_ids` to `out`, a row_sparse array (or one per device).

        An array of mx.np, which has no sparse ones, gets zeros in all other rows.

        Args:
          row_ids: integers in any order, an array for all of a key's outs or one for each; numbers
            that no row has are left out.

        >>> import mxjax as mx
        >>> kv = mx.kvstore.create()
        >>> kv.init("w", mx.np.ones((3, 2)))
        >>> out = mx.np.zeros((3, 2))
        >>> kv.row_sparse_pull("w", out=out, row_ids=mx.np.array([2, 0, 2])); out[:, 0].tolist()
        [1.0, 0.0, 1.0]
        """
        for k, o, i in self._rows_asked(key, out, row_ids):
            asked(self._entries[k], o, i)

    def _rows_asked(
        self, key: Any, out: Any, row_ids: Any
    ) -> Iterator[tuple[Any, NDArray, NDArray]]:
        """Each key, array to write to, and numbers of rows of a `row_sparse_pull`."""
        if out is None or row_ids is None:
            raise errors.MXNetAssertionError("row_sparse_pull needs out= and row_ids=")
        pairs = self._checked(paired(key, out, "out"))
        many = isinstance(key, (list, tuple))
        if many and isinstance(row_ids, NDArray):
            row_ids = [row_ids] * len(key)
        wanted = list(paired(key, row_ids, "row_ids"))
        for (k, outs), (_, ids) in zip(pairs, wanted, strict=True):
            if not self._entries[k].shape:
                raise errors.MXNetValueError(
                    f"key {k!r} holds a single number, which has no rows: use pull()"
                )
            for o in outs:
                check_target(k, o)
            if len(ids) not in (1, len(outs)):
                raise errors.MXNetAssertionError(
                    f"the number of row_ids ({len(ids)}) of key {k!r} doesn't match the number of "
                    f"values ({len(outs)})"
                )
            for o, i in zip(outs, ids * len(outs) if len(ids) == 1 else ids, strict=True):
                yield k, o, i

    # ---- hooks of stores of several processes -----------------------------------------------------------

    def _first(self, keys: list[Any], arrays: list[NDArray]) -> list[NDArray]:
        """The first values of keys: here the given ones, between processes those of rank 0."""
        return arrays

    def _needs_sum(self, values: list[Value]) -> bool:
        """Whether a push of these values takes a collective program."""
        return len(values) > 1 or self._compressor is not None

    def _reduce(self, requests: Sequence[Request]) -> list[dict[Any, Value]]:
        """The sum of each request's values, on each of their devices.

        Called once for everything gathered, in an order that depends on the calls alone.
        """
        groups = [self._compressed(r) for r in requests]
        self._devices.priority = max((r.priority for r in requests), default=0)
        sums = self._devices.all_reduce(groups)
        return [
            {v.aval.device: s for v, s in zip(group, total, strict=True)}
            for group, total in zip(groups, sums, strict=True)
        ]

    def _compressed(self, request: Request) -> list[Value]:
        """What arrives of a request's values."""
        if self._compressor is None:
            return request.values
        through = self._compressor.through
        return [through(request.key, k, v) for k, v in enumerate(request.values)]

    _again = True  # whether sums that Ctrl-C broke off may be begun once more

    def _full(self, gathered: Gathered) -> bool:
        """Whether what is gathered must begin now."""
        return gathered.bytes >= LIMIT

    # ---- pushing and pulling ----------------------------------------------------------------------------

    def _new(self, key: Any, value: Any) -> list[tuple[Any, list[NDArray]]]:
        """Keys that have no value yet, with what is given for each."""
        pairs = list(paired(key, value, "value"))
        given: set[Any] = set()
        for k, _ in pairs:
            self._check_type(k)
            if k in self._entries or k in given:
                raise errors.MXNetError(
                    f"duplicate init of key {k}. Please double check if you called kv.init or "
                    "kv.broadcast with this key twice"
                )
            given.add(k)
        return pairs

    def _merged(self, pairs: Iterable[tuple[Any, list[NDArray]]]) -> dict[Any, list[NDArray]]:
        """The arrays of each key; a key given twice in one call counts as one."""
        merged: dict[Any, list[NDArray]] = {}
        for k, arrays in self._checked(pairs):
            if k in merged:
                merged[k].extend(arrays)
            else:
                merged[k] = arrays
        return merged

    def _checked(
        self, pairs: Iterable[tuple[Any, list[NDArray]]]
    ) -> Sequence[tuple[Any, list[NDArray]]]:
        found = pairs if isinstance(pairs, tuple) else list(pairs)
        for k, arrays in found:
            self._check(k, arrays)
        return found

    def _push(self, groups: dict[Any, list[NDArray]], priority: int) -> None:
        shares = self._shares() and self._spread(groups)
        under = self._hyperparameters() if shares else None
        if self._gathered is not None and self._gathered.under != under:
            self._end()
        for key, given in groups.items():
            arrays = pushed(self, key, given)
            if arrays is None:
                continue
            values = [a._value() for a in arrays]
            self._end_of(key)  # what was pushed before comes first
            if not self._needs_sum(values):
                self._store(key, {values[0].aval.device: values[0]})
                continue
            if self._gathered is None:
                self._gathered = Gathered(self._work, under, self._again)
            request = Request(key, values, priority)
            if shares:
                entry = self._entries[key]
                request.old = {v.aval.device: entry.on(v.aval.device) for v in values}
                shapes = {d: v.aval for d, v in request.old.items()}
                self._gathered.update(entry, request, shapes)
            else:
                shapes = {v.aval.device: v.aval.on(None) for v in values}
                self._store(key, self._gathered.add(request, shapes))
            if self._full(self._gathered):
                self._end()

    def _work(self, requests: Sequence[Request], under: Any) -> list[dict[Any, Value]]:
        """Everything gathered, at once."""
        return self._reduce(requests) if under is None else self._update(requests, under)

    @property
    def sums_rows(self) -> bool:
        """Whether row_sparse arrays are summed as such: not between processes, and not compressed."""
        return (
            self._compressor is None
            and type(self)._push is KVStore._push
            and type(self)._reduce is KVStore._reduce
        )

    def _shares(self) -> bool:
        """Whether sums go to an optimizer that is shared out."""
        if not isinstance(self._updater, ShardedUpdater) or not self._updater.can_share:
            return False
        return (
            type(self)._reduce is KVStore._reduce
        )  # a store with sums of its own updates what they give

    def _spread(self, groups: dict[Any, list[NDArray]]) -> bool:
        """Whether what is pushed lies on several physical devices, between which the optimizer may be shared out."""
        places = {core.physical(device_of(a)) for arrays in groups.values() for a in arrays}
        return len(places) > 1

    def _hyperparameters(self) -> tuple[Any, ...]:
        """What an update gathered now must be done with, whatever changes until then."""
        optimizer = self._updater.optimizer
        return tuple(getattr(optimizer, name) for name in HYPERPARAMETERS)

    def _update(self, requests: Sequence[Request], under: Any) -> list[dict[Any, Value]]:
        """The new weights of each request, on each of its devices."""
        optimizer = self._updater.optimizer
        now = self._hyperparameters()
        try:
            _set(optimizer, under)
            return self._updated(requests)
        finally:
            _set(optimizer, now)

    def _updated(self, requests: Sequence[Request]) -> list[dict[Any, Value]]:
        """The same, while the optimizer has the numbers that count."""
        groups: dict[tuple[Any, ...], list[Request]] = {}
        for request in requests:
            if not request.new:  # those that have one were updated before this was broken off
                groups.setdefault(tuple(request.old), []).append(request)
        for names, members in groups.items():
            self._update_group(names, members)
        return [request.new for request in requests]

    @core.shielded  # counts, states and weights are of the same update
    def _update_group(self, names: tuple[Any, ...], requests: Sequence[Request]) -> None:
        of = [core.physical(d) for d in names]
        devices = tuple(dict.fromkeys(of))
        weights = [[moved(r.old[names[of.index(d)]], d) for d in devices] for r in requests]
        grads = [_per_device(self._compressed(r), devices) for r in requests]
        new = self._updater.update(devices, [r.key for r in requests], weights, grads)
        for request, row in zip(requests, new, strict=True):
            for v in row if len(devices) < len(names) else ():
                v.shared = True  # several names get it
            at = dict(zip(devices, row, strict=True))
            request.new = {name: at[d] for name, d in zip(names, of, strict=True)}

    def _store(self, key: Any, sums: dict[Any, Value]) -> None:
        """Make a sum, known on these devices, the key's value, or give it to the updater."""
        entry = self._entries[key]
        if self._updater is None:
            entry.put(sums)
        else:
            stored = entry.array
            home = device_of(stored)
            mine = sums.get(home) or moved(next(iter(sums.values())), home)
            self._updater(key, type(stored)._wrap(mine), stored)

    def _pull(self, pairs: Sequence[tuple[Any, list[NDArray]]], priority: int) -> None:
        for k, outs in pairs:
            entry = self._entries[k]
            for o in outs:
                if not give(entry, o):
                    hand(o, entry.on(o._value().aval.device))

    gathers = True

    def pushpull_all(self, keys: Sequence[Any], values: Sequence[Any], outs: Sequence[Any]) -> None:
        if type(self).pushpull is not KVStore.pushpull:  # a user's, which need not take lists
            super().pushpull_all(keys, values, outs)
        elif keys:
            self.pushpull(
                list(keys), list(values), out=list(outs)
            )  # one call: one collective program

    def flush(self) -> None:
        self._end()

    def _end(self) -> None:
        """Run what was gathered."""
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.run()

    def _end_of(self, key: Any) -> None:
        """Run what was gathered if the key is part of it, and begin anew where that has run."""
        if self._gathered is not None and (self._gathered.closed or key in self._gathered.keys):
            self._end()

    # ---- updating ------------------------------------------------------------------------------------

    def set_updater(self, updater: Callable[[Any, Any, Any], None] | None) -> None:
        """Call ``updater(key, summed, stored)`` at each push; it changes the stored array in place. None: no more.

        Raises:
          TypeError: it cannot be called.
        """
        if updater is not None and not callable(updater):
            raise errors.MXNetTypeError(
                f"an updater is a function of (key, summed, stored), got {updater!r}"
            )
        self._end()
        self._updater = updater

    def _set_updater(self, updater: Callable[[Any, Any, Any], None]) -> None:
        """`set_updater` as programs of MXNet call it: a function of theirs gets keys that are texts as bytes."""
        own = callable(updater) and not isinstance(updater, Updater)
        self.set_updater(_keys_as_bytes(updater) if own else updater)

    def set_optimizer(self, optimizer: Any) -> None:
        """Let an optimizer update the stored values at each push.

        Pushed from several devices, big arrays (``comm.bigarray_bound``) are updated in parts: each device
        keeps the optimizer's states of its part alone.

        Raises:
          TypeError: it is no `mx.optimizer.Optimizer`.
        """
        self._check_optimizer(optimizer)
        self.set_updater(ShardedUpdater(optimizer))

    def _check_optimizer(self, optimizer: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            name = repr(optimizer) if isinstance(optimizer, str) else "'sgd'"
            raise errors.MXNetTypeError(
                f"set_optimizer takes an mx.optimizer.Optimizer, got {optimizer!r}: make one by "
                f"mx.optimizer.create({name}, ...)"
            )

    def get_optimizer(self) -> Any:
        """The optimizer that updates the weights here, which loading states may have replaced; or None."""
        return getattr(self._updater, "optimizer", None)

    def place(self, where: str) -> None:
        """Let the optimizer's states, present and future, live in ``device`` or ``pinned_host`` memory.

        Raises:
          MXNetError: the store runs no optimizer.
          ValueError: another memory.
          DeviceError: the backend cannot reach it.
        """
        if not hasattr(self._updater, "place"):
            raise self._runs_none("place")
        self._updater.place(where)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Compress what each device sends, and add what that lost to its next gradient.

        Args:
          compression_params: ``{'type': '2bit', 'threshold': 0.5}``: each element becomes +threshold,
            -threshold or 0; ``'1bit'``: +1 above the threshold, else -1; ``'fp16'`` and ``'bf16'``, which
            MXNet does not have: rounded to 16 bits.

        Raises:
          MXNetError: the store is of the type ``local`` or ``nccl``, or the parameters are not allowed.
          TypeError: the parameters are no dict.
        """
        wanted = Settings.of(compression_params)
        if "device" not in self._name and "dist" not in self._name:
            raise errors.MXNetError(
                "Gradient compression is not supported for this type of kvstore: use 'device', or "
                "'dist_sync' between processes"
            )
        self._end()
        self._compressor = Compressor(wanted)

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Write the optimizer's states to a file, with the optimizer itself if wanted; all of it or nothing."""
        states = self._states_of("save")(dump_optimizer)
        write_whole(fname, lambda file: file.write(states))

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Read what `save_optimizer_states` wrote; nothing in the file is executed."""
        self._states_of("load")
        self._updater.set_states(read_whole(fname))

    def _states_of(self, what: str) -> Any:
        self._end()
        if not hasattr(self._updater, "get_states"):
            raise self._runs_none(what)
        return self._updater.get_states

    def _runs_none(self, what: str) -> Exception:
        return errors.MXNetAssertionError(
            f"Cannot {what} states: the kvstore runs no optimizer. Call set_optimizer() first"
        )

    def barrier(self) -> None:
        """Run what was gathered, and wait for all workers: there is one."""
        self._end()

    _barrier = barrier

    #: Whether there are servers, which `send_command` tells something.
    has_servers = False

    def send_command(self, head: int, body: str) -> None:
        """Send a command to the servers: a store of one process has none, and does nothing (as MXNet's)."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        self.send_command(head, body)

    # ---- checks --------------------------------------------------------------------------------------

    def _check_type(self, key: Any) -> None:
        kind = str if isinstance(key, str) else int
        if self._key_type is None:
            self._key_type = kind
        elif kind is not self._key_type:
            raise errors.MXNetError(
                f"Mixed key types are not allowed: key {key!r} in a kvstore whose keys are of type "
                f"{self._key_type.__name__}"
            )

    def _check(self, key: Any, arrays: Sequence[NDArray]) -> None:
        entry = self._entries.get(key)
        if entry is None:
            raise errors.MXNetError(
                f"key {key} has not been inited: call init({key!r}, value) first"
            )
        check_shapes(key, entry.shape, arrays)


def hand(array: NDArray, v: Value) -> None:
    """Store a value in an array of the user; a parameter takes it without a copy or a wait."""
    mine, var = array._v, array._var
    simple = mine is not None and v.aval is mine.aval and v.tape is None
    if simple and var is None:
        array._v = v
        return
    if var is None or not simple or core.local.st.taping or not (v.seg is None or is_gathered(v)):
        array._assign(v)
        return
    twin = alias(v)
    if var.req != "null":
        twin.tape, twin.out = var, 0
    array._v = twin


def _per_device(values: Sequence[Value], devices: Sequence[Any]) -> list[Value]:
    """One value for each physical device: the sum of those that lie there."""
    found: dict[Any, Value] = {}
    for v in values:
        device = core.physical(v.aval.device)
        v = moved(v, device)
        found[device] = core.record2(ADD, found[device], v) if device in found else v
    return [found[d] for d in devices]


def _set(optimizer: Any, values: tuple[Any, ...] | None) -> None:
    for name, value in zip(HYPERPARAMETERS, values or (), strict=True):
        setattr(optimizer, name, value)
