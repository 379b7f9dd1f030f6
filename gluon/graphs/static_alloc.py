"""Gradients of blocks that are hybridized with ``static_alloc``: MXNet's backward pass writes all of them.

Those of parameters on which the loss does not depend are zeros there, and a Trainer's step goes on with them. Here the
backward pass does not come to such parameters; a step that misses their gradients asks whether they are of that kind.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from mxjax.autograd import pause

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock
    from ..parameter import Parameter

#: The block whose graph a parameter belongs to; the block may go before its parameters.
_blocks: weakref.WeakKeyDictionary[Parameter, weakref.ref[HybridBlock]] = (
    weakref.WeakKeyDictionary()
)


def remember(block: HybridBlock) -> None:
    """A block with ``static_alloc`` has recorded its graph for training."""
    for p in block.collect_params().values():
        _blocks[p] = weakref.ref(block)


def takes_zeros(param: Parameter, array: Any) -> bool:
    """Whether a gradient that no backward pass brought is zeros now, since it brought others of the same block."""
    known = _blocks.get(param)
    block = None if known is None else known()
    if block is None or not (block._active and block._static_alloc) or array.grad is None:
        return False
    for other in block.collect_params().values():
        there = (other._arrays or {}).get(array.device)
        if there is not None and there is not array and there._fresh_grad:
            break
    else:
        return False
    if param.grad_req == "write" and array.grad.stype == "default":
        with pause():
            array.grad[:] = 0
    array._fresh_grad = True
    return True
