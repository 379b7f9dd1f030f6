"""Training watched in a notebook: what happens as pandas' data frames, and as curves that grow (`mx.notebook`)."""

from __future__ import annotations

from ..errors import explain_names as _explain_names
from . import callback

__all__ = ["callback"]

_explain_names(__name__)
