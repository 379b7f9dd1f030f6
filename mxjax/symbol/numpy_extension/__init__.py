"""Operators beyond NumPy's on symbols (`mx.sym.npx`)."""

from __future__ import annotations

from ...errors import explain_names as _explain_names
from ..front import fill as _fill
from ..symbol import _Symbol
from . import image, random

__all__ = ["image", "random", *_fill(globals(), "npx", _Symbol)]

_explain_names(__name__)
