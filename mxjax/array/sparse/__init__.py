"""Sparse arrays: values of which only some rows or elements are kept, and the arrays on them (see ../README.md)."""

from __future__ import annotations

from . import dispatch as dispatch
from .classes import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    cast_storage,
    compact,
    dense_value,
    taped_value,
    wrap,
)
from .dispatch import step_in_rows
from .value import (
    Stored,
    in_stype,
    is_whole,
    joined,
    made,
    nothing,
    of_dense,
    padded,
    rows_at,
    whole,
)

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "Stored",
    "cast_storage",
    "compact",
    "dense_value",
    "in_stype",
    "is_whole",
    "joined",
    "made",
    "nothing",
    "of_dense",
    "padded",
    "rows_at",
    "step_in_rows",
    "taped_value",
    "whole",
    "wrap",
]
