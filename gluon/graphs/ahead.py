"""Programs of a block compiled before its first call: `HybridBlock.compile`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mxjax import autograd, errors, settings
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.creation import array, nd_array
from mxjax.modes import array_class

from .cached_graph import flatten

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock


def compile_ahead(block: HybridBlock, inputs: Sequence[Any], dtype: Any, train: bool) -> None:
    """The rehearsal of one call with arrays of these shapes, optimised from the start."""
    from mxjax import memonger

    if not block._active:
        block.hybridize()
    params = list(block.collect_params().values())
    device = params[0].list_device()[0] if params else None
    arrays = [_of(x, dtype, device) for x in inputs]
    block._settle(tuple(arrays))
    # Written to memory: what is still to be computed would be a part of the program.
    for a in (*arrays, *(a for p in params for a in (p._arrays or {}).values())):
        a.wait_to_read()

    def run() -> Any:
        if not train:
            return block(*arrays)
        with autograd.record():
            out = block(*arrays)
        autograd.backward([a for a in flatten(out)[0] if isinstance(a, NDArray)])
        return out

    known, block._graphs, block._served = block._graphs, {}, None
    block._optimizing = True  # a graph's first call is no trial of NumPy's
    try:
        quietly = settings.scope({"engine.cold": "compile", "engine.graph_breaks": "quiet"})
        with quietly, autograd.pause(train_mode=False):
            memonger.rehearse(run, block, warmup=0)
    except errors.MXNetError:
        if block._opened is None:
            raise
    finally:
        block._optimizing = False
        block._graphs = {**known, **block._graphs}
    if block._opened is not None:
        raise errors.MXNetError(
            f"{type(block).__name__} runs imperatively, since its forward asks for numbers: there is nothing to compile"
        )


def _of(x: Any, dtype: Any, device: Any) -> NDArray:
    """An array of a shape, or like an array; one of mxjax's itself."""
    if isinstance(x, NDArray):
        return x
    shape, dtype = (x.shape, x.dtype) if hasattr(x, "shape") else (x, dtype)
    make: Any = array if array_class() is ndarray else nd_array
    return make(np.zeros(shape, dtype), dtype=dtype, device=device)  # type: ignore[no-any-return]
