"""Bytes that each device sends per step when gradients are summed, by kvstore and number of devices.

    python tools/scaling.py             print the tables of kvstore/SCALING.md
    python tools/scaling.py --write     write them there
    python tools/scaling.py --simulate  count the bytes in programs compiled for 2 to 16 virtual devices

The formulas are those of rings and trees (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 2009); the simulation holds them against what XLA was given to do.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "kvstore" / "SCALING.md"
RESNET50 = 25_557_032 * 4  # bytes of its gradients in float32
COUNTS = (8, 64, 1024)
BUCKETS = {"4 MiB": 4 << 20, "25 MiB": 25 << 20, "all": RESNET50}
BEGIN, END = "<!-- tables: tools/scaling.py --write -->", "<!-- end of tables -->"

# ---- formulas: bytes one device sends per step, for gradients of so many bytes on n devices ----------------


def ring(n: int, size: float) -> float:
    """An all-reduce around a ring: every part goes round twice but for one hop."""
    return 2 * (n - 1) / n * size


def shared_optimizer(n: int, size: float) -> float:
    """Reduce-scatter of the gradients, all-gather of the weights."""
    return (n - 1) / n * size + (n - 1) / n * size


def one_tree(n: int, size: float) -> float:
    """The busiest device of one binomial tree, its root: it sends the result to each child."""
    return math.ceil(math.log2(n)) * size


def all_trees(n: int, size: float) -> float:
    """The mean of all devices where n trees share an array: n - 1 edges each, a part up and a part down."""
    return 2 * (n - 1) * (size / n) * n / n


def packed(n: int, size: float, part: float = 1 / 16) -> float:
    """Packed gradients, such a part of the size, gathered by all; summed whole where that is less."""
    return min((n - 1) * part * size, ring(n, size))


def server(n: int, size: float) -> float:
    """A worker of a parameter server: everything once."""
    return size


def server_link(n: int, size: float) -> float:
    """The one server of n workers: everything to each."""
    return n * size


TYPES = {
    "`local`, `device` on CPU devices (shared memory)": lambda n, size: 0.0,
    "`device`, `nccl`, `dist_sync`: all-reduce": ring,
    "`dist_sync` with 2bit compression: all-gather of the packed gradients": packed,
    "`update_on_kvstore=True`: reduce-scatter, all-gather": shared_optimizer,
    "`MXNET_KVSTORE_USETREE=1`, small arrays: root of one tree": one_tree,
    "the same, big arrays: mean over all trees": all_trees,
    "for comparison, MXNet's parameter server: a worker": server,
    "the server, if there is one for all": server_link,
}


def tables() -> str:
    """The tables of the page."""
    lines = ["Bytes sent per device and step, in MiB (a ResNet-50's gradients: 97.5 MiB):", ""]
    lines += [
        "| kvstore | " + " | ".join(f"{n} devices" for n in COUNTS) + " |",
        "|---|--:|--:|--:|",
    ]
    for name, formula in TYPES.items():
        cells = " | ".join(f"{formula(n, RESNET50) / 2**20:,.1f}" for n in COUNTS)
        lines.append(f"| {name} | {cells} |")
    lines += [
        "",
        "Messages around the ring per device and step, and bytes in each, by size of bucket:",
        "",
    ]
    lines += [
        "| bucket | " + " | ".join(f"{n} devices" for n in COUNTS) + " |",
        "|---|--:|--:|--:|",
    ]
    for name, bucket in BUCKETS.items():
        count = math.ceil(RESNET50 / bucket)
        parts = [
            f"{count * 2 * (n - 1):,} x {min(bucket, RESNET50) / n / 1024:,.1f} KiB" for n in COUNTS
        ]
        lines.append(f"| {name} | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def write() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}")


# ---- simulation: bytes in the programs' text ---------------------------------------------------------------

_SHAPE = re.compile(r"(f32|f64|s32|u8)\[([\d,]*)\]")
_WIDTH = {"f32": 4, "f64": 8, "s32": 4, "u8": 1}


def sent(text: str, n: int) -> float:
    """Bytes that all devices together send in a program, from its HLO text."""
    total = 0.0
    for line in text.splitlines():
        found = re.search(
            r"= (.*?) (all-reduce|reduce-scatter|all-gather|collective-permute)(?:-start)?\(", line
        )
        if found is None:
            continue
        sizes = [
            _WIDTH[kind] * math.prod(int(k) for k in dims.split(",") if k)
            for kind, dims in _SHAPE.findall(found.group(1))
        ]
        size, kind = sum(sizes), found.group(2)
        if kind == "all-reduce":
            total += n * 2 * (n - 1) / n * size
        elif kind == "all-gather":
            total += n * (n - 1) / n * size
        elif kind == "reduce-scatter":  # its result is one part
            total += n * (n - 1) * size
        else:
            pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
            total += size * (pairs.group(1).count("{") if pairs else 0)
    return total


def simulate(n: int) -> dict[str, Any]:
    """Bytes sent by the kvstores' own programs on n virtual devices, and by the formulas."""
    import mxjax as mx

    shapes = [(64, 64), (320, 32)]
    size = 4.0 * sum(math.prod(s) for s in shapes)
    devices = [mx.cpu(k) for k in range(n)]
    found: dict[str, Any] = {}

    def push(kv: Any) -> None:
        keys = list(range(len(shapes)))
        kv.init(keys, [mx.np.zeros(s) for s in shapes])
        kv.push(keys, [[mx.np.ones(s, device=d) for d in devices] for s in shapes])
        outs = [mx.np.zeros(s) for s in shapes]
        kv.pull(keys, out=outs)
        mx.waitall()

    kv = mx.kv.create("nccl")
    push(kv)
    (program,) = kv._devices._programs.values()
    found["ring"] = [sent(program.compiled.as_text(), n), n * ring(n, size)]
    mx.config.set(comm_bigarray_bound=1)
    kv = mx.kv.create("device")
    kv.set_optimizer(mx.optimizer.SGD())
    push(kv)
    (update,) = kv._updater._programs.values()
    found["shared_optimizer"] = [sent(update.as_text(), n), n * shared_optimizer(n, size)]
    mx.config.set(comm_tree=True, comm_tree_array_bound=1)
    kv = mx.kv.create("device")
    push(kv)
    (program,) = kv._devices._programs.values()
    found["all_trees"] = [sent(program.compiled.as_text(), n), n * all_trees(n, size)]
    return found


def simulate_all(counts: tuple[int, ...] = (2, 4, 8, 16)) -> dict[int, dict[str, Any]]:
    """`simulate` in a process for each number of devices."""
    found = {}
    for n in counts:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={n}"
        env = {**os.environ, "XLA_FLAGS": flags.strip()}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(n)],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        found[n] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--one"]:
        print(json.dumps(simulate(int(arguments[1]))))
    elif arguments == ["--simulate"]:
        for n, row in simulate_all().items():
            for name, (counted, expected) in row.items():
                print(
                    f"{n:3d} devices, {name}: {counted:,.0f} bytes counted, {expected:,.0f} by formula"
                )
    elif arguments == ["--write"]:
        write()
    else:
        print(tables())


if __name__ == "__main__":
    main(sys.argv[1:])
