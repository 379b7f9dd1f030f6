"""A job whose processes Ray places on its machines."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from .. import settings
from ..errors import MXNetValueError, optional_import
from . import local
from .coordinator import Coordinator
from .keeper import Keeper

__all__ = ["run"]


def run(args: argparse.Namespace, environment: dict[str, str]) -> int:
    """Start `args.workers` processes as tasks of Ray, and wait for them; the exit status.

    Connects to the cluster that RAY_ADDRESS names, or starts one on this machine.
    """
    from .__main__ import command_of

    ray = optional_import("ray", "ray")
    if args.workers is None:
        raise MXNetValueError("-n is needed with --engine ray")
    command = command_of(args.command)
    there = bool(settings.env("RAY_ADDRESS"))
    ray.init(
        address="auto" if there else None, include_dashboard=None if there else False,
        log_to_driver=True, logging_level="ERROR",
    )  # fmt: skip
    try:
        host = ray.util.get_node_ip_address() if there else args.host
        return local.again(lambda attempt: _attempt(ray, args, command, host, environment, attempt),
                           args.restarts)
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
        running = [
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
            )
            for rank in range(args.workers)
        ]  # fmt: skip
        status = 0
        while running:
            done, running = ray.wait(running, timeout=heartbeat)
            for task_id in done:
                try:
                    found = ray.get(task_id)
                except ray.exceptions.RayError as error:
                    local.say(f"a process of Ray's is gone: {error}")
                    found = 1
                status = status or found
            if keeper.lost is not None and not done:
                for task_id in running:  # they have had a heartbeat's time
                    ray.cancel(task_id, force=True)
                return status or 1
        return status
    finally:
        keeper.close()
        coordinator.close()


def _one(command: list[str], environment: dict[str, str]) -> int:
    """In a process of Ray's: one member of the job; its exit status."""
    process = subprocess.Popen(
        command, env=settings.child_environment(**environment), stdin=subprocess.DEVNULL,
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
