"""Collectives between processes: one stream of operations, the same on all ranks.

Every operation has a number and a mark, a hash of what it is (kind, store, key, shape, dtype,
priority).  Before data are sent, the job's keeper compares the marks of all ranks: as many operations as
are the same everywhere run, together; where the next ones differ, every rank gets an error that names
both.  So a rank may ask for results earlier than the others (it waits for them), and sums of different
keys are never mixed.

On CPUs the arrays of one batch are laid end to end and summed in pieces: over the processes of one
machine in memory that they share (`_machine`), between machines by gloo, one program at a time: gloo takes
as long for a list of small arrays as for very large ones, and two programs under way at once block each
other.  Elsewhere a batch is one compiled program over a list.
"""

from __future__ import annotations

import functools
import hashlib
import platform as host
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import core, settings
from mxjax.errors import MXNetError
from mxjax.launch import group
from mxjax.launch.keeper import MARK, TEXT

from ._byte_gather import Words
from ._compression import Packed, unpacked
from ._host import Pool, aligned
from ._machine import LONGEST, Machine
from ._packing import Parts, Pieces

_AXIS = "processes"


class Operation(NamedTuple):
    """One thing that all ranks do together.

    Attributes:
      kind: ``"push"`` and ``"update"`` (a sum), ``"update in parts"`` (this rank's part of a sum, see
        `part_of`), ``"init"`` (what `root` has), or a word for an agreement without data.
      store: the number of the store.
      key: the key.
      array: the array of this rank, or None.
      priority: what comes first among operations of one batch.
      root: of an init: the rank whose numbers count.
      about: what else must be the same on all ranks.
      packed: of a sum: the array as it travels.
    """

    kind: str
    store: int
    key: Any
    array: Any = None
    priority: int = 0
    root: int = 0
    about: Any = None
    packed: Packed | None = None

    def __str__(self) -> str:
        what = self.kind if self.key is None else f"{self.kind} of key {self.key!r}"
        if self.array is not None:
            what += f" (shape {tuple(self.array.shape)}, {self.array.dtype})"
        if self.packed is not None:
            what += f" compressed with {self.packed.how}"
        if self.about is not None:
            what += f" with {self.about}"
        return what if self.store == 0 else f"{what} in kvstore number {self.store}"

    @property
    def mark(self) -> str:
        """A hash that is the same on ranks that do the same."""
        of = None if self.array is None else (self.array.shape, self.array.dtype)
        how = None if self.packed is None else self.packed.how
        return _mark(self.kind, self.store, self.key, of, self.priority, how, self.about)

    @property
    def in_parts(self) -> bool:
        """Whether this rank gets a part of the sum alone."""
        return self.kind == "update in parts"


class Update(NamedTuple):
    """What has become of sums: new values, or the old ones and why."""

    values: Sequence[Any]
    failure: Exception | None = None


