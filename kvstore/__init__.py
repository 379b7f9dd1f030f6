"""Parameter stores: the same values on several devices."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from .adapters import BytePS, Horovod
from .base import KVStoreBase, create
from .kvstore_server import KVStoreServer
from .store import KVStore

__all__ = ["BytePS", "Horovod", "KVStore", "KVStoreBase", "KVStoreServer", "create"]

_explain_names(__name__)
