"""Programs of several devices, one at a time where two could block each other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any


class InFlight:
    """At most one program in which devices wait for each other runs at a time, where that is needed.

    CPU devices share one pool of threads, in which each such program waits for its partners: two of them
    at a time can block each other for ever.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._last: Any = None

    def wait(self, platform: str) -> None:
        """Before a program is dispatched, with the lock held."""
        last, self._last = self._last, None
        if last is not None and platform == "cpu" and not last.is_deleted():
            with contextlib.suppress(RuntimeError):  # its own error reaches whoever reads a result
                last.block_until_ready()

    def began(self, results: Sequence[Any], platform: str) -> None:
        """After it; the smallest of the results is kept until the next one."""
        if platform == "cpu" and results:
            self._last = min(results, key=_size)


def _size(array: Any) -> int:
    return int(array.nbytes)


in_flight = InFlight()
