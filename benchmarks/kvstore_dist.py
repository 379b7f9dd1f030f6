"""What sums between processes cost, and whether faults end as they should; each figure beside its goal.

    python benchmarks/kvstore_dist.py [--kills 50] [--restarts 50] [--calls 20000]   # part of make bench-kvstore
    MXJAX_BENCH_MXNET=<python with MXNet 2> ...                                   # beside MXNet's dist_sync

Processes of this machine over loopback; times are the least of some repeats, of wall time. Results are left in
``bench_output/kvstore_dist.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kvstore_work import OUTPUT, least, resnet50, row

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "tests" / "kvstore" / "processes"
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


def kills(count: int) -> tuple[int, float]:
    """How many of so many kills of one of four workers ended cleanly, and the longest wait, in seconds."""
    clean, longest = 0, 0.0
    for k in range(count):
        began = time.perf_counter()
        done = launched("-n", 4, SCRIPTS / "faults.py", "kill", k % 4)
        ended = time.perf_counter() - began
        heard = re.findall(rf"^\[\d\] heard: rank {k % 4} of 4 has ended", done.stdout, re.M)
        clean += done.returncode == 137 and len(heard) == 3
        longest = max(longest, ended)
    return clean, longest


def restarts(count: int) -> int:
    """How many of so many jobs of which one worker is killed end with the parameters of an undisturbed one."""

    def parameters(at: int, who: int, *options: object) -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            done = launched(
                "-n", 4, *options, "--checkpoints", folder, SCRIPTS / "training.py", at, who, 0
            )
        return set(re.findall(r"parameters (.*)$", done.stdout, re.M)) if done.returncode == 0 else set()

    expected = parameters(-1, 0)
    assert len(expected) == 1
    return sum(parameters(6 + k % 14, k % 4, "--restarts", 1) == expected for k in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--worker", choices=sorted(SHAPES))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--calls", type=int, default=20_000)
    args = parser.parse_args()
    if args.worker:
        return worker(args.worker)
    python = os.environ.get("MXJAX_BENCH_MXNET")
    results: dict[str, Any] = {}
    print("| work | goal | figure | | ours | theirs |\n|---|--:|--:|---|--:|--:|")
    for kind, count in (("resnet50", 2), ("resnet50", 4), ("small", 2)):
        mine = ours(kind, count)
        its = theirs(python, kind, count) if python else None
        if its is not None:  # what is compared takes turns
            again = ours(kind, count)
            mine = {clock: min(mine[clock], again[clock]) for clock in again}
        results[f"{kind} {count}"] = {"ours": mine, "mxnet": its}
        if kind == "small":
            print(row("161 x 4 KB, 2 processes", 3, mine["wall"], None), flush=True)
            continue
        work = f"161 gradients of a ResNet-50, {count} processes"
        goal = 1.0 if its else None
        print(row(f"{work} / MXNet dist_sync" if its else work, goal, mine["wall"],
                  its["wall"] if its else None), flush=True)  # fmt: skip
    if args.kills:
        clean, longest = kills(args.kills)
        results["kills"] = {"clean": clean, "of": args.kills, "longest job": longest}
        print(f"| kill -9 of one of 4 processes: clean ends | {args.kills} | {clean} | "
              f"{'ok' if clean == args.kills else 'miss'} | longest job {longest:.1f} s | |", flush=True)
    if args.restarts:
        exact = restarts(args.restarts)
        results["restarts"] = {"exact": exact, "of": args.restarts}
        print(f"| the same with --restarts 1: exact parameters | {args.restarts} | {exact} | "
              f"{'ok' if exact == args.restarts else 'miss'} | | |", flush=True)
    if args.calls:
        done = launched("-n", 4, SCRIPTS / "stress.py", args.calls)
        exact = len(re.findall(r"^\[\d\] exact", done.stdout, re.M))
        results["mixed"] = {"exact": exact, "of": 4, "calls": args.calls}
        print(f"| {args.calls} mixed pushes and pulls, 4 processes: ranks with exact sums | 4 | {exact} | "
              f"{'ok' if exact == 4 else 'miss'} | | |", flush=True)
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "kvstore_dist.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
