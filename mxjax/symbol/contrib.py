"""Operators of `mx.sym.contrib`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import explain_names as _explain_names
from .control_flow import cond, foreach, while_loop
from .front import fill as _fill
from .lists import boolean_mask, calibrate_entropy, dynamic_reshape, rand_zipfian
from .symbol import Symbol

__all__ = [
    "boolean_mask",
    "calibrate_entropy",
    "cond",
    "dynamic_reshape",
    "foreach",
    "rand_zipfian",
    "while_loop",
    *_fill(globals(), "nd.contrib", Symbol),
]

_lookup = globals()["SparseEmbedding"]


@functools.wraps(_lookup)
def SparseEmbedding(*args: Any, **kwargs: Any) -> Symbol:
    made: Symbol = _lookup(*args, **{"sparse_grad": True, **kwargs})
    return made


if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., Symbol]: ...


_explain_names(__name__)
