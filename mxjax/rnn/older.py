"""What code of MXNet's users imports from the symbolic cells though it is private: several cells as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__: list[str] = []


def _cells_state_shape(cells: Sequence[Any]) -> list[Any]:
    """The shapes of all cells' states."""
    return [shape for cell in cells for shape in cell.state_shape]


def _cells_state_info(cells: Sequence[Any]) -> list[Any]:
    """The states of all cells."""
    return [info for cell in cells for info in cell.state_info]


def _cells_unpack_weights(cells: Sequence[Any], args: dict[str, Any]) -> dict[str, Any]:
    """Weights with those of each cell's gates apart."""
    for cell in cells:
        args = cell.unpack_weights(args)
    return args


def _cells_pack_weights(cells: Sequence[Any], args: dict[str, Any]) -> dict[str, Any]:
    """Weights with those of each cell's gates in one."""
    for cell in cells:
        args = cell.pack_weights(args)
    return args
