"""The servers of the asynchronous store as actors of Ray: starting, reaching and missing them.

Rank 0 starts a cluster of its own on this machine, or uses the one that RAY_ADDRESS names, and tells the other
ranks, which enter it too; then it makes the actors, by turns on the machines of the workers.  What travels is in
Ray's hands: its object store is memory that all processes of a machine share, so arrays are copied once on each
way.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import errors, settings
from mxjax.launch import cluster, group
from mxjax.launch.keeper import PAUSE, SILENCE

from ._processes import Operation, Processes

__all__ = ["RayServers"]

_NOTE = 512  # bytes in which rank 0 says where the servers are


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
        self._ray: Any
        try:
            processes.all(
                [Operation("servers", number, count)]
            )  # all have come here, and want as many
            hosts = self._member.tell(socket.gethostname())
            note = self._start(hosts) if processes.rank == 0 else {}
            text = json.dumps(note).encode()
            said = np.zeros(_NOTE, np.uint8)
            said[: len(text)] = np.frombuffer(text, np.uint8)
            (said,) = processes.all([Operation("init", number, "servers", said)])
            note = json.loads(np.asarray(said).tobytes().rstrip(b"\0"))
            if processes.rank:
                self._connect(note)
            nodes = self._member.tell(str(self._ray.get_runtime_context().get_node_id()))
            if processes.rank == 0:
                self._make(nodes, note["space"])
            processes.all([Operation("servers made", number, count)])
            if processes.rank:
                self._actors = [
                    self._ray.get_actor(f"server-{k}", namespace=note["space"])
                    for k in range(count)
                ]
        except errors.MXNetError:
            self.close()
            raise
        except Exception as error:  # Ray raises of any class
            self.close()
            raise errors.MXNetError(
                f"Ray could not be started or reached for the servers of a 'dist_async' kvstore: {error}. A cluster "
                "that RAY_ADDRESS names needs a node on each machine of the job (`ray start`), at the address that the "
                "launcher's --host names where it is given (--node-ip-address)"
            ) from error
        threading.Thread(target=self._watch, name="mxjax servers", daemon=True).start()

    # ---- starting --------------------------------------------------------------------------------------

    def _start(self, hosts: Sequence[str]) -> dict[str, Any]:
        """In rank 0: the cluster; what the others must know."""
        address = cluster.named()
        space = f"mxjax-{secrets.token_hex(8)}"
        if address is not None:
            self._ray = cluster.connect(address, None, namespace=space)
        elif len(set(hosts)) > 1:
            raise errors.MXNetError(
                f"the workers of a 'dist_async' kvstore are on several machines ({', '.join(sorted(set(hosts)))}): "
                "start a Ray cluster over them (`ray start --head` on one, `ray start --address=HOST:PORT` on the "
                "others) and set RAY_ADDRESS=HOST:PORT for the job"
            )
        else:
            token = _token() or cluster.known_token() or secrets.token_hex(32)
            if not cluster.entered():  # another store of this process has it already
                # Only this user may reach the sockets in there.
                self._own = tempfile.mkdtemp(prefix="ray-", dir=settings.env("DMLC_SCRATCH"))
                cluster.start(token, self._own, 1, namespace=space)
            self._ray = cluster.load(token)
        # A token that all can make from the job's does not travel.
        sent = None if address is not None or token == _token() else token
        gcs = self._ray.get_runtime_context().gcs_address
        return {"address": gcs, "space": space, "own": address is None, "token": sent}

    def _connect(self, note: dict[str, Any]) -> None:
        """In the other ranks."""
        token = (note["token"] or _token()) if note["own"] else None
        self._ray = cluster.connect(note["address"], token, namespace=note["space"])

    def _make(self, nodes: Sequence[str], space: str) -> None:
        """In rank 0: the actors, by turns on the nodes on which there are workers."""
        ray = self._ray
        places = list(dict.fromkeys(nodes))
        affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        make = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"life": 1})(Actor)
        self._actors = [
            make.options(
                name=f"server-{k}", namespace=space,
                scheduling_strategy=affinity(places[k % len(places)], soft=False),
            ).remote(k)
            for k in range(self.count)
        ]  # fmt: skip
        ray.get([a.alive.remote() for a in self._actors])

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
