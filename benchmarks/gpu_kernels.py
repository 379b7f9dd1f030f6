"""What a step does on the device: its kernels, by XLA's own trace, and the texts of compiled programs.

With ``--kernels`` on the command line; without it nothing is done. Texts go to the folder named by BENCH_HLO.
"""

from __future__ import annotations

import collections
import glob
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 3
SHOWN = 14


def kernels(step: Callable[[], Any], sync: Callable[[], Any]) -> dict[str, Any]:
    """Per step: how many kernels ran, the milliseconds of all, and those that took longest."""
    if "--kernels" not in sys.argv:
        return {}
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(ROUNDS):
                step()
            sync()
        found = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        if not found:
            return {}
        with gzip.open(found[0], "rt") as f:
            events = json.load(f)["traceEvents"]
    return summary(events)


def transfers() -> dict[str, Any]:
    """Microseconds of the host for a small array that goes to the device in several ways, and for none."""
    if "--kernels" not in sys.argv:
        return {}
    import jax
    import numpy as np

    few, on_host = jax.jit(lambda a, b: a + b), np.ones(8, "float32")
    here = jax.device_put(on_host)
    ways: dict[str, Callable[[], Any]] = {
        "device_put": lambda: jax.device_put(on_host),
        "call with NumPy's array": lambda: few(here, on_host),
        "call with NumPy's scalar": lambda: few(here, on_host[0]),
        "call with arrays of the device": lambda: few(here, here),
    }
    found = {}
    for name, way in ways.items():
        best = float("inf")
        for _ in range(5):
            jax.block_until_ready(way())
            begin = time.perf_counter()
            for _ in range(200):
                out = way()
            best = min(best, (time.perf_counter() - begin) / 200 * 1e6)
            jax.block_until_ready(out)
        found[name] = round(best, 2)
    return {"transfers": found}


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The events of the device's streams, added up by name."""
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"
    }
    spent: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for e in events:
        on_stream = threads.get((e.get("pid"), e.get("tid")), "").startswith("Stream")
        if e.get("ph") == "X" and "/device:GPU" in names.get(e.get("pid"), "") and on_stream:
            spent[e["name"]] += e["dur"]
            counts[e["name"]] += 1
    longest = [
        {"name": n[:90], "ms": round(us / ROUNDS / 1e3, 4), "runs": counts[n] / ROUNDS}
        for n, us in spent.most_common(SHOWN)
    ]
    return {
        "kernels": sum(counts.values()) / ROUNDS,
        "device_ms": sum(spent.values()) / ROUNDS / 1e3,
        "longest": longest,
    }


def text(name: str, compiled: Any) -> None:
    """Leave a compiled program's text."""
    folder = os.environ.get("BENCH_HLO")
    if folder and "--kernels" in sys.argv:
        with gzip.open(Path(folder) / f"{name}.txt.gz", "wt") as f:
            f.write(compiled.as_text())
