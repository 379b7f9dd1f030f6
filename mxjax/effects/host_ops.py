"""The Python of custom operators in threads: work that is under way stands in for its results."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ..core import Step, Value, aval, failed, flush_thread, memory, pending
from ..core.hooks import deferred

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_here = threading.local()


def inside() -> bool:
    """Whether this thread runs such work: what it starts runs in it, for the pool may be full."""
    return getattr(_here, "inside", False)


class UnderWay:
    """Work of another thread, in `Value.seg` of its results (``core.hooks.Deferred``)."""

    graph = False
    closed = False
    step = Step()

    def __init__(self, work: Callable[[], Sequence[Value]], avals: Sequence[Any]):
        self.lock = threading.RLock()
        # Shared: the operator may have kept its arrays.
        self.results = [pending(self, a, shared=True) for a in avals]
        self._outs = list(self.results)
        self._future: Future[list[Any]] = _threads().submit(
            contextvars.copy_context().run, _arrays, work
        )
        deferred.add(self)

    def run(self) -> None:
        """Wait for the results; the work's error goes to whoever reads one, Ctrl-C to the caller alone."""
        with self.lock:
            if self.closed:
                return
            try:
                for v, array in zip(self._outs, self._future.result(), strict=True):
                    v.arr, v.seg = array, None
            except BaseException as error:
                if not self._future.done() or error is not self._future.exception():
                    raise
                failed(self._outs, error)
            self.closed = True
            deferred.discard(self)
            self._outs = []


def _arrays(work: Callable[[], Sequence[Value]]) -> list[Any]:
    _here.inside = True
    try:
        return [memory.on_device(v) for v in work()]
    finally:
        flush_thread()  # arrays of the caller's may have been written
        _here.inside = False


def _threads() -> ThreadPoolExecutor:
    """Two at least: one core may wait for what another device, a file or a server does."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(
                max(2, os.cpu_count() or 2), thread_name_prefix="mxjax-custom"
            )
        return _pool


def start(
    work: Callable[[], Sequence[Value]],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
    device: Any,
) -> list[Value]:
    """Begin `work` in a thread; values of these shapes and dtypes that stand for what it gives."""
    flush_thread()  # what its operands are computed from runs meanwhile
    avals = [aval(tuple(s), np.dtype(t), device) for s, t in zip(shapes, dtypes, strict=True)]
    return UnderWay(work, avals).results
