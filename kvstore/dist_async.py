"""The asynchronous store: servers hold the values, and every push changes them at once.

No worker waits for another.  A pull gives what the server has at that moment: the worker's own pushes are in it,
of the others' those that have arrived.  The optimizer runs in the servers (`_server.py`), which Ray keeps
(`_ray.py`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from mxjax import core, errors, settings
from mxjax.array.ndarray import NDArray
from mxjax.core import Value
from mxjax.files.atomic import read_whole, write_whole
from mxjax.launch import cluster, group
from mxjax.optimizer import Updater

from . import _ray
from ._compression import Packer, Settings, as_words
from ._gather import Gathered, Request
from ._key_placement import Part, Place, Shards, joined, parted
from ._outbox import Answer, Outbox, Servers
from ._processes import Operation, on_host, processes
from ._row_sparse import dense_value, device_of
from ._server import NUMBERS, described
from .dist import _value
from .store import KVStore, hand

__all__ = ["AsyncKVStore"]


class Workers(Protocol):
    """The workers of a job, as the store sees them."""

    rank: int
    size: int

    def agree(self, what: str, about: Any) -> None:
        """Wait until all have come here with the same."""

    def ended(self) -> bool:
        """Whether one of them is missing."""


class _Job:
    """The ranks of this process's job."""

    def __init__(self) -> None:
        self.processes = processes()
        self.rank, self.size = self.processes.rank, self.processes.size
        self.number = self.processes.stores
        self.processes.stores += 1

    def agree(self, what: str, about: Any) -> None:
        self.processes.all([Operation(what, self.number, about)])

    def ended(self) -> bool:
        return group.join().broken

    def servers(self) -> Servers:
        text = settings.env("DMLC_NUM_SERVER") or "0"
        if not text.isdigit():
            raise errors.MXNetValueError(f"DMLC_NUM_SERVER={text!r}: expected a number")
        return _ray.RayServers(self.processes, self.number, max(1, int(text)))


class _Held(NamedTuple):
    """What a worker knows of a key (`_Entry.array` of other stores): no value."""

    array: Place
    shape: tuple[int, ...]


