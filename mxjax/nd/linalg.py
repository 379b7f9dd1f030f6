"""Linear algebra as `mx.nd.linalg` has it."""

from __future__ import annotations

from ..array.classes import NDArray
from ..array.frontend import fill

__all__ = [*fill(globals(), "nd.linalg", NDArray)]
