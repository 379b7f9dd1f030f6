"""Operators of `mx.sym.image`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import explain_names as _explain_names
from .front import fill as _fill
from .symbol import Symbol

__all__ = [*_fill(globals(), "npx.image", Symbol)]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., Symbol]: ...


_explain_names(__name__)
