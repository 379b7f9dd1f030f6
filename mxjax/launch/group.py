"""This process's JAX as one of several: membership first, then `jax.distributed`."""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Any

from .. import settings
from .._jax_private import find
from ..errors import MXNetError, MXNetValueError
from . import member, wire
from .coordinator import Coordinator, free_port
from .keeper import Keeper

__all__ = ["join", "join_site"]

#: What JAX calls the way to find out about a job, by the launcher's name of the site.
#: None: whichever it finds first; JAX has no name for Kubernetes.
DETECTION = {"slurm": "slurm", "mpi": "mpi4py", "ompi": "ompi", "k8s": None, "auto": None}

_kept: list[Keeper] = []


def join() -> member.Member:
    """This process's membership, with JAX connected to the others; waits until all are there.

    Raises:
      GroupBroken: not all came in time, or the keeper refuses.
      MXNetError: no job, or JAX's backend runs already and knows of this process only.
    """
    import jax

    here = member.current()
    if here is not None:
        return here
    if not settings.env("DMLC_PS_ROOT_URI") and jax.distributed.is_initialized():
        return _adopt()
    if not settings.env("DMLC_PS_ROOT_URI"):
        raise MXNetError(member.MISSING)
    if settings.env("DMLC_ROLE", "worker") != "worker":
        _serve()
    if settings.backend_is_up() and not jax.distributed.is_initialized():
        raise MXNetError(
            "JAX's backend has started before the job was joined, so it knows of this process only: create "
            "the kvstore before the first array, or start the script with `python -m mxjax.launch`, which "
            "joins before the script begins"
        )
    here = member.join()
    address = here.start(settings.get("timeout.join"))
    _connect(
        coordinator_address=address, num_processes=here.size, process_id=here.rank,
        # JAX starts a service in rank 0 all the same; nobody connects to it.
        coordinator_bind_address=f"127.0.0.1:{free_port('127.0.0.1')}" if here.rank == 0 else None,
        cluster_detection_method="deactivate",
    )  # fmt: skip
    _listen_at(settings.env("DMLC_NODE_HOST"))
    return here


def _listen_at(host: str | None) -> None:
    """Let gloo, which sums between CPUs, listen at this address.

    By itself it takes what the machine's name stands for, which may be nothing, another machine's
    loopback or the whole network.
    """
    chosen = host is not None and host not in ("", "0.0.0.0", "::")
    used = (
        "cpu_collectives",
        "gloo_collectives",
        "global_state",
        "make_cpu_client",
        "register_backend_factory",
    )
    found = [find(name) for name in used]  # JAX passes gloo no address
    if not chosen or any(name is None for name in found):
        return
    kind, collectives, state, make_client, register = found
    if kind.value != "gloo":
        return

    def client() -> Any:
        return make_client(collectives(distributed_client=state.client, hostname=host))

    register("cpu", client, priority=0, fail_quietly=False)


def _connect(**where: Any) -> None:
    import jax

    if settings.env("JAX_ENABLE_PREEMPTION_SERVICE") is None:
        # It would keep SIGTERM, with which launchers end processes, to itself.
        jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            initialization_timeout=int(settings.get("timeout.join")),
            heartbeat_timeout_seconds=10_000,  # members are watched by the keeper
            shutdown_timeout_seconds=30,
            **where,
        )
    except Exception as error:
        raise MXNetError(f"JAX could not connect the processes of the job: {error}") from error


def join_site(site: str) -> member.Member:
    """The same under a launcher of the site (Slurm, MPI, Kubernetes), by JAX's own detection.

    Raises:
      MXNetValueError: no such site is known.
      MXNetError: this process was not started by that launcher.
    """
    if site not in DETECTION:
        raise MXNetValueError(f"unknown site {site!r}; known: {', '.join(DETECTION)}")
    try:
        _connect(cluster_detection_method=DETECTION[site])
    except MXNetError as error:
        raise MXNetError(
            f"{error}. Is this process started by {site}'s launcher, with one process per rank?"
        ) from error
    return _adopt()


def _adopt() -> member.Member:
    """Membership where JAX is connected already: rank 0 keeps the job, and says where over JAX."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    rank, size = jax.process_index(), jax.process_count()
    note = np.zeros(128, np.uint8)
    joining = settings.get("timeout.join")
    if rank == 0:
        token = secrets.token_hex(16)
        host = settings.env("DMLC_NODE_HOST") or ("127.0.0.1" if size == 1 else _own_address())
        keeper = Keeper(
            size, token, host=host, heartbeat=settings.get("timeout.heartbeat"), joining=joining,
            report=lambda line: print(f"mxjax: {line}", file=sys.stderr, flush=True),
        )  # fmt: skip
        _kept.append(keeper)
        text = f"{host} {keeper.port} {token}".encode()
        note[: len(text)] = np.frombuffer(text, np.uint8)
    if size > 1:
        note = np.asarray(multihost_utils.broadcast_one_to_all(note))
    host, port, token = bytes(note).rstrip(b"\0").decode().split()
    here = member.reach(host, int(port), token, rank, joining, of=" in rank 0")
    here.start(joining)
    return here


def _own_address() -> str:
    """The address of this machine at which the others reach JAX's coordinator as well."""
    address = getattr(find("global_state"), "coordinator_address", None) or ""
    return socket.gethostbyname(address.rsplit(":", 1)[0].strip("[]") or socket.gethostname())


def _serve() -> None:
    """What ps-lite's other roles do here: the scheduler keeps the job, servers are not needed.

    Both end the process, as they do in MXNet.
    """
    role = settings.env("DMLC_ROLE")
    if role == "server":
        sys.exit(0)
    if role != "scheduler":
        raise MXNetValueError(f"DMLC_ROLE={role!r}: expected worker, scheduler or server")
    host = settings.env("DMLC_PS_ROOT_URI") or "127.0.0.1"
    size, token = member.number("DMLC_NUM_WORKER"), settings.env("DMLC_JOB_TOKEN") or ""
    wire.check_token(token.encode(), host)  # before anything listens
    coordinator = Coordinator(host, size, settings.get("timeout.heartbeat"))
    keeper = Keeper(
        size, token, host=host,
        port=member.number("DMLC_PS_ROOT_PORT"), address=coordinator.address,
        heartbeat=settings.get("timeout.heartbeat"), joining=settings.get("timeout.join"),
    )  # fmt: skip
    keeper.over.wait()
    keeper.wait_until_gone()
    coordinator.close()
    keeper.close()
    sys.exit(0 if keeper.lost is None else 1)
