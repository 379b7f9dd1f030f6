"""NumPy's functions on symbols (`mx.sym.np`)."""

from __future__ import annotations

from ...errors import explain_names as _explain_names
from ..front import fill as _fill
from ..lists import bincount, delete, flatnonzero, unique
from ..symbol import _Symbol
from . import linalg, random
from .functions import einsum, full, linspace, unravel_index, where

__all__ = [
    "_Symbol",
    "bincount",
    "delete",
    "einsum",
    "flatnonzero",
    "full",
    "linalg",
    "linspace",
    "random",
    "unique",
    "unravel_index",
    "where",
    *_fill(globals(), "np", _Symbol),
]

_explain_names(__name__)
