"""Sums over the processes of one machine, in memory that all of them have.

Each process copies a piece in, adds up its share of that piece over all of them, and copies the whole sum
out.  Several pieces are under way, so that a process that is a little behind delays nobody.  The memory
and the pipes by which processes wake each other have no names in the file system: whatever is killed,
nothing stays.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxjax.launch.member import Member

#: The most bytes of one piece, which is what gloo is fastest with; within a machine smaller ones that
#: stay in the processors' cache are faster.
LONGEST, SHORT = 4 << 20, 1 << 20
#: Pieces whose memory is in use at a time.
SLOTS = 3
#: Shares of a piece begin at lines of the processors' caches.
LINE = 64

Between = Callable[[np.ndarray], np.ndarray]
Rows = Sequence[np.ndarray] | np.ndarray


class Machine:
    """The processes of a job that share this machine's memory.

    Made on all ranks together; where memory cannot be shared a process is a machine by itself.

    Args:
      member: this process in the job.
      share: whether this process may share memory.

    Attributes:
      ranks: those of this machine, in order.
      leaders: the first rank of each machine, in order.
      groups: the ranks of each machine.
      piece: bytes of a piece.
    """

    def __init__(self, member: Member, share: bool) -> None:
        self._own = _Own() if share and member.size > 1 and hasattr(os, "memfd_create") else None
        notes = [json.loads(t) for t in member.tell(json.dumps(self._own and self._own.note))]
        mine = notes[member.rank]
        ranks = [r for r, n in enumerate(notes) if n and mine and n["machine"] == mine["machine"]]
        self._memories: list[np.ndarray] = []  # of each process; the sums are in the first one's
        self._bells: list[int] = []  # of the others
        reached = False
        if len(ranks) > 1:
            try:
                for r in ranks:
                    self._reach(notes[r], mine=r == member.rank)
                reached = True
            except OSError:
                pass  # another system's processes, or another user's
        # All of a machine have reached each other, or each is by itself.
        said = [t == "1" for t in member.tell("1" if reached else "0")]
        groups: dict[Any, list[int]] = {}
        for r, note in enumerate(notes):
            groups.setdefault(note["machine"] if note else r, []).append(r)
        for name, group in list(groups.items()):
            if len(group) > 1 and not all(said[r] for r in group):
                del groups[name]
                groups.update({r: [r] for r in group})
        self.groups = sorted(groups.values())
        self.leaders = [group[0] for group in self.groups]
        self.ranks = next(group for group in self.groups if member.rank in group)
        self._place = self.ranks.index(member.rank)
        self._rung = [0] * len(
            self.ranks
        )  # how often each has rung, as far as this process has heard
        self._rounds = 0
        self.piece = LONGEST if len(self.leaders) > 1 else SHORT

    def _reach(self, note: dict[str, Any], mine: bool) -> None:
        """Open another process's memory and bell, if they are what they should be."""
        assert self._own is not None
        if mine:
            self._memories.append(self._own.memory)
            return
        places = [
            f"/proc/{int(note['pid'])}/fd/{int(note[name][0])}" for name in ("memory", "bell")
        ]
        for place, name in zip(places, ("memory", "bell"), strict=True):
            if os.readlink(place) != note[name][1]:
                raise OSError(f"{place} is not {note[name][1]}")
        memory = os.open(places[0], os.O_RDWR | os.O_CLOEXEC)
        try:
            self._memories.append(_mapped(memory))
        finally:
            os.close(memory)
        self._bells.append(os.open(places[1], os.O_WRONLY | os.O_CLOEXEC))

    def sum(
        self, count: int, fill: Callable[[int, np.ndarray], np.ndarray],
        take: Callable[[int, np.ndarray], None], between: Between | None,
    ) -> None:  # fmt: skip
        """Sum so many pieces of each process over all processes of the job.

        Args:
          fill: writes this process's piece k to the beginning of a block of bytes; what it wrote, as an
            array of the piece's dtype.
          take: gets the sum of piece k, in memory that is used again afterwards.
          between: the sum of an array over the machines' leaders; None with one machine.
        """
        # Each round ends with a ring. When all have rung for round k - 1, their pieces k are in and their
        # shares of piece k - 1 are summed: so round k sums piece k, and takes piece k - 1 out (with several
        # machines k - 2, after the first process has sent k - 1). A slot is used again SLOTS rounds later,
        # when all are done with what lay there.
        lag = 1 if between is None else 2
        last = count + lag - 1
        ways: dict[int, tuple[list[np.ndarray], np.ndarray]] = {}
        for k in range(-1, last + 1):
            if k + 1 < count:
                slot = (k + 1) % SLOTS * LONGEST
                piece = fill(k + 1, self._memories[self._place][slot : slot + LONGEST])
                ways[k + 1] = self._ways(k + 1, piece)
            if k >= 0:
                self._wait(k)
            if 0 <= k < count:
                self._add(*ways[k])
            if between is not None and 1 <= k <= count and self._place == 0:
                whole = ways[k - 1][1]
                np.copyto(whole, between(whole))
            if k >= lag:
                take(k - lag, ways.pop(k - lag)[1])
            if k < last:
                self._ring()
        self._rounds += count + lag

    def _ways(self, k: int, piece: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Piece k of all processes, and where its sum goes."""
        slot = k % SLOTS * LONGEST
        parts = [_at(memory, slot, piece) for memory in self._memories]
        return parts, _at(self._memories[0], slot + SLOTS * LONGEST, piece)

    def _add(self, parts: list[np.ndarray], whole: np.ndarray) -> None:
        """Write this process's share of a piece's sum; in the order of the ranks, wherever it is added."""
        step = max(LINE // whole.itemsize, 1)
        lines = -(-whole.size // step)
        share = slice(*(step * (lines * p // len(parts)) for p in (self._place, self._place + 1)))
        with np.errstate(all="ignore"):  # a sum that overflows is infinite
            np.add(parts[0][share], parts[1][share], out=whole[share])
            for part in parts[2:]:
                np.add(whole[share], part[share], out=whole[share])

    def exchange(
        self, mine: np.ndarray, step: int, take: Callable[[int, Rows], None],
        between: Callable[[Rows], np.ndarray] | None,
    ) -> None:  # fmt: skip
        """Hand every process what each of them has: as many bytes on all.

        Args:
          mine: the bytes of this process.
          step: how many of them at a time.
          take: gets where a step begins, and in memory that is used again the bytes of the processes of this
            machine, or what `between` made of them.
          between: makes rows of bytes of all machines from those of this one; None with one machine. Only
            the first process of a machine calls it.
        """
        # Round k hands out step k, or with several machines k - 1, once the first process has fetched what the
        # others have. The last round is there for nobody to write over what another one still reads.
        count = -(-mine.size // step)
        for k in range(-1, count + 1):
            if k + 1 < count:
                piece = mine[(k + 1) * step : (k + 2) * step]
                np.copyto(_at(self._memories[self._place], (k + 1) % SLOTS * LONGEST, piece), piece)
            if k >= 0:
                self._wait(k)
            if between is not None and k >= 1:
                take((k - 1) * step, self._rows(k - 1, min(step, mine.size - (k - 1) * step)))
            if 0 <= k < count:
                piece = mine[k * step : (k + 1) * step]
                parts = [_at(memory, k % SLOTS * LONGEST, piece) for memory in self._memories]
                if between is None:
                    take(k * step, parts)
                elif self._place == 0:
                    np.copyto(self._rows(k, piece.size), between(parts))
            if k < count:
                self._ring()
        self._rounds += count + 1

    def _rows(self, k: int, size: int) -> np.ndarray:
        """Where the first process puts what all machines have of step k: a row for each place on each machine."""
        rows = len(self.groups) * self.crowd
        start = (SLOTS + k % SLOTS) * LONGEST
        return self._memories[0][start : start + rows * size].reshape(rows, size)

    @property
    def crowd(self) -> int:
        """The most processes of a machine."""
        return max(map(len, self.groups))

    def _ring(self) -> None:
        for bell in self._bells:
            os.write(bell, self._place.to_bytes(2, "little"))

    def _wait(self, k: int) -> None:
        """Until all others have rung for the round before."""
        assert self._own is not None
        self._rung[self._place] = self._rounds + k + 1
        while min(self._rung) <= self._rounds + k:
            for place in np.frombuffer(os.read(self._own.bell, 4096), "<u2").tolist():
                self._rung[place] += 1


class _Own:
    """What a process shares: memory, and a pipe that wakes it."""

    def __init__(self) -> None:
        memory = os.memfd_create(f"mxjax-{secrets.token_hex(8)}", os.MFD_CLOEXEC)
        os.ftruncate(memory, 2 * SLOTS * LONGEST)  # the system gives what is written to
        self.memory = _mapped(memory)
        self.bell, self._other_end = os.pipe()
        self.note = {
            "machine": socket.gethostname(), "pid": os.getpid(),
            "memory": [memory, os.readlink(f"/proc/self/fd/{memory}")],
            "bell": [self.bell, os.readlink(f"/proc/self/fd/{self.bell}")],
        }  # fmt: skip


def _mapped(memory: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(memory, 2 * SLOTS * LONGEST), np.uint8)


def _at(memory: np.ndarray, start: int, like: np.ndarray) -> np.ndarray:
    return memory[start : start + like.nbytes].view(like.dtype)
