"""Offloading: what the backward pass needs waits in the host's memory instead of the device's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxjax.core import SCALAR

from .mirror import Cuts
from .parts import Arranged, Offloaded, Part, last_uses, refuse_without_host_memory, unit

if TYPE_CHECKING:
    from mxjax.core import Graph

SMALLEST = 1 << 16  # bytes: below, a transfer of its own costs more than the memory is worth


class Offload(Arranged):
    """The residuals that :class:`Mirror` keeps, in pinned host memory until the backward pass comes there.

    Results of convolutions, matrix products, concatenations and random bits, and what crosses from part to
    part, travel to the host as soon as they are computed; cheap results are computed again.

    Between a forward and a backward program they are off the device. Inside one program the compiler decides
    when they travel: `memonger.measure` tells whether that needs less than mirroring (see README.md).

    Args:
      smallest: results of fewer bytes stay on the device.

    Raises (when a graph is lowered):
      DeviceError: on CPUs, where it would save nothing, and on backends without pinned host memory.

    Source: host offloading of XLA for GPU and TPU, through
    ``jax.checkpoint_policies.save_and_offload_only_these_names``.

    >>> import mxjax as mx
    >>> mx.memonger.policy("offload")
    memonger.policy('offload')
    """

    def __init__(self, smallest: int = SMALLEST) -> None:
        super().__init__(self._parts, ("offload", smallest))
        self._smallest = smallest

    def _parts(self, graph: Graph) -> list[Part]:
        refuse_without_host_memory(graph.avals[0].device)
        return parts(graph, self._smallest)

    def __repr__(self) -> str:
        return "memonger.policy('offload')"


def parts(graph: Graph, smallest: int = SMALLEST) -> list[Part]:
    """The graph cut as for mirroring, with what each part keeps and takes sent to the host."""
    steps, cuts = graph.steps, Cuts(graph)
    last = last_uses(steps, graph.outputs)
    size = {s.first + k: a.nbytes for s in steps for k, a in enumerate(s.avals)}
    found = []
    start = 0
    for stop in cuts(0, len(steps)):
        part = unit(steps, start, stop, last)
        # What a part gives is kept, and so offloaded, by the part that takes it.
        kept = [s for s, keeps in zip(part.steps, cuts.keeps[start:stop], strict=True) if keeps]
        own = {k for s in kept for k in range(s.first, s.first + len(s.avals))}
        wanted = own.difference(part.gives).union(i for i in part.takes if 0 <= i < SCALAR)
        far = frozenset(k for k in wanted if size[k] >= smallest)
        found.append(Part(stop, Offloaded(far, frozenset(wanted) - far)))
        start = stop
    return found
