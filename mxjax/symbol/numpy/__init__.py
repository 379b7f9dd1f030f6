"""NumPy's functions on symbols (`mx.sym.np`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import explain_names as _explain_names
from ..front import fill as _fill
from ..lists import (
    bincount,
    delete,
    diag_indices_from,
    flatnonzero,
    histogram,
    insert,
    may_share_memory,
    shares_memory,
    unique,
)
from ..symbol import _Symbol
from . import _internal as _internal
from . import linalg, random
from .functions import einsum, full, linspace, unravel_index, where

__all__ = [
    "_Symbol",
    "bincount",
    "delete",
    "diag_indices_from",
    "einsum",
    "flatnonzero",
    "full",
    "histogram",
    "insert",
    "linalg",
    "linspace",
    "may_share_memory",
    "random",
    "shares_memory",
    "unique",
    "unravel_index",
    "where",
    *_fill(globals(), "np", _Symbol),
]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
