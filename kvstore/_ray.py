"""The servers of the asynchronous store as actors of Ray: starting, reaching and missing them.

Rank 0 starts a cluster of its own on this machine, or uses the one that RAY_ADDRESS names, makes the actors in
it and tells the other ranks where they are.  What travels is in Ray's hands: its object store is memory that
all processes of a machine share, so arrays are copied once on each way.
"""

from __future__ import annotations

import hmac
import importlib.util
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import errors, settings
from mxjax.launch import group
from mxjax.launch.keeper import PAUSE, SILENCE

from ._processes import Operation, Processes

__all__ = ["RayServers", "require"]

_NOTE = 512  # bytes in which rank 0 says where the servers are


def require() -> None:
    """Raise unless Ray is installed; does not import it.

    Raises:
      ImportError: it is not.
    """
    if "ray" not in sys.modules and importlib.util.find_spec("ray") is None:
        errors.optional_import("ray", "ray")


_set: str | None = None  # the token that this process imported Ray with


def _protect(token: str) -> None:
    """What a cluster of our own is started with, which Ray reads when it is imported.

    It listens at this machine's loopback address alone, lets nobody in who does not know the token, and sends no
    statistics to its makers.
    """
    global _set
    if "ray" in sys.modules and _set != token:
        raise errors.MXNetError(
            "Ray has been imported before the 'dist_async' kvstore was made, so its token cannot be set any more: "
            "create the kvstore first, or set RAY_ADDRESS to use a cluster that is there"
        )
    _set = token
    settings.export(
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token,
        RAY_USAGE_STATS_ENABLED="0",
    )  # fmt: skip


def _token() -> str | None:
    """The token of a cluster of our own, made from the job's; None where the environment holds none."""
    known = settings.env("DMLC_JOB_TOKEN")
    return hmac.digest(known.encode(), b"ray", "sha256").hex() if known else None


