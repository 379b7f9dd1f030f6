"""Networks with names that everybody knows, and their trained weights."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import model_store, vision
from .hub import from_pretrained, save_pretrained

__all__ = ["from_pretrained", "model_store", "save_pretrained", "vision"]

_explain_names(__name__)
