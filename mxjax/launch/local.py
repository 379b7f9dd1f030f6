"""Processes of a job on this machine: starting, their output, their end, and starting again."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from .. import settings
from .coordinator import Coordinator
from .keeper import Keeper

__all__ = ["Job", "run"]


class Job(NamedTuple):
    """What to start.

    Attributes:
      command: the command line of every process.
      workers: how many processes to start here.
      size: how many the job has.
      first: the rank of the first one here.
      host: the address to listen at.
      port: the keeper's port; 0: a free one.
      keeper: ``(host, port)`` of the keeper, where another launcher has it.
      token: what members must know; None: a new one.
      heartbeat: seconds within which everybody hears that somebody is missing.
      joining: seconds within which all must have joined.
      environment: variables of the processes, over this one's.
      prefix: whether lines of output begin with the rank.
      name: what the command is called, where it is a launcher and no member of the job.
    """

    command: Sequence[str]
    workers: int
    size: int
    first: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    keeper: tuple[str, int] | None = None
    token: str | None = None
    heartbeat: float = 10.0
    joining: float = 300.0
    environment: dict[str, str] = {}  # noqa: RUF012
    prefix: bool = True
    name: str | None = None


class _Process:
    """One process, and the threads that pass its output on."""

    def __init__(self, job: Job, rank: int, environment: dict[str, str]) -> None:
        self.rank = rank
        self.name = f"rank {rank}" if job.name is None else job.name  # for people
        # A session of its own: Ctrl-C reaches the launcher alone, and one signal all that it started.
        self.popen = subprocess.Popen(
            job.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        mark = f"[{rank}] ".encode() if job.prefix else b""
        assert self.popen.stdout is not None and self.popen.stderr is not None
        self._readers = [
            threading.Thread(target=_pass_on, args=(source, target, mark), daemon=True)
            for source, target in (
                (self.popen.stdout, sys.stdout),
                (self.popen.stderr, sys.stderr),
            )
        ]
        for reader in self._readers:
            reader.start()

    def signal(self, number: int) -> None:
        """Send a signal to the process and to what it started."""
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # all of them are gone

    def drain(self) -> None:
        """Wait for the rest of its output."""
        for reader in self._readers:
            reader.join(timeout=2)  # somebody that it started may hold the pipe

    @property
    def status(self) -> int | None:
        """How it ended, as shells say it; None while it runs."""
        code = self.popen.poll()
        return None if code is None else code if code >= 0 else 128 - code


_output = threading.Lock()


def _pass_on(source: IO[bytes], target: IO[str], mark: bytes) -> None:
    with source:
        for line in source:
            text = (mark + line).decode(errors="replace")
            with _output:
                try:
                    target.write(text if text.endswith("\n") else text + "\n")
                    target.flush()
                except (OSError, ValueError):
                    pass  # nobody reads ours any more: the processes go on


def say(text: str) -> None:
    """A line of the launcher itself, for people."""
    with _output:
        try:
            print(f"mxjax.launch: {text}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass


class _Interrupted(Exception):
    def __init__(self, number: int) -> None:
        self.number = number


def run(job: Job, restarts: int = 0) -> int:
    """Run a job to its end, again after a failure if `restarts` allows it; its exit status.

    That is 0, or the status of the rank that failed first (128 + n after signal n).
    """
    return again(lambda attempt: _attempt(job, attempt), restarts)


def again(once: Callable[[int], int], restarts: int) -> int:
    """`once(attempt)` until it gives 0 or has been repeated so often; signals end it."""

    def interrupt(number: int, frame: object) -> None:
        raise _Interrupted(number)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        attempt = 0
        while True:
            status = once(attempt)
            if status == 0 or attempt >= restarts:
                return status
            attempt += 1
            say(f"starting all again from the last checkpoint ({attempt} of {restarts})")
    except _Interrupted as error:
        return 128 + error.number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _attempt(job: Job, attempt: int) -> int:
    token = job.token or secrets.token_hex(16)
    keeper = coordinator = None
    address = job.keeper
    processes: list[_Process] = []
    # What processes leave here goes with the job, however they end.
    scratch = tempfile.TemporaryDirectory(prefix="mxjax-", ignore_cleanup_errors=True)
    try:
        if address is None:
            coordinator = Coordinator(job.host, job.size, job.heartbeat)
            keeper = Keeper(
                job.size, token, job.host, job.port, job.heartbeat, job.joining,
                address=coordinator.address, report=say,
            )  # fmt: skip
            address = (job.host, keeper.port)
        for rank in range(job.first, job.first + job.workers):
            environment = settings.child_environment(
                **{
                    **job.environment,
                    "DMLC_ROLE": "worker",
                    "DMLC_PS_ROOT_URI": address[0],
                    "DMLC_PS_ROOT_PORT": str(address[1]),
                    "DMLC_NUM_WORKER": str(job.size),
                    "DMLC_NUM_SERVER": job.environment.get("DMLC_NUM_SERVER", "0"),
                    "DMLC_WORKER_ID": str(rank),
                    "DMLC_NODE_HOST": job.host,
                    "DMLC_SCRATCH": scratch.name,
                    "DMLC_NUM_ATTEMPT": str(attempt),
                    "DMLC_JOB_TOKEN": token,
                    "PYTHONUNBUFFERED": "1",
                }
            )
            processes.append(_Process(job, rank, environment))
        return _watch(job, processes, keeper)
    finally:
        _end(processes)
        if keeper is not None:
            keeper.close()
        if coordinator is not None:
            coordinator.close()
        scratch.cleanup()


def site(command: Sequence[str], environment: dict[str, str], restarts: int) -> int:
    """Run the command of a site's own launcher, which starts the processes; its exit status."""

    def once(attempt: int) -> int:
        job = Job(command, 1, 1, prefix=False, name=os.path.basename(command[0]))
        variables = {**environment, "DMLC_NUM_ATTEMPT": str(attempt)}
        processes = [_Process(job, 0, settings.child_environment(**variables))]
        try:
            return _watch(job, processes, None)
        finally:
            _end(processes)

    return again(once, restarts)


