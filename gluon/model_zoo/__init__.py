"""Networks with names that everybody knows, and their trained weights."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import model_store, vision

__all__ = ["model_store", "vision"]

_explain_names(__name__)
