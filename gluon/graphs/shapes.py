"""What a hybridized block does when its inputs' shapes change: refuse, fill up, or record anew."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from mxjax import errors, settings
from mxjax.array.ndarray import NDArray
from mxjax.core import flush, local, read
from mxjax.modes import is_np_shape
from mxjax.ops.table import FRONT_ENDS

from .buckets import Buckets
from .cached_graph import unflatten

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock

_log = logging.getLogger("mxjax.gluon")


def shown_width(n: int) -> int | None:
    """A length of a weight as texts of layers have it: -1 under NumPy's shapes where it is not known yet, else None."""
    return n if n > 0 else -1 if is_np_shape() else None


def infer(block: HybridBlock, operator: str, shape: tuple[int, ...], **attrs: Any) -> None:
    """Give the block's parameters the shapes that an operator's row in `mxjax.ops` has for its arrays.

    `shape` is that of the data; parameters have the names that mx.npx has for the arrays.

    >>> from mxjax.gluon import nn
    >>> layer = nn.LayerNorm()
    >>> infer(layer, "layer_norm", (8, 5), axis=-1)
    >>> layer.gamma.shape
    (5,)
    """
    for name, found in parameter_shapes(operator, shape, **attrs).items():
        parameter = getattr(block, name)
        if parameter is not None:
            parameter.shape = found


def parameter_shapes(
    operator: str, shape: tuple[int, ...], **attrs: Any
) -> dict[str, tuple[int, ...]]:
    """The shapes of an operator's arrays for data of this shape, by their names in mx.npx."""
    try:
        return FRONT_ENDS["npx"][operator].infer_shapes(shape, attrs)
    except IndexError:
        raise errors.MXNetValueError(
            f"{operator}: data of shape {shape} has no axis {attrs.get('axis', 1)}; one sample is a batch of one, "
            "x.expand_dims(0)"
        ) from None


def refuse(block: HybridBlock, arrays: Sequence[NDArray], known: Sequence[Any]) -> None:
    """Raise where the settings do not let the block take inputs of these shapes.

    `known` are the shapes that it has graphs for.

    Raises:
      MXNetValueError: compiler.static_shapes is on and there is a graph for another shape, or a length is
        outside compiler.shape_ranges.
    """
    shapes = tuple(a.shape for a in arrays)
    if settings.get("compiler.static_shapes") and known and shapes not in known:
        raise errors.MXNetValueError(
            f"{type(block).__name__} was called with shapes {list(shapes)}, and has been with "
            f"{list(known[0])}: compiler.static_shapes lets a hybridized block take one shape only. Fill the inputs "
            "up to that shape, or set compiler.static_shapes=0"
        )
    for shape, allowed in zip(shapes, settings.get("compiler.shape_ranges"), strict=False):
        fits = len(shape) == len(allowed) and all(
            low <= n and (high is None or n <= high)
            for n, (low, high) in zip(shape, allowed, strict=True)
        )
        if not fits:
            words = ", ".join(_range(pair) for pair in allowed)
            raise errors.MXNetValueError(
                f"{type(block).__name__} was called with shape {shape}, and compiler.shape_ranges allows "
                f"[{words}]"
            )


def _range(pair: tuple[int, int | None]) -> str:
    low, high = pair
    return "any" if high is None else str(low) if low == high else f"{low}~{high}"


def serve_new_shape(block: HybridBlock, leaves: list[Any], tree: Any, arrays: list[NDArray]) -> Any:
    """A block's results by its graph of a larger shape, where the settings allow it; else None."""
    refuse(block, arrays, [graph.shapes for graph in block._graphs.values()])
    said = None if block._buckets is None else block._buckets.lengths
    if said is False or (said is None and settings.get("compiler.dynamic_batch") == "exact"):
        return None
    if block._buckets is None:
        block._buckets = Buckets()
    return block._buckets.serve(
        block, arrays, lambda given: block._run_cached(unflatten(tree, leaves, given), True)
    )


#: A block that was recorded for so many shapes is told of.
MANY_SHAPES = 16


def tell_of_shapes(block: HybridBlock, arrays: Sequence[NDArray]) -> None:
    """Say once that a block is recorded, and compiled, for one shape after the other, and which lengths change."""
    known = [g.shapes for g in block._graphs.values() if g.training is local.st.training]
    shapes = tuple(a.shape for a in arrays)
    alike = [
        s
        for s in {*known, shapes}
        if len(s) == len(shapes) and list(map(len, s)) == list(map(len, shapes))
    ]
    if len(alike) != MANY_SHAPES or len(known) != MANY_SHAPES - 1:
        return
    moving = [
        f"axis {axis} of input {k} ({', '.join(map(str, sorted({s[k][axis] for s in alike})[:5]))}, ...)"
        for k, shape in enumerate(shapes) for axis in range(len(shape)) if len({s[k][axis] for s in alike}) > 1
    ]  # fmt: skip
    _log.warning(
        "%s was recorded for %d shapes, and each is traced for itself: %s changes. Fill inputs up to few lengths; "
        "hybridize(dynamic_batch=True) does so where rows do not depend on each other",
        block.name if getattr(block, "name", None) else type(block).__name__, MANY_SHAPES, " and ".join(moving),
    )  # fmt: skip


class _Gate:
    """At most so many threads at a time run blocks in prediction."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.room = threading.BoundedSemaphore(limit)


_gate: _Gate | None = None
_gate_lock = threading.Lock()


def gated(limit: int, call: Callable[[], Any]) -> Any:
    """The results of `call`, which are there when this returns; it waits while `limit` others run."""
    global _gate
    with _gate_lock:
        if _gate is None or _gate.limit != limit:
            _gate = _Gate(limit)
        gate = _gate
    with gate.room:
        out = call()
        for leaf in jax.tree_util.tree_leaves(out, is_leaf=lambda x: isinstance(x, NDArray)):
            value = leaf._value()
            if value.seg is not None and value.seg is not local.st.seg:
                continue  # a tracer, or another thread's
            if value.seg is not None:
                flush(value.seg)
            array = read(value)
            if hasattr(array, "block_until_ready"):
                array.block_until_ready()
        return out