def _watch(job: Job, processes: list[_Process], keeper: Keeper | None) -> int:
    """Wait until all have ended, or one has failed and the others had time to say so."""
    first: _Process | None = None
    deadline = float("inf")
    while True:
        running = [p for p in processes if p.status is None]
        failed = [p for p in processes if p.status]
        lost = keeper.lost if keeper is not None else None
        if (failed or lost is not None) and deadline == float("inf"):
            deadline = time.monotonic() + job.heartbeat
        late = time.monotonic() > deadline
        if late:
            _end(processes)  # among them one that is missing and runs all the same: a stopped one
        if first is None and (failed or late):
            first = _culprit(processes, lost)
            if first is not None:
                say(f"{first.name} ended with status {first.status}")
                if keeper is not None:
                    keeper.missing(first.rank, f"has ended with status {first.status}")
        if late or not running:
            if first is None and lost is None:
                return 0
            return (first.status if first is not None else None) or 1
        time.sleep(0.02)


def _culprit(processes: list[_Process], lost: tuple[int, str] | None) -> _Process | None:
    """The process that failed first; None while the missing one has not ended."""
    for process in processes:
        if lost is not None and process.rank == lost[0]:
            return process if process.status is not None else None
    failed = [p for p in processes if p.status]
    # Where one was killed, others may have failed of that before anybody looked.
    return next((p for p in failed if (p.status or 0) > 128), failed[0] if failed else None)


def _end(processes: list[_Process]) -> None:
    """End what still runs: first politely, then not."""
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        running = [p for p in processes if p.status is None]
        for process in running:
            process.signal(number)
            process.signal(signal.SIGCONT)  # a stopped one would keep the signal to itself
        end = time.monotonic() + patience
        while any(p.status is None for p in running) and time.monotonic() < end:
            time.sleep(0.02)
    for process in processes:
        process.signal(signal.SIGKILL)  # what it started and left behind
        process.drain()
