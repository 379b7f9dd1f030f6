"""Parameter stores: the same values on several devices."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from .base import KVStoreBase, create
from .store import KVStore

__all__ = ["KVStore", "KVStoreBase", "create"]

_explain_names(__name__)
