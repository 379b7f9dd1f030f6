"""The keeper of a job: who is in it, who is missing, and in which order they communicate.

It has its own sockets and takes no part in the computation, so it answers while the members compute,
wait for each other or are gone.  Locally it lives in the launcher; elsewhere in a thread of rank 0.

What a member sends, and what comes back:

    join     (rank or null, host, pid)    -> "joined" with rank and size; "start" when all are there,
                                    with the address of JAX's coordinator
    beat     every tenth of the heartbeat, in both directions
    agree    (first, marks, patience): from operation `first` on I would do those with these marks
             -> "agreed" (count) when all have asked: so many of them are the same everywhere;
             -> "explain" (index) where one differs, and after the answers "differ" with all of them
    tell     (text) -> "told" with the texts of all ranks when all have told one
    leave    the script has ended well    -> "parted" when all have left
    failed   the script has ended with an error
    lost     (from the keeper) a member is missing, and why: the job is over
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from . import wire

__all__ = ["Keeper"]

log = logging.getLogger("mxjax.launch")

#: The characters of one operation's mark in "agree".
MARK = 16
#: The most characters of one text in "tell" and "explained".
TEXT = 2000
#: Parts of the heartbeat: between two signs of life, and the silence after which a member is missing.
PAUSE = 0.1
SILENCE = 0.8


class _Seat:
    """One member, as the keeper sees it."""

    def __init__(self, channel: wire.Channel, rank: int, where: str) -> None:
        self.channel = channel
        self.rank = rank
        self.where = where
        self.heard = time.monotonic()
        self.left = False
        self.gone = False  # its connection has ended
        self.asked: tuple[int, str] | None = None  # first operation and marks of its "agree"
        self.asked_at = 0.0
        self.patience: float | None = None
        self.explanation: str | None = None
        self.told: str | None = None


class Keeper:
    """Listens for the members of one job and watches over them until the last has left.

    Args:
      size: how many members there are.
      token: what they must know; empty at a loopback address alone.
      host: the address to listen at.
      port: the port; 0: one that is free.
      heartbeat: seconds without a sign of life after which a member is missing.
      joining: seconds within which all must have joined.
      address: where JAX's coordinator listens, for the members.
      report: called with a line for people: who was refused, who is missing.

    Raises:
      MXNetValueError: the token is empty, and the address is not a loopback address.
      OSError: the address cannot be listened at.
    """

    def __init__(
        self, size: int, token: str, host: str = "127.0.0.1", port: int = 0,
        heartbeat: float = 10.0, joining: float = 300.0, address: str = "",
        report: Callable[[str], None] = log.warning,
    ) -> None:  # fmt: skip
        wire.check_token(token.encode(), host)
        self.size = size
        self.heartbeat = heartbeat
        self._token = token.encode()
        self._joining = joining
        self._report = report
        self._lock = threading.RLock()
        self._seats: dict[int, _Seat] = {}
        self._address = address
        self._started = False
        self._explaining: int | None = None
        self._strangers = 0
        self.lost: tuple[int, str] | None = None  #: the missing rank, and why
        self.over = threading.Event()  #: all have left, or somebody is missing
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, port), family=family, backlog=size + 16)
        self.host, self.port = host, self._server.getsockname()[1]
        self._closed = False
        self._began = time.monotonic()
        for work in (self._accept, self._watch):
            threading.Thread(target=work, name=f"mxjax keeper {work.__name__}", daemon=True).start()

    def close(self) -> None:
        """End it; members that are still there hear that the keeper is gone."""
        self._closed = True
        # A thread in accept() is not woken by close() alone.
        try:
            self._server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._server.close()
        with self._lock:
            seats = list(self._seats.values())
        for seat in seats:
            seat.channel.close()

    def wait_until_gone(self) -> None:
        """After the end of the job, wait for the members' processes, a heartbeat at most."""
        end = time.monotonic() + self.heartbeat
        while time.monotonic() < end and any(not seat.gone for seat in self._seats.values()):
            time.sleep(0.05)

    def missing(self, rank: int, why: str) -> None:
        """Declare a rank lost: all ranks are told, once, and the job ends."""
        with self._lock:
            if self.lost is not None or self._closed:
                return
            self.lost = (rank, why)
            self._report(f"rank {rank} {why}")
            self._tell_all({"op": "lost", "rank": rank, "why": why})
            self.over.set()

    # ---- listening -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, peer = self._server.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.05)  # out of file descriptors, or the like
                continue
            with self._lock:
                if self._strangers >= 64:  # connections that have proved nothing yet
                    sock.close()
                    continue
                self._strangers += 1
            threading.Thread(
                target=self._serve, args=(sock, f"{peer[0]}:{peer[1]}"), daemon=True,
                name="mxjax keeper member",
            ).start()  # fmt: skip

    def _serve(self, sock: socket.socket, peer: str) -> None:
        seat: _Seat | None = None
        try:
            try:
                channel = wire.accept(sock, self._token)
            finally:
                with self._lock:
                    self._strangers -= 1
            first = channel.receive()
            if first is None or first.get("op") != "join":
                raise wire.Refused("it did not ask to join")
            seat = self._join(channel, first, peer)
            while True:
                message = channel.receive()
                if message is None:
                    break
                self._take(seat, message)
        except (wire.Refused, OSError, TypeError, ValueError) as error:
            if seat is None:
                if not self._closed:
                    self._report(f"refused a connection from {peer}: {error}")
                sock.close()
                return
            if isinstance(error, wire.Refused):
                self.missing(seat.rank, f"sent what is no message of this job: {error}")
        if seat is None:
            return
        seat.gone = True
        seat.channel.close()
        if not seat.left:
            self.missing(seat.rank, "has ended: its connection to the job is closed")

    def _join(self, channel: wire.Channel, message: dict[str, Any], peer: str) -> _Seat:
        where = f"{message.get('host')} process {message.get('pid')}, {peer}"
        with self._lock:
            rank = message.get("rank")
            if rank is None:  # as in ps-lite, who comes first gets the first free number
                free = [r for r in range(self.size) if r not in self._seats]
                rank = free[0] if free else None
            reason = ""
            if self.lost is not None:
                reason = "the job is over: rank {} {}".format(*self.lost)
            elif type(rank) is not int or not 0 <= rank < self.size:
                reason = f"there is no rank {rank} in a job of {self.size}"
            elif rank in self._seats:
                reason = f"rank {rank} is taken by {self._seats[rank].where}"
            if reason or rank is None:
                channel.send({"op": "refused", "why": reason})
                raise wire.Refused(reason)
            seat = self._seats[rank] = _Seat(channel, rank, where)
            channel.send(
                {"op": "joined", "rank": rank, "size": self.size, "heartbeat": self.heartbeat}
            )
            self._start()
        return seat

    def _start(self) -> None:
        if len(self._seats) == self.size and not self._started:
            self._started = True
            self._tell_all({"op": "start", "address": self._address})

    def _tell_all(self, message: dict[str, Any]) -> None:
        for seat in list(self._seats.values()):
            try:
                seat.channel.send(message)
            except OSError:
                pass  # whoever serves that member finds out

    # ---- what members say ----------------------------------------------------------------------------

    def _take(self, seat: _Seat, message: dict[str, Any]) -> None:
        with self._lock:
            seat.heard = time.monotonic()
            what = message.get("op")
            if what == "agree":
                first, marks, patience = message["first"], message["marks"], message["patience"]
                if (
                    type(first) is not int
                    or type(marks) is not str
                    or len(marks) % MARK
                    or not marks
                ):
                    raise ValueError("agree")
                seat.asked, seat.asked_at = (first, marks), seat.heard
                seat.patience = None if patience is None else float(patience)
                self._agree()
            elif what == "tell":
                seat.told = str(message["text"])[:TEXT]
                texts = [self._seats[r].told for r in sorted(self._seats)]
                if len(texts) == self.size and None not in texts:
                    for s in self._seats.values():
                        s.told = None
                    self._tell_all({"op": "told", "texts": texts})
            elif what == "leave":
                seat.left = True
                if all(s.left for s in self._seats.values()) and len(self._seats) == self.size:
                    self._tell_all({"op": "parted"})
                    self.over.set()
                else:
                    self._left_behind()
            elif what == "failed":
                seat.left = True
                self.missing(seat.rank, f"has failed: {str(message['why'])[:2000]}")
            elif what == "explained":
                seat.explanation = str(message["text"])[:TEXT]
                self._differ()

    def _agree(self) -> None:
        seats = list(self._seats.values())
        self._left_behind()
        asked = [s.asked for s in seats if s.asked is not None]
        if len(asked) < self.size or self._explaining is not None or self.lost is not None:
            return
        count = min(len(marks) for _, marks in asked) // MARK
        first = asked[0][0]
        if len({marks for _, marks in asked}) > 1:
            for k in range(count):
                part = slice(k * MARK, (k + 1) * MARK)
                if any(marks[part] != asked[0][1][part] for _, marks in asked):
                    count = k
                    break
        if count == 0 or any(f != first for f, _ in asked):
            self._explaining = first
            self._tell_all({"op": "explain", "index": first})
            return
        for s in seats:
            s.asked = None
        self._tell_all({"op": "agreed", "first": first, "count": count})

    def _differ(self) -> None:
        texts = [self._seats[r].explanation for r in sorted(self._seats)]
        if all(text is not None for text in texts):
            self._tell_all({"op": "differ", "texts": texts})
            self._report(
                "the ranks do not communicate in the same order: "
                + "; ".join(f"rank {r}: {text}" for r, text in enumerate(texts))
            )

    def _left_behind(self) -> None:
        """Ranks that wait for a rank that has left get an error."""
        waiting = [s for s in self._seats.values() if s.asked is not None and not s.left]
        gone = [s for s in self._seats.values() if s.left]
        if waiting and gone:
            self.missing(
                gone[0].rank,
                f"has ended its script while rank {waiting[0].rank} still communicates",
            )

    # ---- watching ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        # Silence counts a little early, so that everybody has heard of it within the heartbeat.
        pause = self.heartbeat * PAUSE
        before = time.monotonic()
        while not self.over.wait(pause) and not self._closed:
            now = time.monotonic()
            with self._lock:
                seats = list(self._seats.values())
                if now - before > pause + self.heartbeat / 2:
                    for seat in seats:  # it was this process that stood still
                        seat.heard = now
                before = now
                self._tell_all({"op": "beat"})
                self._look_for_missing(seats, now)

    def _look_for_missing(self, seats: list[_Seat], now: float) -> None:
        for seat in seats:
            if now - seat.heard > self.heartbeat * SILENCE and not seat.left:
                self.missing(
                    seat.rank,
                    f"({seat.where}) has given no sign of life for {now - seat.heard:.2g} s: it "
                    "is stopped, or its network is down",
                )
                return
        if not self._started and now - self._began > self._joining:
            absent = [r for r in range(self.size) if r not in self._seats]
            if absent:
                self.missing(absent[0], f"did not join within {self._joining:g} s")
            return
        waiting = [s for s in seats if s.asked is not None and s.patience is not None]
        late = [s for s in seats if s.asked is None and not s.left]
        for seat in waiting:
            assert seat.patience is not None
            if late and now - seat.asked_at > seat.patience:
                self.missing(
                    late[0].rank,
                    f"did not come to a collective for which rank {seat.rank} has waited "
                    f"{seat.patience:g} s (option timeout.collective)",
                )
                return
