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
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mxjax import core, settings
from mxjax.launch import group
from mxjax.launch.keeper import MARK

from ._compression import Packed, unpacked
from ._host import Pool, aligned
from ._machine import LONGEST, Machine
from ._pieces import Pieces
from ._words import Words

_AXIS = "processes"


class Operation(NamedTuple):
    """One thing that all ranks do together.

    Attributes:
      kind: ``"push"`` (a sum), ``"init"`` (what `root` has), or a word for an agreement without data.
      store: the number of the store.
      key: the key.
      array: the array of this rank, or None.
      priority: what comes first among operations of one batch.
      root: of an init: the rank whose numbers count.
      packed: of a sum: the array as it travels.
    """

    kind: str
    store: int
    key: Any
    array: Any = None
    priority: int = 0
    root: int = 0
    packed: Packed | None = None

    def __str__(self) -> str:
        what = f"{self.kind} of key {self.key!r}"
        if self.array is not None:
            what += f" (shape {tuple(self.array.shape)}, {self.array.dtype})"
        if self.packed is not None:
            what += f" compressed with {self.packed.how}"
        return what if self.store == 0 else f"{what} in kvstore number {self.store}"

    @property
    def mark(self) -> str:
        """A hash that is the same on ranks that do the same."""
        of = None if self.array is None else (self.array.shape, self.array.dtype)
        how = None if self.packed is None else self.packed.how
        return _mark(self.kind, self.store, self.key, of, self.priority, how)


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
        self.batches = 0  #: how many times operations ran together
        self.programs = 0  #: how many sums of one piece (on CPUs) or program that took
        self.bytes = 0  #: of what this process gave to these sums, as it travels

    def all(self, operations: Sequence[Operation]) -> list[Any]:
        """Do these operations, in this order, together with the same ones on all other ranks.

        Returns:
          for each with an array the resulting one: of NumPy on CPUs, else of JAX.

        Raises:
          GroupBroken: the other ranks do something else next, or one of them is missing.
        """
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
                    results += self._member.run(
                        functools.partial(self._exchange, batch), str(batch[0]), patience
                    )
                    self.batches += 1
                else:
                    results += [None] * count
                self._done += count
        return results

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
        if self._words is None:
            self._words = Words(self._mesh, self._device, self._machine)
        rows = self._words.gather(mine, self.size)
        return [
            unpacked(o.packed.how, list(r), o.array)
            for o, r in zip(batch, rows, strict=True)
            if o.packed is not None
        ]

    def _find_devices(self) -> None:
        """One device of each process, the first; on CPUs of each machine's first process."""
        first: dict[int, Any] = {}
        for device in jax.devices():
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
            for k, total in zip(members, self._sums([flats[k] for k in members]), strict=True):
                results[k] = self._shaped(batch[k], total)
        return results

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
        return (flat != 0 if dtype.kind == "b" else flat).reshape(shape)

    def _sums(self, flats: list[np.ndarray]) -> list[np.ndarray]:
        """The sums of arrays of one dtype, in the same bits on all processes."""
        machine = self._machine
        between = self._between if len(machine.leaders) > 1 else None
        pieces = Pieces(flats, machine.piece, self._pool)
        self.programs += pieces.count
        if len(machine.ranks) > 1:
            machine.sum(pieces.count, pieces.fill, pieces.take, between)
        else:
            for k in range(pieces.count):
                piece = pieces.given(k, self._scratch)
                pieces.take(k, piece if between is None else between(piece))
        return pieces.sums()

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
            sums = self._reduce([a.reshape(-1) for a in given])
            self.programs += 1
            return [s.reshape(o.array.shape) for o, s in zip(batch, sums, strict=True)]

    def _reduce(self, arrays: list[Any]) -> list[Any]:
        shapes = tuple((a.size, str(a.dtype)) for a in arrays)
        sharding = NamedSharding(self._mesh, PartitionSpec(_AXIS))
        program = self._programs.get(shapes)
        if program is None:
            program = self._programs[shapes] = self._compiled(len(arrays))
        whole = [
            jax.make_array_from_single_device_arrays((self._mesh.size * a.size,), sharding, [a])
            for a in arrays
        ]
        sums = program(*whole)
        return [s.addressable_data(0).block_until_ready() for s in sums]

    def _compiled(self, count: int) -> Any:
        def total(*local: Any) -> Any:
            return jax.lax.psum(local, _AXIS)

        spec = PartitionSpec(_AXIS)
        return jax.jit(
            jax.shard_map(
                total, mesh=self._mesh, in_specs=(spec,) * count,
                out_specs=(PartitionSpec(),) * count, check_vma=False,
            )
        )  # fmt: skip


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
