"""Operators of `mx.sym.linalg`."""

from __future__ import annotations

from ..errors import explain_names as _explain_names
from .front import fill as _fill
from .symbol import Symbol

__all__ = [*_fill(globals(), "nd.linalg", Symbol)]

_explain_names(__name__)
