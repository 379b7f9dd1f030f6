"""What sums of one process with four virtual devices cost; part of make bench-kvstore.

Pinned to one core; ratios are of process CPU time, which repeats where wall time does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvstore_work import figure, least, ratio, resnet50, sums

HERE = Path(__file__).resolve().parent
REPEATS = 10
DEVICES = 4

# Parts that run in a process of their own: "python kvstore_one.py PART" prints a JSON object.
PARTS = ("call", "keys", "program", "states")


def gradients(kind: str, per_key: bool) -> dict[str, float]:
    """A ResNet-50's gradients of four devices summed by push and pull, and waited for."""
    import mxjax as mx

    kv = mx.kv.create(kind)
    shapes = resnet50()
    devices = [mx.cpu(d) for d in range(DEVICES)]
    grads = [[mx.np.ones(s, device=d) for d in devices] for s in shapes]
    outs = [[mx.np.zeros(s, device=d) for d in devices] for s in shapes]
    return least(sums(kv, grads, outs, mx.waitall, per_key), REPEATS)


def states() -> dict[str, float]:
    """Bytes of Adam's states per device, shared out and not, and how far the weights are apart."""
    import numpy as np

    import mxjax as mx

    shapes = [(1024, 1024), (1024, 4096), (4096, 1024), (4096,)]
    devices = [mx.cpu(d) for d in range(DEVICES)]
    found: dict[str, Any] = {}
    weights = {}
    for shared in (True, False):
        mx.config.set(comm_bigarray_bound=1_000_000 if shared else 1 << 40)
        kv = mx.kv.create("device")
        kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.01))
        rng = np.random.RandomState(0)
        keys = list(range(len(shapes)))
        kv.init(keys, [mx.np.array(rng.randn(*s).astype("float32")) for s in shapes])
        for _ in range(3):
            grads = [rng.randn(*s).astype("float32") for s in shapes]
            kv.push(
                keys,
                [
                    [mx.np.array(g * (d + 1), device=x) for d, x in enumerate(devices)]
                    for g in grads
                ],
            )
        outs = [mx.np.zeros(s) for s in shapes]
        kv.pull(keys, out=outs)
        weights[shared] = [o.asnumpy() for o in outs]
        leaves = [leaf for kept in kv._updater._kept.values() for leaf in kept.leaves]
        per_device = {
            sum(
                s.data.nbytes
                for leaf in leaves
                for s in leaf.addressable_shards
                if s.device == d.jax_device
            )
            for d in devices
        }
        found["shared" if shared else "whole"] = max(per_device)
    found["apart"] = max(
        float(np.abs(a - b).max()) for a, b in zip(weights[True], weights[False], strict=True)
    )
    return found


def part(name: str) -> Any:
    if name == "states":
        return states()
    kinds = {"call": ("device", False), "keys": ("device", True), "program": ("nccl", False)}
    return gradients(*kinds[name])


def run(python: str, script: str, *args: str) -> dict[str, Any]:
    """A script's JSON object."""
    env = dict(os.environ)
    flag = f"--xla_force_host_platform_device_count={DEVICES}"
    env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {flag}".strip()
    env["PYTHONPATH"] = os.pathsep.join(p for p in (str(HERE.parent), env.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [python, str(HERE / script), *args], env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(args)} ended with an error:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def figures() -> list[dict[str, Any]]:
    """One process with four virtual devices."""
    whole = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if whole:
        os.sched_setaffinity(0, {max(whole)})
    ours = {name: run(sys.executable, "kvstore_one.py", name) for name in PARTS}
    python = os.environ.get("MXJAX_BENCH_MXNET")
    mxnet = run(python, "kvstore_mxnet.py", str(REPEATS)) if python else None
    if mxnet is not None:  # what is compared takes turns
        for name in ("call", "keys"):
            again = run(sys.executable, "kvstore_one.py", name)
            ours[name] = {clock: min(ours[name][clock], again[clock]) for clock in again}
    if whole:
        os.sched_setaffinity(0, whole)
    works = {
        "call": ("161 gradients of a ResNet-50, 4 devices, one call", "local_call", 0.7),
        "keys": ("the same, key by key", "local_keys", 0.7),
        "program": ("the same by XLA's all-reduce ('nccl')", "local_call", None),
    }
    found = [
        ratio(
            f"{work}, CPU time",
            ours[name]["cpu"],
            mxnet and mxnet[baseline]["cpu"],
            "MXNet local",
            goal,
        )
        for name, (work, baseline, goal) in works.items()
    ]
    s = ours["states"]
    return [
        *found,
        figure(
            "Adam's states per device, shared out / whole",
            s["shared"],
            s["whole"],
            "B",
            at_most=0.251,
        ),
        figure("weights shared out - weights whole", s["apart"], unit="", at_most=1e-5),
    ]


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in PARTS:
        print(json.dumps(part(sys.argv[1])))
    else:
        print(json.dumps(figures()))
