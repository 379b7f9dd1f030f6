"""Parameter stores: the same values on several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxjax.errors import explain_names as _explain_names

from .base import KVStoreBase, create

if TYPE_CHECKING:
    from .adapters import BytePS, Horovod
    from .kvstore_server import KVStoreServer
    from .store import KVStore

__all__ = ["BytePS", "Horovod", "KVStore", "KVStoreBase", "KVStoreServer", "create"]

# A trainer on one device asks for the names of stores alone.
_LATER = {
    "BytePS": "adapters",
    "Horovod": "adapters",
    "KVStore": "store",
    "KVStoreServer": "kvstore_server",
}
_explain_names(__name__, _LATER)
