"""Threads that take the most urgent work first."""

from __future__ import annotations

import functools
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mxjax import settings


class PriorityPool:
    """So many threads; what waits for one begins in the order of its priorities, the largest first.

    Work of equal priority begins in the order in which it came.

    >>> pool = PriorityPool(1)
    >>> pool.submit(0, max, 1, 2).result()
    2
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._waiting: queue.PriorityQueue[tuple[int, int, Any]] = queue.PriorityQueue()
        self._count = itertools.count()
        for number in range(size):
            threading.Thread(
                target=self._serve, name=f"mxjax-kvstore-{number}", daemon=True
            ).start()

    def submit(self, priority: int, fn: Callable[..., Any], *args: Any) -> Future[Any]:
        """Have `fn(*args)` called by one of the threads."""
        future: Future[Any] = Future()
        self._waiting.put((-priority, next(self._count), (future, fn, args)))
        return future

    def _serve(self) -> None:
        while True:
            future, fn, args = self._waiting.get()[2]
            try:
                future.set_result(fn(*args))
            except BaseException as error:
                future.set_exception(error)
            del future, fn, args


@functools.cache
def _pool(size: int) -> PriorityPool:
    return PriorityPool(size)


def workers(parts: int) -> PriorityPool:
    """The pool of `engine.priority_threads` threads; where nobody gave their number, one for each part at least."""
    size = settings.get("engine.priority_threads")
    return _pool(size if settings.is_given("engine.priority_threads") else max(size, parts))
