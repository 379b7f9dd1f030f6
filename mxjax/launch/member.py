"""This process as a member of a job: joining, signs of life, and the end of waiting.

    job = member.join()            # the variables of the launcher say where
    job.rank, job.size
    job.run(work)                  # work() in a thread of its own; raises when somebody is missing
    job.agree([...])               # how many of these operations all ranks would do next

A member whose group has broken gets an `MXNetError` that names the missing rank from whatever it waits
for, or from its next call.  If it calls nothing for another heartbeat it ends: whatever it may be
waiting for will never come.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import settings
from ..errors import MXNetError, MXNetValueError
from . import wire
from .keeper import MARK, PAUSE, SILENCE

__all__ = ["GroupBroken", "Member", "join"]

T = TypeVar("T")


class GroupBroken(MXNetError):
    """A member of the job is missing, or the ranks disagree: the group cannot go on.

    Attributes:
      rank: the missing rank, or None where it is not one.
    """

    rank: int | None = None


class Member:
    """One process's place in a job; made by `join`.

    Attributes:
      rank: its number, from 0.
      size: how many there are.
      address: where JAX's coordinator listens, once `start` has returned.
    """

    def __init__(
        self, channel: wire.Channel, keeper: str, rank: int | None, joining: float
    ) -> None:
        self._channel = channel
        self._keeper = keeper
        self._changed = threading.Condition()
        self._failure: GroupBroken | None = None
        self._delivered = False
        self._agreed: int | None = None
        self._told: list[str] | None = None
        self._parted = False
        self._status = 1  # of this process, when the group has broken
        self._describe: Callable[[int], str] = str
        self._work: _Worker | None = None
        self.address: str | None = None
        channel.settimeout(joining)
        channel.send({"op": "join", "rank": rank, "host": socket.gethostname(), "pid": os.getpid()})
        answer = channel.receive() or {"op": "refused", "why": "the keeper closed the connection"}
        if answer.get("op") != "joined":
            raise GroupBroken(f"this process may not join the job: {answer.get('why')}")
        channel.settimeout(None)
        self.rank, self.size = int(answer["rank"]), int(answer["size"])
        self.heartbeat = float(answer["heartbeat"])
        self._heard = time.monotonic()
        threading.Thread(target=self._listen, name="mxjax member", daemon=True).start()
        threading.Thread(target=self._beat, name="mxjax heartbeat", daemon=True).start()

    # ---- joining and leaving ---------------------------------------------------------------------------

    def start(self, patience: float) -> str:
        """Wait until all members are there; the address of JAX's coordinator."""
        self._wait(lambda: self.address is not None, patience, "did not see all members join")
        assert self.address is not None
        return self.address

    def leave(self) -> None:
        """Say that this member has ended well, and wait until all have."""
        self._send({"op": "leave"})
        self._wait(lambda: self._parted, None, "")

    def close(self) -> None:
        """The last thing: JAX is disconnected too."""
        self._channel.close()

    def fail(self, why: str, status: int = 1) -> None:
        """Say that this member ends with an error; the others hear it, unless they were first."""
        self._status = status
        if self.broken:
            return
        try:
            self._channel.send({"op": "failed", "why": why})
        except OSError:
            pass  # the keeper is gone, and everybody knows
        with self._changed:
            if self._failure is None:
                self._failure = GroupBroken(f"rank {self.rank} (this process) has failed: {why}")
            self._delivered = True

    @property
    def status(self) -> int:
        """What this process ends with when the group has broken: never 0."""
        return self._status

    @property
    def broken(self) -> bool:
        """Whether somebody is missing."""
        return self._failure is not None

    # ---- waiting ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the group has broken.

        Raises:
          GroupBroken: somebody is missing.
        """
        if self._failure is not None:
            self._delivered = True
            error = GroupBroken(str(self._failure))
            error.rank = self._failure.rank
            raise error

    def agree(
        self,
        first: int,
        marks: Sequence[str],
        describe: Callable[[int], str],
        patience: float | None,
    ) -> int:
        """How many of the operations that this rank would do next all ranks would do, in this order.

        Args:
          first: the number of the first of them.
          marks: a text of `keeper.MARK` characters for each that is the same on all ranks.
          describe: what operation number i is, for people.
          patience: seconds to wait for the others.

        Raises:
          GroupBroken: the ranks disagree, or somebody is missing.
        """
        assert all(len(mark) == MARK for mark in marks)
        with self._changed:
            self._agreed = None
            self._describe = describe
        self._send({"op": "agree", "first": first, "marks": "".join(marks), "patience": patience})
        self._wait(lambda: self._agreed is not None, None, "")
        assert self._agreed is not None
        return self._agreed

    def tell(self, text: str) -> list[str]:
        """What all ranks tell each other, in the order of the ranks; waits for all.

        Args:
          text: at most `keeper.TEXT` characters.

        Raises:
          GroupBroken: somebody is missing.
        """
        with self._changed:
            self._told = None
        self._send({"op": "tell", "text": text})
        self._wait(lambda: self._told is not None, None, "")
        assert self._told is not None
        return self._told

    def run(self, work: Callable[[], T], what: str, patience: float | None) -> T:
        """Do work that can hang when a member is missing, in a thread of its own.

        Raises:
          GroupBroken: somebody is missing.
        """
        self.check()
        if self._work is None:
            self._work = _Worker(self._changed)
        task = self._work.begin(work)
        self._wait(lambda: task.done, patience, f"did not finish {what}")
        if task.error is not None:
            # A neighbour's broken connection shows here before the keeper has found out whose it is.
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None, self.heartbeat)
            self.check()
            raise task.error
        return task.result  # type: ignore[no-any-return]

    def _wait(self, ready: Callable[[], bool], patience: float | None, what: str) -> None:
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure is not None or ready(), patience)
            if not done:
                self._broken(None, f"rank {self.rank} (this process) {what} within {patience:g} s")
        if not (done and self._failure is None):
            self.check()

    # ---- the threads -----------------------------------------------------------------------------------

    def _send(self, message: dict[str, Any]) -> None:
        self.check()
        try:
            self._channel.send(message)
        except OSError as error:
            self._broken(None, f"the keeper of the job at {self._keeper} is gone: {error}")
            self.check()

    def _broken(self, rank: int | None, text: str) -> None:
        with self._changed:
            if self._failure is None and not self._parted:
                failure = GroupBroken(text)
                failure.rank = rank
                self._failure = failure
                threading.Thread(target=self._end, name="mxjax end", daemon=True).start()
            self._changed.notify_all()

    def _end(self) -> None:
        """End the process if it goes on waiting for what will never come."""
        time.sleep(self.heartbeat)
        if not self._delivered:
            print(f"mxjax: {self._failure}; ending", file=sys.stderr, flush=True)
            os._exit(1)

    def _listen(self) -> None:
        why = "it has closed the connection"
        try:
            while (message := self._channel.receive()) is not None:
                self._heard = time.monotonic()
                self._take(message)
        except (wire.Refused, OSError, KeyError, TypeError, ValueError) as error:
            why = str(error)
        self._broken(None, f"the keeper of the job at {self._keeper} is gone: {why}")

    def _take(self, message: dict[str, Any]) -> None:
        what = message.get("op")
        if what == "lost":
            rank = int(message["rank"])
            mine = " (this process)" if rank == self.rank else ""
            self._broken(rank, f"rank {rank}{mine} of {self.size} {message['why']}")
        elif what == "differ":
            texts = [f"rank {r}: {text}" for r, text in enumerate(message["texts"])]
            self._broken(
                None,
                "the ranks do not use the kvstore in the same order with the same keys, shapes and "
                f"dtypes. Next would be {'; '.join(texts)}. Every rank has to make the same calls",
            )
        elif what == "explain":
            text = self._describe(int(message["index"]))
            self._channel.send({"op": "explained", "text": text})
        elif what != "beat":
            with self._changed:
                if what == "start":
                    self.address = str(message["address"])
                elif what == "agreed":
                    self._agreed = int(message["count"])
                elif what == "told":
                    self._told = [str(text) for text in message["texts"]]
                elif what == "parted":
                    self._parted = True
                self._changed.notify_all()

    def _beat(self) -> None:
        pause = self.heartbeat * PAUSE
        before = time.monotonic()
        while self._failure is None and not self._parted:
            try:
                self._channel.send({"op": "beat"})
            except OSError:
                return  # the listener says so
            time.sleep(pause)
            now = time.monotonic()
            if now - before > pause + self.heartbeat / 2:
                self._heard = now  # it was this process that stood still
            before = now
            if now - self._heard > self.heartbeat * SILENCE:
                self._broken(
                    None,
                    f"the keeper of the job at {self._keeper} has given no sign of life for "
                    f"{now - self._heard:.2g} s: it is stopped, or the network is down",
                )


class _Task:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None


class _Worker:
    """One thread that does one task at a time."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._next: _Task | None = None
        self._given = threading.Event()
        threading.Thread(target=self._loop, name="mxjax collectives", daemon=True).start()

    def begin(self, work: Callable[[], Any]) -> _Task:
        task = self._next = _Task(work)
        self._given.set()
        return task

    def _loop(self) -> None:
        while True:
            self._given.wait()
            self._given.clear()
            task, self._next = self._next, None
            if task is None:
                continue
            try:
                task.result = task.work()
            except Exception as error:
                task.error = error
            with self._changed:
                task.done = True
                self._changed.notify_all()


