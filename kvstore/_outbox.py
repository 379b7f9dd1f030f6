"""What a worker asks of its servers: requests are sent together, by a thread or by whoever needs an answer.

A request leaves within a millisecond or so, and with it everything that was asked for in that time: so a loop
over 161 keys takes a few messages, and nobody has to say where it ends.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from mxjax import errors

from ._server import Server

__all__ = ["Answer", "LocalServers", "Outbox", "Servers"]

#: Seconds in which requests gather before the thread sends them.
LINGER = 0.001
#: So many bytes are sent at once.
PROMPT = 64 << 20
#: So many bytes, and messages, may be on their way to one server; then pushing waits.
UNDER_WAY = 256 << 20
MESSAGES = 64


class Servers(Protocol):
    """Some way to reach servers.

    Attributes:
      count: how many there are.
    """

    count: int

    def send(self, server: int, requests: Sequence[tuple[Any, ...]]) -> Any:
        """Begin `Server.do` there; a ticket. Arrays may change as soon as it returns."""

    def done(self, ticket: Any) -> bool:
        """Whether the answers are there."""

    def wait(self, server: int, ticket: Any) -> list[Any]:
        """The answers to all requests."""

    def check(self) -> None:
        """Raise if a server or a worker is missing."""

    def close(self) -> None:
        """Nobody asks any more."""


class LocalServers:
    """Servers in this process, for several workers in it: what the others do without a wire."""

    def __init__(self, count: int = 1):
        self.count = count
        self.servers = [Server(rank) for rank in range(count)]
        self.messages = 0
        self._lock = threading.Lock()

    def send(self, server: int, requests: Sequence[tuple[Any, ...]]) -> Any:
        with self._lock:
            self.messages += 1
            answers = self.servers[server].do(requests)
            return [a.copy() if hasattr(a, "copy") else a for a in answers]

    def done(self, ticket: Any) -> bool:
        return True

    def wait(self, server: int, ticket: Any) -> list[Any]:
        return ticket

    def check(self) -> None: ...

    def close(self) -> None: ...


class _Batch:
    """Requests that travel together to one server."""

    __slots__ = ("answers", "asked", "bytes", "requests", "server", "ticket")

    def __init__(self, server: int):
        self.server = server
        self.requests: list[tuple[Any, ...]] = []
        self.asked: list[
            bool
        ] = []  # whether somebody takes the answer, and the error that it may be
        self.bytes = 0
        self.ticket: Any = None
        self.answers: list[Any] | None = None


class Answer:
    """What a server will say to one request."""

    __slots__ = ("_batch", "_index", "_outbox")

    def __init__(self, outbox: Outbox, batch: _Batch, index: int):
        self._outbox = outbox
        self._batch = batch
        self._index = index

    def get(self) -> Any:
        """The answer; sends the request and waits if need be.

        Raises:
          MXNetError: the server could not do it, or is gone.
        """
        batch = self._batch
        self._outbox._finish(batch)
        assert batch.answers is not None
        answer = batch.answers[self._index]
        if isinstance(answer, tuple):
            raise errors.MXNetError(answer[1])
        return answer


class Outbox:
    """The requests of one worker, in their order, to each server."""

    def __init__(self, servers: Servers):
        self.servers = servers
        self._open: list[_Batch | None] = [None] * servers.count
        self._sent: deque[_Batch] = deque()
        self._bytes = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._failure: errors.MXNetError | None = None
        self._closed = False
        self.messages = 0  #: how many were sent
        threading.Thread(
            target=_send_soon,
            args=(weakref.ref(self), self._wake),
            name="mxjax pushes",
            daemon=True,
        ).start()
        weakref.finalize(self, self._wake.set)

    def post(
        self, server: int, request: tuple[Any, ...], nbytes: int = 0, asked: bool = True
    ) -> Answer:
        """Ask a server for something.

        Args:
          nbytes: what of the request counts as data.
          asked: whether the answer is going to be taken; if not, an error is raised by a later call.

        Raises:
          MXNetError: an earlier request, for whose answer nobody waited, has failed.
        """
        with self._lock:
            self.check()
            batch = self._open[server]
            if batch is None:
                batch = self._open[server] = _Batch(server)
            batch.requests.append(request)
            batch.asked.append(asked)
            batch.bytes += nbytes
            answer = Answer(self, batch, len(batch.requests) - 1)
            if batch.bytes >= PROMPT:
                self.flush()
        if not self._wake.is_set():
            self._wake.set()
        return answer

    def check(self) -> None:
        """Raise what has failed without anybody waiting for it, or that somebody is missing."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        self.servers.check()

    def flush(self) -> None:
        """Send what was asked for."""
        with self._lock:
            for k, batch in enumerate(self._open):
                if batch is not None:
                    self._open[k] = None
                    batch.ticket = self.servers.send(k, batch.requests)
                    batch.requests = []  # what they hold has travelled
                    self.messages += 1
                    self._bytes += batch.bytes
                    self._sent.append(batch)
            while self._sent and (
                self._bytes > UNDER_WAY
                or len(self._sent) > MESSAGES
                or self.servers.done(self._sent[0].ticket)
            ):
                self._finish(self._sent[0])

    def settle(self) -> None:
        """Send everything and wait until the servers have done it.

        Raises:
          MXNetError: something of it has failed.
        """
        with self._lock:
            self.flush()
            while self._sent:
                self._finish(self._sent[0])
            self.check()

    def _finish(self, batch: _Batch) -> None:
        if batch.answers is not None:
            return
        with self._lock:
            if batch.ticket is None:
                self.flush()
            if batch.answers is not None:
                return
            try:
                answers = self.servers.wait(batch.server, batch.ticket)
            finally:
                if batch in self._sent:
                    self._sent.remove(batch)
                    self._bytes -= batch.bytes
            batch.ticket, batch.answers = True, answers
            for answer, asked in zip(answers, batch.asked, strict=True):
                if isinstance(answer, tuple) and not asked and self._failure is None:
                    self._failure = errors.MXNetError(answer[1])

    def _send(self) -> None:
        """In the thread: what fails is told to whoever comes next."""
        try:
            self.flush()
        except errors.MXNetError as error:
            self._failure = self._failure or error


def _send_soon(outbox: weakref.ref[Outbox], wake: threading.Event) -> None:
    while True:
        wake.wait()
        time.sleep(LINGER)
        wake.clear()
        found = outbox()
        if found is None:
            return
        found._send()
        del found
