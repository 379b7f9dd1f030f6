"""What pushing to servers and pulling from them costs with `dist_async`, beside MXNet's; part of make bench-kvstore.

Two workers and one server on this machine over loopback, SGD in the server; the least wall time of some repeats, in
each of which both workers push and pull at once. What is compared takes turns. Needs Ray (the extra `ray`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

WORKERS = 2
REPEATS = 40
TURNS = 2
#: The shapes, and whether a key is pushed and pulled by itself.
WORK: dict[str, list[tuple[int, ...]]] = {"10 MB": [(2_621_440,)], "161 x 4 KB": [(1024,)] * 161}


def worker(kind: str, mx: Any) -> None:
    """In each worker, with either package: all keys pushed and pulled, one by one, and waited for."""
    kv = mx.kv.create("dist_async")
    arrays = mx.np if hasattr(mx.np, "array") else mx.nd
    shapes = WORK[kind]
    keys = list(range(len(shapes)))
    grads = [arrays.ones(s) for s in shapes]
    outs = [arrays.zeros(s) for s in shapes]
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    kv.init(keys, [arrays.zeros(s) for s in shapes])
    times = []
    for _ in range(REPEATS):
        kv._barrier()
        began = time.perf_counter()
        for k in keys:
            kv.push(k, grads[k], priority=-k)
            kv.pull(k, out=outs[k], priority=-k)
        for out in outs:
            out.wait_to_read()
        times.append(1e3 * (time.perf_counter() - began))
    kv._barrier()
    for k in keys:
        kv.pull(k, out=outs[k])
    # MXNet's pull writes over the pushed gradient as well: its numbers are others.
    assert mx.__name__ != "mxjax" or all(
        (out.asnumpy() == -REPEATS * WORKERS).all() for out in outs
    )
    kv._barrier()
    if kv.rank == 0:
        print(json.dumps({"wall": min(times), "median": statistics.median(times)}), flush=True)


def figures() -> list[dict[str, Any]]:
    """Ours and MXNet's, by turns."""
    from kvstore_dist import launched, theirs
    from kvstore_dist import result_of as result
    from kvstore_work import figure, ratio

    goals = {"10 MB": 1.0, "161 x 4 KB": None}
    works = {kind: f"{kind} pushed and pulled, dist_async, {WORKERS} workers" for kind in WORK}
    if importlib.util.find_spec("ray") is None:
        why = "not measured: its servers are Ray's (pip install 'mxjax[ray]')"
        return [
            figure(f"{works[k]} / MXNet dist_async", None, unit=why, at_most=g)
            for k, g in goals.items()
        ]
    python = os.environ.get("MXJAX_BENCH_MXNET")
    found = []
    for kind in WORK:
        mine, its = [], []
        for _ in range(TURNS):
            done = launched("-n", WORKERS, "-s", 1, "--no-prefix", __file__, "--worker", kind)
            mine.append(result(done.stdout, done.stderr)["wall"])
            if python:
                its.append(theirs(python, kind, WORKERS, Path(__file__).name)["wall"])
        found.append(
            ratio(works[kind], min(mine), min(its, default=None), "MXNet dist_async", goals[kind])
        )
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        import mxjax

        worker(sys.argv[2], mxjax)
    elif sys.argv[1:] and sys.argv[1] in WORK:
        import mxnet

        worker(sys.argv[1], mxnet)
    else:
        print(json.dumps(figures()))
