"""Clusters of Ray: the one that RAY_ADDRESS names, or one of a job's own on this machine.

One of a job's own listens at this machine's loopback address alone, lets nobody in who does not know its
token, keeps its sockets in a folder that only this user can read, and sends no statistics to its makers.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from typing import Any

from .. import settings
from ..errors import MXNetError, MXNetValueError, optional_import

__all__ = ["connect", "entered", "known_token", "load", "named", "require", "start"]

_set: str | None = None  # the token that this process imported Ray with


def require() -> None:
    """Raise unless Ray is installed; does not import it.

    Raises:
      ImportError: it is not.
    """
    if sys.modules.get("ray") is None and importlib.util.find_spec("ray") is None:
        optional_import("ray", "ray")


def named() -> str | None:
    """The address of the cluster that RAY_ADDRESS names; None where the job is to have its own.

    Raises:
      MXNetValueError: it is an address of Ray Client, which has no part in a cluster.
    """
    address = settings.env("RAY_ADDRESS")
    if address is not None and "://" in address:
        raise MXNetValueError(
            f"RAY_ADDRESS={address}: expected HOST:PORT, as `ray start` prints it, or auto; processes of a job need "
            "a node of the cluster on their machine, which Ray Client's are made to do without"
        )
    return None if address in (None, "", "local") else address


def known_token() -> str | None:
    """The token that this process has started or entered a cluster with."""
    return _set


def entered() -> bool:
    """Whether this process is in a cluster."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def load(token: str | None) -> Any:
    """Ray; with a token, as a cluster of a job's own needs it: Ray reads these when it is imported."""
    global _set
    if token is not None:
        if sys.modules.get("ray") is not None and _set != token:
            raise MXNetError(
                "Ray has been imported already, so the token of the job's own cluster cannot be set any more: create "
                "the 'dist_async' kvstore before that, or set RAY_ADDRESS to use a cluster that is there"
            )
        _set = token
        settings.export(
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token,
            RAY_USAGE_STATS_ENABLED="0",
        )  # fmt: skip
    ray = optional_import("ray", "ray")
    if token is not None and not hasattr(ray.exceptions, "AuthenticationError"):
        raise MXNetError(
            f"Ray {ray.__version__} has no token authentication: pip install -U 'mxjax[ray]', or set RAY_ADDRESS to "
            "use a cluster that is there"
        )
    return ray


def connect(address: str, token: str | None, **options: Any) -> Any:
    """Ray, connected to a cluster through the node that it has on this machine.

    Args:
      address: `HOST:PORT`, or `auto`.
      token: of a job's own cluster; None where the environment says what the cluster wants.
      options: of `ray.init`.
    """
    ray = load(token)
    if not entered():
        host = settings.env("DMLC_NODE_HOST")
        if (
            token is None
            and host
            and not host.startswith("127.")
            and host not in ("::1", "0.0.0.0", "::")
        ):
            options["_node_ip_address"] = host  # a machine may have several nodes
        _init(ray, address=address, **options)
    return ray


def start(token: str, folder: str, cpus: int, **options: Any) -> Any:
    """Ray, with a cluster of a job's own, which ends with `ray.shutdown()`.

    Args:
      token: what others must know; hexadecimal, at least 32 characters.
      folder: where it keeps its sockets and logs.
      cpus: how many tasks run at once.
      options: of `ray.init`.
    """
    ray = load(token)
    for last in (False, False, True):
        try:
            _init(ray, num_cpus=cpus, include_dashboard=False, _temp_dir=folder, **options)
            return ray
        except Exception:  # Ray gives up after 30 s, which a busy machine may take
            ray.shutdown()
            if last:
                raise
    raise AssertionError


def _init(ray: Any, **options: Any) -> None:
    ending = signal.getsignal(signal.SIGTERM)
    ray.init(
        **{"logging_level": "ERROR", "log_to_driver": False, "configure_logging": False, **options}
    )
    if threading.current_thread() is threading.main_thread() and ending is not None:
        signal.signal(
            signal.SIGTERM, ending
        )  # Ray's prints stacks when a launcher ends the process
