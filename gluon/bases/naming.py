"""Names of what is recorded inside a block: the block's name stands before them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mxjax.name import Prefix

# How many blocks of each name the block around has begun; None outside all blocks.
_begun: ContextVar[dict[str, int] | None] = ContextVar("blocks_begun", default=None)
_prefix: ContextVar[str] = ContextVar("block_prefix", default="")


@contextmanager
def _block_scope(block: object) -> Iterator[None]:
    """Within, `mx.name.current()` puts the name of this block, and of those around it, before each name.

    A block is called after its class; inside another one it is numbered: `net_dense0_`, `net_dense1_`.
    """
    name = type(block).__name__.lower()
    begun = _begun.get()
    if begun is not None:
        count = begun.get(name, 0)
        begun[name] = count + 1
        name = f"{name}{count}"
    prefix = f"{_prefix.get()}{name}_"
    tokens = _begun.set({}), _prefix.set(prefix)
    try:
        with Prefix(prefix):
            yield
    finally:
        _begun.reset(tokens[0])
        _prefix.reset(tokens[1])