@functools.lru_cache(maxsize=1 << 16)
def _mark(*what: Any) -> str:
    return hashlib.blake2b(repr(what).encode(), digest_size=MARK // 2).hexdigest()


class Processes:
    """The processes of this job as a collective; one of it per process (`processes`)."""

    def __init__(self) -> None:
        self._member = group.join()
        self.rank, self.size = self._member.rank, self._member.size
        self._done = 0
        self._lock = threading.Lock()
        self._programs: dict[Any, Any] = {}
        self._device: Any = None
        self._mesh: Any = None
        self._machine: Any = None
        self._words: Words | None = None
        self._pool = Pool()
        self._scratch = aligned(LONGEST, np.dtype(np.uint8))
        self.stores = 0
        self._gathering: weakref.ref[Any] | None = None
        self.batches = 0  #: how many times operations ran together
        self.programs = 0  #: how many sums of one piece (on CPUs) or program that took
        self.bytes = 0  #: of what this process gave to these sums, as it travels

    def all(
        self,
        operations: Sequence[Operation],
        update: Callable[[int, list[Any]], Update] | None = None,
    ) -> list[Any]:
        """Do these operations, in this order, together with the same ones on all other ranks.

        Args:
          update: makes new values of the sums of each batch that ran together; it gets the number of its first
            operation, and the sums. Where an operation is in parts, so are its sum and its new value.

        Returns:
          for each with an array the resulting one: of NumPy on CPUs, else of JAX; of an operation in parts the
          whole of all ranks' new parts, of one dimension, padded at its end.

        Raises:
          GroupBroken: the other ranks do something else next, or one of them is missing.
          MXNetError: another rank could not update its parts.
        """
        self.gathers(operations[0].store if operations else None)
        results: list[Any] = []
        patience = settings.get("timeout.collective")
        exchange = core.span("collective", "kvstore: exchange", operations=len(operations))
        with self._lock, exchange:
            while len(results) < len(operations):
                rest = operations[len(results) :]
                first = self._done

                def describe(index: int, rest: Any = rest, first: int = first) -> str:
                    return str(rest[index - first])

                count = self._member.agree(first, [o.mark for o in rest], describe, patience)
                batch = rest[:count]
                if any(o.array is not None for o in batch):
                    found = self._member.run(
                        functools.partial(self._exchange, batch), str(batch[0]), patience
                    )
                    if update is not None:
                        found = self._updated(batch, update(len(results), found), patience)
                    results += found
                    self.batches += 1
                else:
                    results += [None] * count
                self._done += count
        return results

    def _updated(self, batch: Sequence[Operation], update: Update, patience: float) -> list[Any]:
        """The new values of a batch, whole."""
        found = list(update.values)
        parts = [k for k, o in enumerate(batch) if o.in_parts]
        if parts:
            # The others wait for this rank's parts, whatever has happened here.
            given = [np.ravel(found[k]) for k in parts]
            given.append(np.array([update.failure is not None]))
            *wholes, failed = self._member.run(
                functools.partial(self._gather, given), f"{batch[parts[0]]}, its parts", patience
            )
            for k, whole in zip(parts, wholes, strict=True):
                found[k] = whole
            if update.failure is None and failed.any():
                ranks = ", ".join(map(str, np.flatnonzero(failed)))
                raise MXNetError(
                    f"rank {ranks} could not update its part of {batch[parts[0]]}: its own error says why"
                )
        if update.failure is not None:
            raise update.failure
        return found

    def gathers(self, number: int | None, store: Any = None) -> None:
        """Run what another store than that of this number has gathered; `store` gathers from now on.

        So the operations of all stores are in the order of the calls, whatever is read first on a rank.
        """
        before = None if self._gathering is None else self._gathering()
        if before is not None and before._number != number:
            self._gathering = None
            before._end()
        if store is not None:
            self._gathering = weakref.ref(store)

    def tell(self, text: str) -> list[str]:
        """What all ranks tell each other, in the order of the ranks; all have agreed to do so.

        Args:
          text: what is longer than the keeper takes is cut off.
        """
        with self._lock:
            return self._member.tell(text[:TEXT])

    def collect(self, operation: Operation, parts: Sequence[np.ndarray]) -> list[Any]:
        """The wholes of arrays of one dimension of which every rank has a part of the same size."""
        self.gathers(operation.store)
        patience = settings.get("timeout.collective")
        with self._lock:
            self._member.agree(self._done, [operation.mark], lambda index: str(operation), patience)
            self._done += 1
            return self._member.run(
                functools.partial(self._gather, list(parts)), str(operation), patience
            )

    def _exchange(self, batch: Sequence[Operation]) -> list[Any]:
        if self._mesh is None:
            self._find_devices()
        found: list[Any] = [None] * len(batch)
        order = sorted(range(len(batch)), key=lambda k: -batch[k].priority)
        packed = [k for k in order if batch[k].packed is not None]
        for k, result in zip(packed, self._unpacked([batch[k] for k in packed]), strict=True):
            found[k] = result
        given = [k for k in order if batch[k].array is not None and batch[k].packed is None]
        self.bytes += sum(batch[k].array.nbytes for k in given)
        on_host = self._device.platform == "cpu"
        exchange = self._through_host if on_host else self._on_devices
        for k, result in zip(given, exchange([batch[k] for k in given]), strict=True):
            found[k] = result
        return found

    def _unpacked(self, batch: Sequence[Operation]) -> list[np.ndarray]:
        """Sums of what travels packed."""
        mine = [o.packed.words for o in batch if o.packed is not None]
        self.bytes += sum(w.size for w in mine)
        if not mine:
            return []
        rows = self._all_words().gather(mine, self.size)
        return [
            unpacked(o.packed.how, list(r), o.array)
            for o, r in zip(batch, rows, strict=True)
            if o.packed is not None
        ]

    def _find_devices(self) -> None:
        """One device of each process, the first; on CPUs of each machine's first process.

        Where two processes have one card it is CPUs: NCCL takes a card once.
        """
        first: dict[int, Any] = {}
        cards = self._member.tell(_card_of(jax.local_devices()[0]))
        for device in jax.devices() if len(set(cards)) == len(cards) else jax.devices("cpu"):
            if device.process_index not in first or device.id < first[device.process_index].id:
                first[device.process_index] = device
        self._device = first[jax.process_index()]
        taking_part: Sequence[int] = range(self.size)
        if self._device.platform == "cpu":
            self._machine = Machine(self._member, settings.get("comm.shared_memory"))
            taking_part = self._machine.leaders
        # JAX numbers processes as the job does: both were told the rank.
        devices = np.array([first[r] for r in taking_part])
        self._mesh = Mesh(devices, (_AXIS,), axis_types=(jax.sharding.AxisType.Auto,))

    # ---- through the host's memory -------------------------------------------------------------------

    def _through_host(self, batch: Sequence[Operation]) -> list[np.ndarray]:
        """Sums of NumPy arrays, laid end to end by dtype."""
        results: list[Any] = [None] * len(batch)
        together: dict[np.dtype, list[int]] = {}
        flats = [self._flat(o) for o in batch]
        for k, flat in enumerate(flats):
            together.setdefault(flat.dtype, []).append(k)
        for members in together.values():
            wanted = None
            if any(batch[k].in_parts for k in members):
                wanted = [self._wanted(batch[k], flats[k]) for k in members]
            for k, total in zip(
                members, self._sums([flats[k] for k in members], wanted), strict=True
            ):
                results[k] = self._shaped(batch[k], total)
        return results

    def _wanted(self, operation: Operation, flat: np.ndarray) -> tuple[int, int]:
        return part_of(flat.size, self.rank, self.size) if operation.in_parts else (0, flat.size)

    def _flat(self, operation: Operation) -> np.ndarray:
        flat = operation.array.reshape(-1)  # a copy where it is not contiguous
        if operation.kind == "init":
            # The bits of one rank, to which all others add nothing: every number arrives as it was.
            flat = flat.view(np.uint8)
            whole = np.zeros(-(-flat.size // 4) * 4, np.uint8)
            if self.rank == operation.root:
                whole[: flat.size] = flat
            return whole.view(np.uint32)
        return flat.view(np.uint8) if flat.dtype.kind == "b" else flat

    def _shaped(self, operation: Operation, flat: np.ndarray) -> np.ndarray:
        shape, dtype = operation.array.shape, operation.array.dtype
        if operation.kind == "init":
            return flat.view(np.uint8)[: operation.array.nbytes].view(dtype).reshape(shape)
        flat = flat != 0 if dtype.kind == "b" else flat
        return (
            padded(flat, operation.array.size, self.size)
            if operation.in_parts
            else flat.reshape(shape)
        )

    def _sums(
        self, flats: list[np.ndarray], wanted: list[tuple[int, int]] | None
    ) -> list[np.ndarray]:
        """The sums of arrays of one dtype, or what is wanted of them, in the same bits on all processes."""
        machine = self._machine
        between = self._between if len(machine.leaders) > 1 else None
        pieces = Pieces(flats, machine.piece, self._pool, wanted)
        self.programs += pieces.count
        if len(machine.ranks) > 1:
            machine.sum(pieces.count, pieces.fill, pieces.take, between)
        else:
            for k in range(pieces.count):
                piece = pieces.given(k, self._scratch)
                pieces.take(k, piece if between is None else between(piece))
        return pieces.sums()

    def _gather(self, parts: list[np.ndarray]) -> list[Any]:
        """The wholes of arrays of which every process has a part."""
        if self._mesh is None:
            self._find_devices()
        given = Parts(parts, self.size, self._pool)
        self._all_words().hand_out(given.mine, given.put)
        self.bytes += given.mine.size
        self.programs += 1
        return given.wholes()

    def _all_words(self) -> Words:
        if self._words is None:
            self._words = Words(self._mesh, self._device, self._machine)
        return self._words

    def _between(self, piece: np.ndarray) -> np.ndarray:
        """The sum of a piece over the machines; only their leaders have a part in it."""
        rest = piece.size
        if _rounded(rest) != rest:
            padded = aligned(_rounded(rest), piece.dtype)
            padded[:rest], padded[rest:] = piece, 0
            piece = padded
        with jax.enable_x64(True):
            return np.asarray(self._reduce([jax.device_put(piece, self._device)])[0])[:rest]

    # ---- on the devices ------------------------------------------------------------------------------

    def _on_devices(self, batch: Sequence[Operation]) -> list[Any]:
        """Sums of JAX arrays, as one program over a list."""
        with jax.enable_x64(True):
            arrays = [jax.device_put(o.array, self._device) for o in batch]
            given = [
                a * 0 if o.kind == "init" and self.rank != o.root else a
                for o, a in zip(batch, arrays, strict=True)
            ]
            flats = [
                jnp.pad(a.reshape(-1), (0, -a.size % self.size)) if o.in_parts else a.reshape(-1)
                for o, a in zip(batch, given, strict=True)
            ]
            sums = self._reduce(flats, [o.in_parts for o in batch])
            self.programs += 1
            return [
                s if o.in_parts else s.reshape(o.array.shape)
                for o, s in zip(batch, sums, strict=True)
            ]

    def _reduce(self, arrays: list[Any], in_parts: Sequence[bool] | None = None) -> list[Any]:
        """Sums, or this process's parts of sums, as one program."""
        in_parts = in_parts or [False] * len(arrays)
        shapes = tuple((a.size, str(a.dtype), p) for a, p in zip(arrays, in_parts, strict=True))
        sharding = NamedSharding(self._mesh, PartitionSpec(_AXIS))
        program = self._programs.get(shapes)
        if program is None:
            program = self._programs[shapes] = self._compiled(in_parts)
        whole = [
            jax.make_array_from_single_device_arrays((self._mesh.size * a.size,), sharding, [a])
            for a in arrays
        ]
        sums = program(*whole)
        return [s.addressable_data(0).block_until_ready() for s in sums]

    def _compiled(self, in_parts: Sequence[bool]) -> Any:
        def total(*local: Any) -> Any:
            whole = iter(
                jax.lax.psum([x for x, p in zip(local, in_parts, strict=True) if not p], _AXIS)
            )
            return tuple(
                jax.lax.psum_scatter(x, _AXIS, tiled=True) if p else next(whole)
                for x, p in zip(local, in_parts, strict=True)
            )

        cut, kept = PartitionSpec(_AXIS), PartitionSpec()
        return jax.jit(
            jax.shard_map(
                total, mesh=self._mesh, in_specs=(cut,) * len(in_parts),
                out_specs=tuple(cut if p else kept for p in in_parts), check_vma=False,
            )
        )  # fmt: skip


def _card_of(device: Any) -> str:
    """A name of the physical device, which two processes of one machine have for the same one; a CPU is nobody's."""
    own = getattr(device, "local_hardware_id", None)
    if device.platform == "cpu" or own is None:
        return f"process {device.process_index}"
    visible = settings.env("CUDA_VISIBLE_DEVICES")
    name = (
        visible.split(",")[own].strip() if visible and own < len(visible.split(",")) else str(own)
    )
    return f"{host.node()} {name}"


def part_of(size: int, rank: int, count: int) -> tuple[int, int]:
    """Which of so many elements are a rank's part: from, to. All but the last parts are of one size."""
    step = -(-size // count)
    return min(rank * step, size), min((rank + 1) * step, size)


def padded(part: np.ndarray, size: int, count: int) -> np.ndarray:
    """A part with zeros behind it where it is one of the last, so that all are of one size."""
    missing = -(-size // count) - part.size
    return np.pad(part, (0, missing)) if missing else part


def _rounded(size: int) -> int:
    """A size at least as large with three leading bits: so few programs serve all sizes."""
    unit = 1 << max(8, size.bit_length() - 3)
    return -(-size // unit) * unit


_only: Processes | None = None
_only_lock = threading.Lock()


def processes() -> Processes:
    """The job's processes; joins the job at the first call."""
    global _only
    with _only_lock:
        if _only is None:
            _only = Processes()
    return _only


def on_host(value: core.Value) -> np.ndarray:
    """The numbers of a value that is computed, without a copy where it lies in the host's memory."""
    array = value.arr if value.seg is None else None
    return array if type(array) is np.ndarray else np.asarray(core.memory.on_device(value))
