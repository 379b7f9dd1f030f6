"""Parts of mx.np's symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import errors
from .. import name as names
from ..ops.keys import ARRAY, Slice
from ..ops.table import TABLE
from .compose import one_entry
from .node import Node


def part_of(symbol: Any, key: Any) -> Any:
    """``x[key]`` for integers, slices, None, Ellipsis and symbols of integers."""
    from .symbol import Symbol

    items = key if type(key) is tuple else (key,)
    written: list[Any] = []
    arrays: list[Any] = []
    for k in items:
        if k is None or k is Ellipsis:
            written.append(k)
        elif isinstance(k, slice):
            written.append(Slice(k.start, k.stop, k.step))
        elif isinstance(k, (int, np.integer)) and not isinstance(k, bool):
            written.append(int(k))
        elif isinstance(k, Symbol):
            written.append(ARRAY)
            arrays.append(one_entry(k, "the index"))
        else:
            raise errors.MXNetTypeError(
                f"a symbol is indexed by integers, slices, None, Ellipsis and symbols of integers, got {k!r} "
                f"({type(k).__name__})"
            )
    op = TABLE["_advanced_index" if arrays else "_basic_index"]
    title = names.current().get(None, "slice")
    inputs = [one_entry(symbol, "x"), *arrays]
    node = Node(
        title,
        op,
        {"key": tuple(written)},
        {},
        inputs,
        ["x", *[f"index{k}" for k in range(len(arrays))]],
        is_np=True,
    )
    return symbol._of([(node, 0)])
