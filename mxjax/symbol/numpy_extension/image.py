"""Functions of `mx.sym.npx.image`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import explain_names as _explain_names
from ..front import fill as _fill
from ..symbol import _Symbol

__all__ = [*_fill(globals(), "npx.image", _Symbol)]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
