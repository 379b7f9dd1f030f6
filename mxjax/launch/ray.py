"""A job whose processes Ray places on its machines."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from .. import settings
from ..errors import MXNetValueError
from . import cluster, local
from .coordinator import Coordinator
from .keeper import Keeper

__all__ = ["run"]


def run(args: argparse.Namespace, environment: dict[str, str]) -> int:
    """Start `args.workers` processes as tasks of Ray, and wait for them; the exit status.

    Connects to the cluster that RAY_ADDRESS names, or starts one on this machine.

    Raises:
      ImportError: Ray is not installed.
      MXNetValueError: no number of processes, or more than the cluster has CPUs.
    """
    from .__main__ import command_of

    cluster.require()
    if args.workers is None or args.workers < 1:
        raise MXNetValueError("--engine ray needs -n and a number of processes")
    command = command_of(args.command)
    address = cluster.named()
    settings.export(RAY_DEDUP_LOGS="0")  # each rank's lines, also where they are the same
    with tempfile.TemporaryDirectory(prefix="mxjax-", ignore_cleanup_errors=True) as folder:
        if address is None:
            cpus = max(args.workers, os.cpu_count() or 1)  # each task takes one
            ray = cluster.start(secrets.token_hex(32), folder, cpus, log_to_driver=True)
        else:
            ray = cluster.connect(address, None, log_to_driver=True)
        try:
            there = int(ray.cluster_resources().get("CPU", 0))
            if there < args.workers:
                raise MXNetValueError(
                    f"-n {args.workers}: the Ray cluster at {address} has {there} CPUs, and each process takes one"
                )
            host = args.host if address is None else ray.util.get_node_ip_address()
            # In the processes: the same cluster, for the servers of a 'dist_async' kvstore.
            environment = {**environment, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
            return local.again(
                lambda attempt: _attempt(ray, args, command, host, environment, attempt),
                args.restarts,
            )
        finally:
            ray.shutdown()


def _attempt(
    ray: Any, args: argparse.Namespace, command: Sequence[str], host: str,
    environment: dict[str, str], attempt: int,
) -> int:  # fmt: skip
    token = secrets.token_hex(16)
    heartbeat, joining = float(environment["MXJAX_TIMEOUT_HEARTBEAT"]), settings.get("timeout.join")
    coordinator = Coordinator(host, args.workers, heartbeat)
    keeper = Keeper(
        args.workers, token, host, args.port, heartbeat, joining,
        address=coordinator.address, report=local.say,
    )  # fmt: skip
    try:
        task = ray.remote(max_retries=0, num_cpus=1, scheduling_strategy="SPREAD")(_one)
        running = {
            task.remote(
                list(command),
                {
                    **environment,
                    "DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": host,
                    "DMLC_PS_ROOT_PORT": str(keeper.port), "DMLC_NUM_WORKER": str(args.workers),
                    "DMLC_WORKER_ID": str(rank),
                    "DMLC_NUM_ATTEMPT": str(attempt),
                    "DMLC_JOB_TOKEN": token, "PYTHONUNBUFFERED": "1",
                },
            ): rank
            for rank in range(args.workers)
        }  # fmt: skip
        ends: dict[int, int] = {}
        while running:
            done, _ = ray.wait(list(running), timeout=heartbeat)
            for task_id in done:
                rank = running.pop(task_id)
                try:
                    ends[rank] = ray.get(task_id)
                except ray.exceptions.RayError as error:
                    local.say(f"the process of Ray's with rank {rank} is gone: {error}")
                    ends[rank] = 1
            if keeper.lost is not None and not done:
                for task_id in running:  # they have had a heartbeat's time
                    ray.cancel(task_id, force=True)
                break
        first = None if keeper.lost is None else ends.get(keeper.lost[0])
        return first or next(filter(None, ends.values()), 1 if running else 0)
    finally:
        keeper.close()
        coordinator.close()


def _address() -> str:
    """At which the other machines reach the one of this process of Ray's."""
    import ray

    return str(ray.util.get_node_ip_address())


def _one(command: list[str], environment: dict[str, str]) -> int:
    """In a process of Ray's: one member of the job; its exit status."""
    process = subprocess.Popen(
        command, env=settings.child_environment(**environment, DMLC_NODE_HOST=_address()), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(f"[{environment['DMLC_WORKER_ID']}] {line}", end="", flush=True)
        code = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code
