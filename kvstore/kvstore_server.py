"""MXNet's `kvstore_server`: what a process that is no worker does."""

from __future__ import annotations

import logging
from typing import Any

from mxjax import settings
from mxjax.errors import MXNetValueError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """The server of a distributed store; here the workers keep the values, so that a server has nothing to keep.

    Args:
      kvstore: a store, as `mx.kvstore.create` gives it.

    >>> import mxjax as mx
    >>> mx.kvstore_server.KVStoreServer(mx.kvstore.create("local")).run()
    """

    def __init__(self, kvstore: Any):
        self.kvstore = kvstore

    def run(self) -> None:
        """Serve until the job ends: at once in a process of role ``server``, for the workers hold everything.

        Raises:
          ValueError: DMLC_ROLE says that this process is a scheduler, which keeps the job when it makes its first
            store of several processes, and not here.
        """
        role = settings.env("DMLC_ROLE", "worker")
        if role == "scheduler":
            raise MXNetValueError(
                "DMLC_ROLE=scheduler: mx.kvstore.create('dist_sync') keeps the job, not a server"
            )
        logging.getLogger("mxjax.kvstore").info(
            "role %s: the workers hold the values, nothing to serve", role
        )
