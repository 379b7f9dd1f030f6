"""JAX's coordination service, kept where no member can take it along when it dies."""

from __future__ import annotations

import random
import socket
from typing import Any

from .. import errors
from .._jax_private import find

__all__ = ["Coordinator", "free_port"]


def free_port(host: str) -> int:
    """A free port below the ephemeral range.

    So nobody gets it by chance between this question and its use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    chance = random.SystemRandom()  # the script's own random numbers stay as they are
    for _ in range(200):
        port = chance.randrange(10_000, 32_000)
        try:
            socket.create_server((host, port), family=family).close()
        except OSError:
            continue
        return port
    with socket.create_server((host, 0), family=family) as server:
        return int(server.getsockname()[1])


class Coordinator:
    """JAX's coordination service in this process, which takes no part in the job itself.

    In rank 0, where JAX itself puts it, its end would be the end of all other ranks within a second,
    without an exception.

    Args:
      host: the address to listen at.
      size: how many members connect.
      patience: seconds that members wait for each other when they leave.

    Attributes:
      address: what members connect to.
    """

    def __init__(self, host: str, size: int, patience: float) -> None:
        serve = find("runtime_service")
        if serve is None:
            raise errors.MXNetError(
                "this JAX has no coordination service in the place where mxjax looks for it, so that a job of several "
                "processes cannot be started: use a version that docs/support.md names"
            )
        where = f"[{host}]" if ":" in host else host
        self.address = f"{where}:{free_port(host)}"
        # Members are watched by the keeper; JAX's own heartbeat, which aborts processes, comes long after.
        self._service: Any = serve(
            self.address, size, heartbeat_timeout=10_000, shutdown_timeout=max(1, int(patience))
        )

    def close(self) -> None:
        """End it."""
        service, self._service = self._service, None
        if service is not None:
            service.shutdown()
