"""What sums between processes cost with `dist_sync`, beside MXNet's; part of make bench-kvstore.

Processes of this machine over loopback; times are the least of some repeats, of wall time.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvstore_work import figure, least, ratio, resnet50

HERE = Path(__file__).resolve().parent
REPEATS = {"resnet50": 15, "small": 300}
SHAPES = {"resnet50": resnet50, "small": lambda: [(1024,)] * 161}


def worker(kind: str) -> None:
    """In each process: all gradients pushed and pulled key by key, and waited for."""
    import mxjax as mx

    kv = mx.kv.create("dist_sync")
    shapes = SHAPES[kind]()
    keys = list(range(len(shapes)))
    grads = [mx.np.ones(s) * (kv.rank + 1) for s in shapes]
    outs = [mx.np.zeros(s) for s in shapes]
    kv.init(keys, grads)
    mx.waitall()

    def work() -> None:
        kv.barrier()
        for k in keys:
            kv.push(k, grads[k], priority=-k)
            kv.pull(k, out=outs[k], priority=-k)
        mx.waitall()

    found = least(work, REPEATS[kind])
    expected = sum(range(1, kv.num_workers + 1))
    assert all((o.asnumpy() == expected).all() for o in outs)
    if kv.rank == 0:
        print(json.dumps(found), flush=True)


def environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(p for p in (str(HERE.parent), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, **changes}


def launched(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mxjax.launch", *map(str, arguments)],
        env=environment(**variables), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip


def ours(kind: str, count: int) -> dict[str, float]:
    done = launched("-n", count, "--no-prefix", __file__, "--worker", kind)
    return result_of(done.stdout, done.stderr)


def theirs(
    python: str, kind: str, count: int, script: str = "kvstore_dist_mxnet.py"
) -> dict[str, float]:
    """MXNet's, with one server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    job = {
        "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": str(count), "DMLC_JOB": secrets.token_hex(4),
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [python, str(HERE / script), kind, str(REPEATS.get(kind, 0))],
            env=environment(**job, DMLC_ROLE=role), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for role in ("scheduler", "server", *["worker"] * count)
    ]  # fmt: skip
    try:
        texts = [p.communicate(timeout=600) for p in processes]
    finally:
        for p in processes:
            p.kill()
    return result_of("\n".join(out for out, _ in texts), "\n".join(err for _, err in texts))


def result_of(text: str, errors: str) -> Any:
    """The last line of JSON that a job has printed."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"a process ended with an error:\n{text[-2000:]}\n{errors[-3000:]}")
    return json.loads(lines[-1])


def figures() -> list[dict[str, Any]]:
    """Ours and MXNet's, by turns."""
    python = os.environ.get("MXJAX_BENCH_MXNET")
    found = []
    for kind, count in (("resnet50", 2), ("resnet50", 4), ("small", 2)):
        mine = ours(kind, count)["wall"]
        its = theirs(python, kind, count)["wall"] if python else None
        if its is not None:
            mine = min(mine, ours(kind, count)["wall"])
        if kind == "small":
            found.append(figure("161 x 4 KB, 2 processes", mine, at_most=3))
            if its is not None:
                found.append(ratio("161 x 4 KB, 2 processes", mine, its, "MXNet dist_sync", None))
        else:
            work = f"161 gradients of a ResNet-50, {count} processes"
            found.append(ratio(work, mine, its, "MXNet dist_sync", 1.0))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2])
    else:
        print(json.dumps(figures()))
