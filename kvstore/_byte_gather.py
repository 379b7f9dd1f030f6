"""All-gather of bytes between processes: how packed gradients and the new parts of weights travel.

Sums of packed gradients cannot be packed, so each process is sent the packed ones of all others and adds them up by
itself. Within a machine they lie in the memory that its processes share; between machines the first process of
each gathers them for its machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ._machine import LONGEST, SHORT, Machine, Rows

#: Programs gather multiples of so many bytes, so that few programs serve all sizes.
UNIT = 4096


def worthwhile(processes: int, packed: int, plain: int) -> bool:
    """Whether sending everybody's packed bytes to everybody is less than summing the plain ones.

    A ring of n processes sends each of them 2 (n - 1) / n of the plain bytes, and here n - 1 packed arrays.

    >>> [n for n in range(2, 99) if worthwhile(n, 2, 32)][-1]
    32
    """
    return processes * packed <= 2 * plain


class Words:
    """The exchange of bytes between the processes of a job.

    Args:
      mesh: one device of each process that sends to others.
      device: the one of this process.
      machine: how the processes of a machine share memory; None where each of them sends by itself.
    """

    def __init__(self, mesh: Mesh, device: Any, machine: Machine | None) -> None:
        self._mesh = mesh
        self._device = device
        self._machine = machine

    def gather(self, arrays: Sequence[np.ndarray], processes: int) -> list[np.ndarray]:
        """What all processes have of each array of bytes: the ranks by the bytes.

        Args:
          arrays: flat, `uint8`, of the same sizes on all processes.
        """
        mine = np.concatenate(arrays)
        found = np.empty((processes, mine.size), np.uint8)

        def put(rank: int, start: int, piece: np.ndarray) -> None:
            found[rank, start : start + piece.size] = piece

        self.hand_out(mine, put)
        ends = np.cumsum([a.size for a in arrays])[:-1]
        return np.split(found, ends, axis=1)

    def hand_out(self, mine: np.ndarray, put: Callable[[int, int, np.ndarray], None]) -> None:
        """Give all processes what each of them has: as many bytes on all.

        Args:
          mine: the bytes of this process.
          put: gets a rank, a place among its bytes and those from there on, in memory that is used again.
        """
        if self._machine is None:
            for rank, row in enumerate(self._between([mine], 1)):
                put(rank, 0, row)
        else:
            self._by_machines(self._machine, mine, put)

    def _by_machines(
        self, machine: Machine, mine: np.ndarray, put: Callable[[int, int, np.ndarray], None]
    ) -> None:
        several = len(machine.groups) > 1
        rows = len(machine.groups) * machine.crowd
        step = LONGEST // rows // UNIT * UNIT if several else SHORT
        assert step, "so many processes sum what they have: `worthwhile`"
        # The row of each rank among those of `between`; on one machine there is one for each of its processes.
        places = [
            (g * machine.crowd + p, r)
            for g, ranks in enumerate(machine.groups)
            for p, r in enumerate(ranks)
        ]

        def take(start: int, parts: Rows) -> None:
            for row, rank in places:
                put(rank, start, parts[row])

        def between(parts: Rows) -> np.ndarray:
            return self._between(parts, machine.crowd)

        if len(machine.ranks) > 1:
            machine.exchange(mine, step, take, between if several else None)
            return
        for start in range(0, mine.size, step):
            piece = mine[start : start + step]
            take(start, between([piece]) if several else [piece])

    def _between(self, parts: Rows, crowd: int) -> np.ndarray:
        """The rows of all devices of the mesh; from each as many as the largest machine has processes."""
        size = parts[0].size
        width = -(-size // UNIT) * UNIT
        mine = np.zeros((crowd, width), np.uint8)
        for row, part in zip(mine, parts, strict=False):  # a smaller machine has fewer
            row[:size] = part
        sharding = NamedSharding(self._mesh, PartitionSpec(self._mesh.axis_names[0]))
        whole = jax.make_array_from_single_device_arrays(
            (self._mesh.size * crowd, width), sharding, [jax.device_put(mine, self._device)]
        )
        rows = _gathered(self._mesh)(whole).addressable_data(0)
        return np.asarray(rows)[:, :size]


@functools.cache
def _gathered(mesh: Mesh) -> Any:
    (axis,) = mesh.axis_names

    def gather(rows: jax.Array) -> jax.Array:
        return jax.lax.all_gather(rows, axis, tiled=True)

    return jax.jit(
        jax.shard_map(
            gather,
            mesh=mesh,
            in_specs=PartitionSpec(axis),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )
