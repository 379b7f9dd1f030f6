"""How long Python works on a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mxjax as mx
from mxjax.core.compile.program import Program


def python_seconds(step: Callable[[], Any], runs: int) -> float:
    """What this thread does in a step apart from executing programs; the least of several runs.

    It is time of this thread, not of the clock on the wall: others may be busy.
    """
    execute = Program.run
    spent = 0.0

    def run(self: Program, arrays: Any, scalars: Any) -> Any:
        nonlocal spent
        start = time.thread_time()
        try:
            return execute(self, arrays, scalars)
        finally:
            spent += time.thread_time() - start

    best = float("inf")
    Program.run = run  # type: ignore[method-assign]
    try:
        for _ in range(runs):
            spent, start = 0.0, time.thread_time()
            step()
            best = min(best, time.thread_time() - start - spent)
    finally:
        Program.run = execute  # type: ignore[method-assign]
    mx.npx.waitall()
    return best
