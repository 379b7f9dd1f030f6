"""New shapes of a hybridized block that has been recorded for others: the first call with one runs imperatively.

A sentence that grows by a word at each call, a cache that grows, windows of changing length: most of their shapes never
come back. To record a graph for each takes some three times as long as to run the forward, whose operators have one
trace for all lengths (`core/interpret/symbolic.py`). So a shape is recorded when it comes for the second time, once
there are graphs for two others, and where graphs run operator by operator at first anyhow (`core/run/cold.py`): those
of large networks, which are programs from the first call on, are recorded at once. With gradients every shape is: in a
graph `autograd.pause` and `autograd.is_recording` mean something else.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mxjax.core import Aval, local

from .cached_graph import CachedGraph, arrays_of

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock

#: So many shapes are recorded at once.
RECORDED = 2
#: So many shapes that came once are known; then they are forgotten.
KNOWN = 4096

_within: ContextVar[bool] = ContextVar("within", default=False)


class Newcomers:
    """The shapes that a block was called with once."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def has(self, block: HybridBlock, key: Any) -> bool:
        """Whether this call, of which there is no graph, is the first of its shapes and runs imperatively.

        ``key`` is what graphs are kept by (`HybridBlock._run_cached`).
        """
        st = local.st
        if (
            len(block._graphs) < RECORDED
            or st.taping
            or block._optimizing
            or st.rehearsing is not None
        ):
            return False
        form = _form(key)
        kin = [g for k, g in block._graphs.items() if _form(k) == form]
        if len(kin) < RECORDED or not all(map(_is_light, kin)) or key in self._seen:
            return False
        if len(self._seen) >= KNOWN:
            self._seen.clear()
        self._seen.add(key)
        return True


def _form(key: Any) -> Any:
    """What keys that differ in nothing but the lengths of arrays have in common."""
    tree, leaves, *others = key
    return (
        tree,
        *[(a.dtype, a.device, len(a.shape)) if type(a) is Aval else a for a in leaves],
        *others,
    )


def _is_light(graph: CachedGraph) -> bool:
    """Whether an imperative run gives what the graph gives, and is no program that the graph could not use."""
    return graph.small and not graph.symbolic and graph.cut is None and graph.call.policy is None


def run_once(block: HybridBlock, args: tuple[Any, ...]) -> Any:
    """The results of a block's forward, and of all blocks in it, without graphs; new arrays, as a graph gives."""
    token = _within.set(True)
    try:
        out = block._run_forward(*args)
    finally:
        _within.reset(token)
    leaves, tree = arrays_of(block, out)
    return tree.unflatten([a._front._wrap(a._value()) for a in leaves])


def is_within() -> bool:
    """Whether a block around runs so: those in it do, too, as those in a graph have no graphs of their own."""
    return _within.get()
