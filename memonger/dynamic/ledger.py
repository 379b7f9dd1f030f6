"""What DTR knows of the values alive: their bytes, how they came to be, what lies evicted around them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mxjax.core import Call, Step


class Recipe(NamedTuple):
    """How a value is made: result ``out`` of ``call`` on ``inputs``, which it keeps alive."""

    call: Call
    inputs: Sequence[Any]
    out: int
    device: Any


class Swapped(NamedTuple):
    """An array that waits in the host's memory."""

    array: Any


@dataclass(eq=False, slots=True)
class Holding:
    """One value. It does not keep the value alive, and the value does not know of it."""

    ref: Any  # weakly, the value
    nbytes: int
    devices: tuple[Any, ...]
    last: float  # when it was made or read, on the manager's clock
    remakes: int = 0
    pins: int = 0  # calls at hand that need it
    origin: tuple[Step, int] | None = None  # the program's last step, and the number there
    recipe: Recipe | None = None  # where neither tape nor node has one
    node: Any = None  # weakly, for residuals: the node that saved it, as result ``at``
    at: int = 0
    cost: float | None = None
    # Nothing reads it any more but recomputations, until the segment at hand has run.
    spent: bool = False
    evicted: bool = False
    sources: list[Holding] | None = None  # what it is computed from
    users: set[Holding] = field(default_factory=set)  # evicted values that are computed from it

    def weight(self) -> float:
        """Seconds to compute it again, with the evicted values around it.

        Those it is made of would be computed with it, and those made of it could no more be computed
        without it. Kirisame et al. keep such neighbourhoods in a union-find forest, which forgets in
        which direction they hang together; then a value that nobody reads again (a summand) weighs
        on what it was made of.
        """
        seen = {self}
        total = self.cost or 0.0
        todo = [s for s in self.sources or () if s.evicted]
        while todo:
            h = todo.pop()
            if h not in seen:
                seen.add(h)
                total += h.cost or 0.0
                todo += [s for s in h.sources or () if s.evicted]
        todo = list(self.users)
        while todo:
            h = todo.pop()
            if h not in seen:
                seen.add(h)
                if not h.spent:
                    total += h.cost or 0.0
                todo += h.users
        return total


class Ledger:
    """The bytes of arrays by device. Arrays leave it when nobody holds them, whoever that was."""

    def __init__(self) -> None:
        self.live: dict[Any, int] = {}
        self.peak: dict[Any, int] = {}
        self.late: dict[Any, int] = {}  # freed since the device was last waited for
        self._arrays: dict[int, tuple[Any, tuple[Any, ...], int]] = {}
        # Arrays die in any thread at any moment: they are put down here, and subtracted under the lock.
        self._dead: deque[tuple[int, Any]] = deque()

    def add(self, array: Any, devices: tuple[Any, ...], nbytes: int) -> None:
        """An array exists."""
        if self.knows(array):
            return
        self.drain()
        key = id(array)
        if key in self._arrays:  # its address has a new owner, and its end was not told
            self._subtract(key)
        dead = self._dead
        ref = weakref.ref(array, lambda r: dead.append((key, r)))
        self._arrays[key] = ref, devices, nbytes
        for d in devices:
            self.live[d] = self.live.get(d, 0) + nbytes
        for d in devices:
            self.note(d, 0)

    def knows(self, array: Any) -> bool:
        """Whether an array is counted."""
        known = self._arrays.get(id(array))
        return known is not None and known[0]() is array

    def drain(self) -> None:
        """Subtract the arrays that died."""
        dead = self._dead
        while dead:
            key, ref = dead.popleft()
            known = self._arrays.get(key)
            if known is not None and known[0] is ref:
                self._subtract(key)

    def gone(self, array: Any) -> None:
        """An array was donated: a result took its place."""
        known = self._arrays.get(id(array))
        if known is not None and known[0]() is array:
            _, devices, nbytes = self._arrays.pop(id(array))
            for d in devices:
                self.live[d] -= nbytes

    def _subtract(self, key: int) -> None:
        _, devices, nbytes = self._arrays.pop(key)
        for d in devices:
            self.live[d] -= nbytes
            self.late[d] = self.late.get(d, 0) + nbytes

    def note(self, device: Any, more: int) -> None:
        """What is live now, and so many bytes while a program runs."""
        total = self.live.get(device, 0) + more
        if total > self.peak.get(device, 0):
            self.peak[device] = total
