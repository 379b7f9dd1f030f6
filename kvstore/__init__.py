"""Parameter stores: the same values on several devices."""

from __future__ import annotations

from .base import KVStoreBase, create
from .store import KVStore

__all__ = ["KVStore", "KVStoreBase", "create"]
