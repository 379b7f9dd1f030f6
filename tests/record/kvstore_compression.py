"""Records what MXNet 2.0's dist_sync gives with gradient compression: the values pulled, step by step.

Run with a Python that has Apache MXNet 2.0.0b1: ``python kvstore_compression.py``. It starts jobs of a scheduler, a
server and 2 or 3 workers on this machine, and writes ``../data/kvstore_compression.json``: cases
``{workers, store, params, devices, optimizer, shape, pulled}``. Gradients are `gradient` of each step and device.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

STEPS = 4
CASES = [
    *[("dist_sync", {"type": "2bit", "threshold": t}, 1, None, (7, 5)) for t in (0.5, 0.3, 2.0)],
    *[("dist_sync", {"type": "1bit", "threshold": t}, 1, None, (7, 5)) for t in (0.5, 0.0, -0.25)],
    ("dist_sync", {"type": "2bit"}, 1, None, (1,)),
    ("dist_sync", {"type": "2bit", "threshold": 0.5}, 2, None, (33,)),
    ("dist_sync", {"type": "1bit", "threshold": 0.5}, 2, None, (33,)),
    ("dist_device_sync", {"type": "2bit", "threshold": 0.5}, 1, None, (33,)),
    ("dist_device_sync", {"type": "2bit", "threshold": 0.5}, 2, None, (33,)),
    ("dist_device_sync", {"type": "1bit", "threshold": 0.5}, 2, None, (33,)),
    ("dist_sync", {"type": "2bit", "threshold": 0.5}, 1, 0.25, (33,)),
]


def gradient(shape, step, sender):
    """Numbers on both sides of the thresholds, the same on every machine."""
    import numpy as onp

    k = onp.arange(onp.prod(shape))
    return (
        (((k * 37 + step * 11 + sender * 23) % 41 - 20) / onp.float32(13))
        .astype("float32")
        .reshape(shape)
    )


def worker():
    import mxnet as mx

    found = []
    for number, (kind, params, devices, rate, shape) in enumerate(CASES):
        if os.environ["CASE"] != str(number):
            continue
        kv = mx.kv.create(kind)
        kv.set_gradient_compression(params)
        if rate is not None and kv.rank == 0:
            kv.set_optimizer(mx.optimizer.SGD(learning_rate=rate))
        kv._barrier()
        out, pulled = mx.np.zeros(shape), []
        kv.init("w", mx.np.full(shape, 0.7))
        kv.pull("w", out=out)
        pulled.append(out.asnumpy().reshape(-1).tolist())
        for step in range(STEPS):
            grads = [
                mx.np.array(gradient(shape, step, kv.rank * devices + d), ctx=mx.cpu(d))
                for d in range(devices)
            ]
            kv.push("w", grads)
            kv.pull("w", out=out)
            pulled.append(out.asnumpy().reshape(-1).tolist())
        found = {
            "workers": kv.num_workers,
            "store": kind,
            "params": params,
            "devices": devices,
            "optimizer": rate,
            "shape": shape,
            "pulled": pulled,
        }
        kv._barrier()
        if kv.rank == 0:
            print(json.dumps(found), flush=True)


def job(workers, case):
    """What rank 0 of one job prints."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shared = {
        **os.environ,
        "CASE": str(case),
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_JOB": secrets.token_hex(4),
    }
    started = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**shared, "DMLC_ROLE": role},
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in ("scheduler", "server", *["worker"] * workers)
    ]
    outputs = [p.communicate(timeout=120)[0] for p in started]
    (line,) = [line for text in outputs for line in text.splitlines() if line.startswith("{")]
    return json.loads(line)


if __name__ == "__main__":
    if "DMLC_ROLE" in os.environ:
        worker()
    else:
        found = [job(workers, case) for workers in (2, 3) for case in range(len(CASES))]
        path = Path(__file__).parents[1] / "data" / "kvstore_compression.json"
        path.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")
