"""A work that is measured in turns with others: it is warmed up once, then measured whenever a line is read.

`nets_gluon.py`, `nets_torch.py` and `nets_jax.py` are such processes; `nets.py` starts them and gives the turns.
"""

from __future__ import annotations

import glob
import json
import sys
import time
from collections.abc import Callable
from typing import Any

LEAST = 0.15  # seconds that one turn lasts at least: short steps are repeated


def serve(facts: dict[str, Any], step: Callable[[], Any], sync: Callable[[], Any]) -> None:
    """Print ``facts`` after four steps, by when all is compiled; then a turn for each line of stdin.

    A turn's line has the milliseconds of a call: ``cpu`` of the process, ``busiest`` of its threads, and ``wall``.
    """
    for _ in range(4):
        step()
        sync()
    calls = max(1, min(1000, int(LEAST / max(1e-6, once(step, sync, 1)["wall"] * 1e-3))))
    print(json.dumps(facts), flush=True)
    for _ in sys.stdin:
        print(json.dumps(once(step, sync, calls)), flush=True)


def once(step: Callable[[], Any], sync: Callable[[], Any], calls: int) -> dict[str, float]:
    """Milliseconds per call."""
    before = threads()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        step()
    sync()
    spent = time.process_time() - cpu, time.perf_counter() - wall
    busy = [ns - before.get(thread, 0) for thread, ns in threads().items()]
    spent = (*spent, max(busy, default=0) * 1e-9)
    return dict(zip(("cpu", "wall", "busiest"), (s / calls * 1e3 for s in spent)))  # noqa: B905 (MXNet's Python is older)


def threads() -> dict[str, int]:
    """Nanoseconds that each thread of the process ran, where Linux tells."""
    found = {}
    for path in glob.glob("/proc/self/task/*/schedstat"):
        try:
            with open(path) as f:
                found[path] = int(f.read().split()[0])
        except OSError:  # it has ended
            pass
    return found
