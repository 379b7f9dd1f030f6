"""Sparse arrays: values of which only some rows or elements are kept, and the arrays on them (see ../README.md)."""

from __future__ import annotations

from . import dispatch as dispatch
from .classes import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    cast_storage,
    compact,
    taped_value,
    wrap,
)
from .value import Stored, in_stype, joined, nothing, of_dense, padded

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "Stored",
    "cast_storage",
    "compact",
    "in_stype",
    "joined",
    "nothing",
    "of_dense",
    "padded",
    "taped_value",
    "wrap",
]