class Actor:
    """A `Server` in a process of Ray's."""

    def __init__(self, rank: int) -> None:
        import jax

        jax.config.update("jax_platforms", "cpu")
        from ._server import Server

        self._server = Server(rank)

    def do(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See `Server.do`."""
        return self._server.do(requests)

    def alive(self) -> int:
        """Answered at once, whatever else the server does."""
        return os.getpid()


class RayServers:
    """The servers of one store, the same for all ranks of the job.

    Args:
      processes: the ranks, each of which makes its `RayServers` for the same store.
      number: of the store.
      count: how many servers there are.

    Raises:
      ImportError: Ray is not installed.
      MXNetError: it cannot be started or reached.
    """

    def __init__(self, processes: Processes, number: int, count: int):
        self.count = count
        self._member = group.join()
        self._own: str | None = None  # the folder of a cluster that this process has started
        self._lost: errors.MXNetError | None = None
        self._closed = threading.Event()
        self._ray: Any = None
        try:
            note = json.dumps(self._start()) if processes.rank == 0 else ""
            said = np.zeros(_NOTE, np.uint8)
            said[: len(note)] = np.frombuffer(note.encode(), np.uint8)
            (said,) = processes.all([Operation("init", number, "servers", said)])
            if processes.rank:
                self._connect(json.loads(np.asarray(said).tobytes().rstrip(b"\0")))
        except errors.MXNetError:
            self.close()
            raise
        except Exception as error:  # Ray raises of any class
            self.close()
            raise errors.MXNetError(
                f"Ray could not be started or reached for the servers of a 'dist_async' kvstore: {error}. On several "
                "machines start a cluster over all of them (`ray start`) and set RAY_ADDRESS"
            ) from error
        threading.Thread(target=self._watch, name="mxjax servers", daemon=True).start()

    # ---- starting --------------------------------------------------------------------------------------

    def _start(self) -> dict[str, Any]:
        """In rank 0: the cluster and the actors; what the others must know."""
        there = settings.env("RAY_ADDRESS")
        token = None if there else _token() or _set or secrets.token_hex(32)
        ray = self._import(token)
        space = f"mxjax-{secrets.token_hex(8)}"
        if not ray.is_initialized():
            if there:
                self._init(space, address=there)
            else:
                # Only this user may reach the sockets in there.
                self._own = tempfile.mkdtemp(prefix="ray-", dir=settings.env("DMLC_SCRATCH"))
                self._init_own(space)
        make = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"life": 1})(Actor)
        self._actors = [
            make.options(name=f"server-{k}", namespace=space).remote(k) for k in range(self.count)
        ]
        ray.get([a.alive.remote() for a in self._actors])
        # A token that all can make from the job's does not travel.
        sent = None if token == _token() else token
        return {"address": ray.get_runtime_context().gcs_address, "space": space, "token": sent}

    def _connect(self, note: dict[str, Any]) -> None:
        """In the other ranks."""
        ray = self._import(None if settings.env("RAY_ADDRESS") else note["token"] or _token())
        if not ray.is_initialized():
            self._init(note["space"], address=note["address"])
        self._actors = [
            ray.get_actor(f"server-{k}", namespace=note["space"]) for k in range(self.count)
        ]

    def _import(self, token: str | None) -> Any:
        """Ray; with a token, as a cluster of our own needs it."""
        if token is not None:
            _protect(token)
        self._ray = errors.optional_import("ray", "ray")
        if token is not None and not hasattr(self._ray.exceptions, "AuthenticationError"):
            raise errors.MXNetError(
                f"Ray {self._ray.__version__} has no token authentication: pip install -U 'mxjax[ray]', or set "
                "RAY_ADDRESS to use a cluster that is there"
            )
        return self._ray

    def _init_own(self, space: str) -> None:
        for last in (False, False, True):
            try:
                return self._init(
                    space, num_cpus=1, include_dashboard=False, _temp_dir=self._own
                )
            except Exception:  # Ray gives up after 30 s, which a busy machine may take
                self._ray.shutdown()
                if last:
                    raise
        return None

    def _init(self, space: str, **where: Any) -> None:
        ending = signal.getsignal(signal.SIGTERM)
        self._ray.init(
            namespace=space, logging_level="ERROR", log_to_driver=False, configure_logging=False, **where
        )
        if threading.current_thread() is threading.main_thread() and ending is not None:
            signal.signal(signal.SIGTERM, ending)  # Ray's prints stacks when a launcher ends the process

    def close(self) -> None:
        """End the cluster if this process has started it."""
        self._closed.set()
        if self._own is not None:
            self._ray.shutdown()
            shutil.rmtree(self._own, ignore_errors=True)

    # ---- asking ----------------------------------------------------------------------------------------

    def send(self, server: int, requests: Sequence[tuple[Any, ...]]) -> Any:
        """Begin `Server.do` there, after what this process has sent there before; a ticket for the answers."""
        try:
            return self._actors[server].do.remote(list(requests))
        except self._ray.exceptions.RayError as error:
            raise self._gone(server, error) from None

    def done(self, ticket: Any) -> bool:
        """Whether the answers are there."""
        return bool(self._ray.wait([ticket], timeout=0)[0])

    def wait(self, server: int, ticket: Any) -> list[Any]:
        """The answers.

        Raises:
          MXNetError: the server, or a rank, is missing: within the job's heartbeat.
        """
        try:
            while not self._ray.wait([ticket], timeout=self._member.heartbeat * PAUSE)[0]:
                self.check()
            return self._ray.get(ticket)
        except self._ray.exceptions.RayError as error:
            self._member.check()  # its cluster may have gone with a rank
            raise self._gone(server, error) from None

    def check(self) -> None:
        """Raise if a server or a rank is missing."""
        self._member.check()
        if self._lost is not None:
            raise errors.MXNetError(str(self._lost))

    def _watch(self) -> None:
        """In a thread: whether all servers answer."""
        ray, heartbeat = self._ray, self._member.heartbeat
        calls: list[Any] = [None] * self.count
        heard = [time.monotonic()] * self.count
        before = heard[0]
        while self._lost is None and not self._closed.wait(heartbeat * PAUSE):
            now = time.monotonic()
            if now - before > heartbeat / 2:
                heard = [now] * self.count  # it was this process that stood still
            before = now
            for k, actor in enumerate(self._actors):
                try:
                    if calls[k] is None:
                        calls[k] = actor.alive.options(concurrency_group="life").remote()
                    elif ray.wait([calls[k]], timeout=0)[0]:
                        ray.get(calls[k])
                        calls[k], heard[k] = None, now
                    elif now - heard[k] > heartbeat * SILENCE:
                        self._lost = self._gone(k, f"no sign of life for {now - heard[k]:.2g} s")
                except Exception as error:  # whatever Ray has to say
                    if not self._closed.is_set():
                        self._lost = self._gone(k, error)

    def _gone(self, server: int, why: object) -> errors.MXNetError:
        line = str(why).strip().splitlines()[0] if str(why).strip() else type(why).__name__
        return errors.MXNetError(f"server {server} of {self.count} of the kvstore is gone: {line}")