# ---- this process's membership ---------------------------------------------------------------------------

_member: Member | None = None
_lock = threading.Lock()

MISSING = (
    "this process belongs to no job, and a kvstore of several processes needs one: start the script with "
    "`python -m mxjax.launch -n 2 script.py` (DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and "
    "DMLC_NUM_WORKER of other launchers are understood too)"
)


def current() -> Member | None:
    """This process's membership; None before `join`."""
    return _member


def join() -> Member:
    """Join the job that the environment names, once per process; waits for nobody.

    Raises:
      GroupBroken: the keeper is not there, or refuses.
      MXNetError: the environment names no job, or one without a token at an address that is not loopback.
    """
    global _member
    with _lock:
        if _member is None:
            host = settings.env("DMLC_PS_ROOT_URI")
            if not host:
                raise MXNetError(MISSING)
            token = settings.env("DMLC_JOB_TOKEN") or ""
            rank = None if settings.env("DMLC_WORKER_ID") is None else number("DMLC_WORKER_ID")
            joining = settings.get("timeout.join")
            return reach(host, number("DMLC_PS_ROOT_PORT"), token, rank, joining)
    return _member


def reach(
    host: str, port: int, token: str, rank: int | None, joining: float, of: str = ""
) -> Member:
    """Make this process a member of the job whose keeper is at this address.

    Args:
      of: whose it is, for people: where its end is that of a rank.

    Raises:
      GroupBroken: the keeper is not there, or refuses.
    """
    global _member
    channel = _reach(host, port, token.encode(), joining)
    _member = Member(channel, f"{host}:{port}{of}", rank, joining)
    _watch_the_end(_member)
    return _member


