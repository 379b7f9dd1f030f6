"""The mutable array: handle, views, operators, indexing, interop."""

from __future__ import annotations

from .ndarray import NDArray, to_value, values

__all__ = ["NDArray", "to_value", "values"]
