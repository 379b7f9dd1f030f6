"""Linear algebra as `mx.nd.linalg` has it."""

from __future__ import annotations

from ..array.classes import NDArray
from ..array.frontend import fill
from ..errors import explain_names as _explain_names

__all__ = [*fill(globals(), "nd.linalg", NDArray)]

_explain_names(__name__)