def number(name: str) -> int:
    """What a launcher's variable says.

    Raises:
      MXNetValueError: it is no number.
    """
    text = settings.env(name) or ""
    if not text.isdigit():
        raise MXNetValueError(f"{name}={text!r}: expected a number, as launchers set it")
    return int(text)


def _reach(host: str, port: int, token: bytes, patience: float) -> wire.Channel:
    """A channel to the keeper, which another launcher may start a little later than this process."""
    end = time.monotonic() + patience
    while True:
        try:
            return wire.connect(host, port, token)
        except wire.Refused as error:
            raise GroupBroken(f"this process may not join the job: {error}") from None
        except OSError as error:
            if time.monotonic() > end:
                raise GroupBroken(
                    f"no keeper of a job answers at {host}:{port} within {patience:g} s: {error}"
                ) from None
            time.sleep(0.2)


def _watch_the_end(member: Member) -> None:
    """Let the others know how this process ends, and let it end."""
    hook = sys.excepthook

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        hook(kind, error, trace)
        member.fail(f"{kind.__name__}: {error}")

    sys.excepthook = excepthook
    atexit.register(_finish, member)


def _finish(member: Member) -> None:
    if not member.broken:
        try:
            part(member)
            return
        except GroupBroken as error:
            print(f"mxjax: {error}", file=sys.stderr)
    # Threads of XLA may wait for a member that is gone, and JAX's own end would wait for it too.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(member.status)


def part(member: Member) -> None:
    """Leave together: JAX's coordinator, in rank 0, must be the last to go."""
    import jax

    member.leave()
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
    member.close()
