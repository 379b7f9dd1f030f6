"""Serving: a small hybridized network, called again and again; a part of `make bench`. Prints one JSON object.

python benchmarks/serving.py
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from bench_ours import nothing, take_turns

import mxjax as mx
from mxjax.gluon import nn

CALLS = 2000
THREADS = 8


def network(width: int) -> tuple[Any, Any]:
    """Two dense layers, compiled and called, and their input."""
    net = nn.HybridSequential()
    net.add(nn.Dense(2 * width, activation="relu"), nn.Dense(width))
    net.initialize(mx.init.Xavier())
    x = mx.np.random.normal(size=(1, width))
    net.optimize_for(x)
    for _ in range(20):
        net(x).wait_to_read()
    return net, x


def beside_jax(width: int) -> dict[str, Any]:
    """A call and its result, beside a jitted function of the same arrays."""
    net, x = network(width)
    arrays = [a.data().jax for a in net.collect_params().values()]
    given = x.jax

    @jax.jit
    def theirs(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        return jax.nn.relu(x @ w.T + b) @ v.T + c

    np.testing.assert_allclose(theirs(given, *arrays), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
    works = {
        f"serve_{width}": (lambda: net(x).wait_to_read(), nothing),
        f"serve_{width}_jax": (lambda: theirs(given, *arrays).block_until_ready(), nothing),
    }
    return take_turns(works, 20, 2000)


def tail() -> dict[str, Any]:
    """The 99th percentile of calls, over their median."""
    net, x = network(8)
    found = {}
    for clock, now in (("cpu", time.thread_time_ns), ("wall", time.perf_counter_ns)):
        ratios = []
        for _ in range(5):
            spent = []
            for _ in range(CALLS):
                begin = now()
                net(x).wait_to_read()
                spent.append(now() - begin)
            ratios.append(float(np.percentile(spent, 99) / np.median(spent)))
        found[clock] = min(ratios)
    return {"serve_p99": found}


def per_call(run: Callable[[], Any], calls: int) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return {
        "cpu": (time.process_time() - cpu) / calls * 1e3,
        "wall": (time.perf_counter() - wall) / calls * 1e3,
    }


def together() -> dict[str, Any]:
    """What a call takes where eight threads call one network, and where one does; all get the same numbers."""
    net, x = network(8)
    want = net(x).asnumpy()

    def serve(found: list[Any]) -> None:
        for _ in range(CALLS // THREADS):
            found.append(net(x).asnumpy())

    def by(threads: int) -> Callable[[], None]:
        def run() -> None:
            found: list[list[Any]] = [[] for _ in range(THREADS)]
            for k in range(0, THREADS, threads):
                each = [threading.Thread(target=serve, args=(f,)) for f in found[k : k + threads]]
                for t in each:
                    t.start()
                for t in each:
                    t.join()
            if not all(np.array_equal(a, want) for part in found for a in part):
                raise SystemExit("threads that call one network get other numbers")

        return run

    best: dict[str, dict[str, float]] = {}
    for _ in range(10):
        for key, threads in (("serve_one", 1), ("serve_eight", THREADS)):
            now = per_call(by(threads), CALLS)
            best[key] = {c: min(v, best.get(key, now)[c]) for c, v in now.items()}
    return dict(best)


def ahead() -> dict[str, Any]:
    """How many programs the first call compiles after `net.compile`."""
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="tanh"), nn.Dense(8))
    net.initialize()
    net.compile((1, 8))
    x = mx.np.array(np.ones((1, 8), "float32"))
    before = mx.engine.stats()["compiled"]
    net(x).wait_to_read()
    compiled = float(mx.engine.stats()["compiled"] - before)
    return {"serve_first": {"cpu": compiled, "wall": compiled}}


def main() -> None:
    mx.npx.set_np()
    print(json.dumps({**ahead(), **beside_jax(8), **beside_jax(32), **tail(), **together()}))


if __name__ == "__main__":
    main()