class AsyncKVStore(KVStore):
    """Values by key on servers, which run the optimizer at every push of every worker; made by `create`.

    The servers are processes of Ray on this machine (``python -m mxjax.launch -n 4 -s 2 script.py``: two), or on
    those of the cluster that RAY_ADDRESS names.

    Args:
      name: ``'dist_async'``.
      workers, servers: of this process's job, unless others are given.

    Raises:
      ImportError: Ray is not installed.
      MXNetError: the process belongs to no job.

    >>> from mxjax.kvstore._outbox import LocalServers
    >>> import mxjax as mx
    >>> kv = AsyncKVStore(workers=Alone(), servers=LocalServers(2))
    >>> kv.init("w", mx.np.ones(3))
    >>> kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    >>> kv.push("w", mx.np.ones(3))
    >>> out = mx.np.zeros(3)
    >>> kv.pull("w", out=out); out.tolist()
    [0.5, 0.5, 0.5]
    """

    def __init__(
        self,
        name: str = "dist_async",
        workers: Workers | None = None,
        servers: Servers | None = None,
    ) -> None:
        super().__init__(name)
        if workers is None:
            cluster.require()
            job = _Job()
            workers, servers = job, job.servers()
            # Ray's own end, which came with its import, is after this one.
            atexit.register(self._leave)
        assert servers is not None
        self._workers = workers
        self._outbox = Outbox(servers)
        self._places: dict[Any, Place] = {}
        self._shards = Shards(servers.count, settings.get("comm.bigarray_bound"))
        self._sent_numbers: dict[str, Any] = {}
        self._packer: Packer | None = None
        self._by_rows: set[Any] = set()

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._workers.rank

    @property
    def num_workers(self) -> int:
        """How many processes the job has."""
        return self._workers.size

    def barrier(self) -> None:
        """Wait until the servers have done what this worker asked for, then until all workers have come here.

        Raises:
          MXNetError: a rank or a server is missing, or something of what was pushed has failed.
        """
        self._outbox.settle()
        self._workers.agree("barrier", None)

    _barrier = barrier

    # ---- values --------------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Give keys their first values, rank 0's; each key once, on all workers in the same order.

        Raises:
          MXNetError: a key has one already, or another worker gives others.
        """
        pairs = [(k, arrays[0]) for k, arrays in self._new(key, value)]
        for k, array in pairs:
            place = self._shards.add(array.shape, np.dtype(array.dtype))
            self._places[k], self._entries[k] = place, _Held(place, place.shape)  # type: ignore[assignment]
            if self.rank == 0:
                numbers = on_host(array._value())
                for part, piece in zip(place.parts, place.split(numbers), strict=True):
                    self._outbox.post(
                        part.server, ("init", k, np.array(piece)), piece.nbytes, asked=False
                    )
        self._outbox.settle()
        what = tuple(
            (k, p.shape, str(p.dtype), p.parts) for k, p in ((k, self._places[k]) for k, _ in pairs)
        )
        self._workers.agree("init", what)

    def row_sparse_pull(
        self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None
    ) -> None:
        """`KVStore.row_sparse_pull`; only the asked rows travel.

        From then on this worker sends of gradients of the key only the rows that are not zero, where these are few.
        """
        waiting = []
        for k, o, i in self._rows_asked(key, out, row_ids):
            place = self._places[k]
            self._by_rows.add(k)
            ids = np.unique(on_host(i._value()).astype(np.int64))
            ids = ids[(ids >= 0) & (ids < (place.shape[0] if place.shape else 0))]
            parts = [
                self._outbox.post(part.server, ("rows", k, local), 0)
                for part, local in zip(place.parts, place.local(ids), strict=True)
            ]
            waiting.append((place, o, ids, parts))
        for place, o, ids, parts in waiting:
            whole = np.zeros(place.shape, place.dtype)
            whole[ids] = place.join([p.get() for p in parts])
            o._assign(_value(whole, device_of(o)))

    def _push(self, groups: dict[Any, list[NDArray]], priority: int) -> None:
        self._send_numbers()
        messages: dict[int, tuple[list[Any], list[Any], int]] = {}
        for key, arrays in groups.items():
            place = self._places[key]
            for part, piece, nbytes in self._pieces(key, place, self._summed(arrays)):
                keys, pieces, total = messages.get(part.server, ([], [], 0))
                keys.append(key)
                pieces.append(piece)
                messages[part.server] = keys, pieces, total + nbytes
        for server, (keys, pieces, total) in messages.items():
            self._outbox.post(server, ("push", keys, pieces), total, asked=False)

    def _summed(self, arrays: list[NDArray]) -> Value:
        values = [dense_value(a) for a in arrays]
        return values[0] if len(values) == 1 else self._devices.all_reduce([values])[0][0]

    def _pieces(self, key: Any, place: Place, value: Value) -> list[tuple[Part, Any, int]]:
        """What each server is sent of a gradient, and how many bytes that is."""
        if self._packer is not None and value.aval.differentiable:
            return _packed_pieces(self._packer, key, place, on_host(value))
        value.shared = True  # nobody writes to its buffer until it is sent
        gradient = on_host(value)
        if key in self._by_rows and gradient.ndim > 1:
            ids = np.flatnonzero(gradient.reshape(len(gradient), -1).any(axis=1))
            if 2 * len(ids) < len(gradient):
                return [
                    (part, ("rows", local, (part.stop - part.start, *place.shape[1:]), piece[local]),
                     local.nbytes + local.size * piece[:1].nbytes)
                    for part, local, piece in zip(place.parts, place.local(ids), place.split(gradient), strict=True)
                ]  # fmt: skip
        return [
            (p, piece, piece.nbytes)
            for p, piece in zip(place.parts, place.split(gradient), strict=True)
        ]

    def _pull(self, pairs: Sequence[tuple[Any, list[NDArray]]], priority: int) -> None:
        answers: dict[Request, list[Answer]] = {}

        def take(requests: Sequence[Request], under: Any) -> list[dict[Any, Value]]:
            found = []
            for r in requests:
                whole = self._places[r.key].join([a.get() for a in answers[r]])
                found.append({device: _value(whole, device) for device in r.results})
            return found

        gathered = Gathered(take)
        for k, outs in pairs:
            place = self._places[k]
            request = Request(k, [], priority)
            answers[request] = [self._outbox.post(p.server, ("pull", k)) for p in place.parts]
            devices = dict.fromkeys(o._value().aval.device for o in outs)
            shapes = {d: core.aval(place.shape, place.dtype, d) for d in devices}
            pending = gathered.add(request, shapes)
            for o in outs:
                hand(o, pending[o._value().aval.device])

    def _end(self) -> None:
        self._outbox.check()

    # ---- updating ------------------------------------------------------------------------------------

    def set_updater(self, updater: Callable[[Any, Any, Any], None] | None) -> None:
        """Refused: the servers are sent no code.

        Raises:
          MXNetError: always.
        """
        raise errors.MXNetError(
            "a 'dist_async' kvstore takes no updater function: its servers are other processes, which are sent no "
            "code. Use set_optimizer() with one of mxjax's optimizers"
        )

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the servers update their values with an optimizer at each push of any worker.

        They get its name and its numbers. The same one from several workers is one; another one takes its place,
        without the states. When its learning rate, weight decay or rescaling change here, the servers hear of it with
        the next push.

        Raises:
          MXNetError: it is not one of mxjax's own.
        """
        text = described(optimizer)
        self._updater = Updater(optimizer)
        self._sent_numbers = _numbers(optimizer)
        for k in range(self._outbox.servers.count):
            self._outbox.post(k, ("optimizer", text), asked=False)

    def _send_numbers(self) -> None:
        if self._updater is None:
            return
        now = _numbers(self._updater.optimizer)
        changed = {
            name: value for name, value in now.items() if value != self._sent_numbers.get(name)
        }
        if changed:
            self._sent_numbers = now
            for k in range(self._outbox.servers.count):
                self._outbox.post(k, ("numbers", json.dumps(changed)), asked=False)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Send gradients compressed, and add what that lost to the next gradient of the key.

        Args:
          compression_params: as for other stores; 2bit sends a sixteenth of the bytes of float32, 1bit half of that.
        """
        self._packer = Packer(Settings.of(compression_params))

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Write the states of all servers to a file, with the optimizer itself if wanted."""
        optimizer = self._running("save")
        asked = [self._outbox.post(k, ("states", True)) for k in range(self._outbox.servers.count)]
        states = joined([a.get() for a in asked], self._places, optimizer, dump_optimizer)
        write_whole(fname, lambda file: file.write(states))

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Read what any store has written, into the servers; by one worker is enough."""
        optimizer = self._running("load")
        states = read_whole(fname)
        parts, revived = parted(states, self._places, optimizer, self._outbox.servers.count)
        for answer in [self._outbox.post(k, ("load", part)) for k, part in enumerate(parts)]:
            answer.get()
        self._updater.optimizer = revived
        self._sent_numbers = _numbers(revived)

    def _running(self, what: str) -> Any:
        if self._updater is None:
            raise errors.MXNetAssertionError(
                f"Cannot {what} states: the kvstore runs no optimizer. Call set_optimizer() first"
            )
        return self._updater.optimizer

    has_servers = True

    def send_command(self, head: int, body: str) -> None:
        """Send a number and a text to all servers: 0 with an optimizer as JSON sets that, 5 is for the profiler
        there, others are logged.

        Raises:
          MXNetError: a server refuses it.
        """
        for answer in [
            self._outbox.post(k, ("command", int(head), str(body)))
            for k in range(self._outbox.servers.count)
        ]:
            answer.get()

    def _leave(self) -> None:
        """All that was pushed arrives; the servers go when the last worker has said that it needs them no more."""
        try:
            self._part()
        except errors.MXNetError as error:
            print(f"mxjax: {error}", file=sys.stderr)
        self._outbox.servers.close()

    def _part(self) -> None:
        outbox, workers = self._outbox, self._workers
        if workers.ended():
            return  # the job is over, and the others say why
        outbox.settle()
        if outbox.post(0, ("leave",)).get() == workers.size or workers.rank:
            return
        while not workers.ended() and outbox.post(0, ("left",)).get() < workers.size:
            time.sleep(0.02)


class Alone:
    """The only worker of a store."""

    rank, size = 0, 1

    def agree(self, what: str, about: Any) -> None: ...

    def ended(self) -> bool:
        return False


def _packed_pieces(
    packer: Packer, key: Any, place: Place, gradient: np.ndarray
) -> list[tuple[Part, Any, int]]:
    """What each server is sent of a compressed gradient, and how many bytes that is."""
    kind, threshold = packer.how
    found: list[tuple[Part, Any, int]] = []
    for part, piece in zip(place.parts, place.split(packer.codes(key, gradient)), strict=True):
        if kind in ("fp16", "bf16"):
            found.append((part, piece, piece.nbytes))
            continue
        words = as_words(piece, kind)
        found.append((part, (kind, threshold, piece.shape, words), words.nbytes))
    return found


def _numbers(optimizer: Any) -> dict[str, Any]:
    return {name: getattr(optimizer, name) for name in NUMBERS}
