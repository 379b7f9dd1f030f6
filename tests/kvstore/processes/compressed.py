"""Run by the processes of a job: sums with gradient compression against MXNet's, and the bytes that they send.

compressed.py mxnet            # two or three processes: the recorded cases
compressed.py bytes KIND       # KIND: none, 2bit, 1bit, fp16, bf16
compressed.py differs          # each rank asks for another threshold
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import mxjax as mx
from mxjax.kvstore._byte_gather import Words

DATA = Path(__file__).parents[2] / "data" / "kvstore_compression.json"
#: Elements of the arrays that are sent, and how often they are pushed.
SIZE, PUSHES = 4_000_000, 2


def gradient(shape, step, sender):
    """As in record/kvstore_compression.py."""
    k = np.arange(np.prod(shape))
    return (
        (((k * 37 + step * 11 + sender * 23) % 41 - 20) / np.float32(13))
        .astype("float32")
        .reshape(shape)
    )


def cases(workers):
    return [case for case in json.loads(DATA.read_text()) if case["workers"] == workers]


def as_mxnet(case):
    """A store of the case gives the values that MXNet's gave."""
    kv = mx.kv.create(case["store"])
    shape, devices = tuple(case["shape"]), case["devices"]
    kv.set_gradient_compression(case["params"])
    if case["optimizer"] is not None:
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=case["optimizer"]))
    out = mx.np.zeros(shape)
    kv.init("w", mx.np.full(shape, 0.7))
    for step, pulled in enumerate(case["pulled"]):
        if step:
            numbers = [gradient(shape, step - 1, kv.rank * devices + d) for d in range(devices)]
            kv.push("w", [mx.np.array(g, device=mx.cpu(d)) for d, g in enumerate(numbers)])
        kv.pull("w", out=out)
        assert (out.asnumpy().reshape(-1) == np.array(pulled, "float32")).all(), (case, step)


def without_machines():
    """As between processes whose devices are no CPUs: each sends by itself."""
    job = mx.kv.create("dist_sync")._processes
    if job._mesh.size < job.size:
        return  # these share memory
    words = Words(job._mesh, job._device, None)
    sizes = (0, 1, 5000)
    found = words.gather([np.full(n, job.rank + 1, "uint8") for n in sizes], job.size)
    for rows, size in zip(found, sizes, strict=True):
        assert rows.shape == (job.size, size) and (rows.T == np.arange(job.size) + 1).all()


def sent_by(kind):
    """The bytes of float32 gradients that this process gives to sums, and that its machine sends."""
    kv = mx.kv.create("dist_sync")
    if kind != "none":
        kv.set_gradient_compression({"type": kind, "threshold": 0.5})
    kv.init("w", mx.np.zeros(SIZE))
    out = mx.np.zeros(SIZE)
    ones = mx.np.ones(SIZE)  # of which nothing is lost but by 2bit, which owes a half
    kv.barrier()
    before = np.array([kv._processes.bytes, on_the_cable()])
    for _ in range(PUSHES):
        kv.pushpull("w", ones, out=out)
        assert (out.asnumpy() == kv.num_workers * (0.5 if kind == "2bit" else 1)).all()
    return np.array([kv._processes.bytes, on_the_cable()]) - before


def on_the_cable():
    """What has left this machine of the test's (test_partition.py); 0 on others."""
    count = Path("/sys/class/net/cable/statistics/tx_bytes")
    return int(count.read_text()) if count.exists() else 0


if __name__ == "__main__":
    if sys.argv[1] == "mxnet":
        found = cases(mx.kv.create("dist_sync").num_workers)
        for case in found:
            as_mxnet(case)
        without_machines()
        print("as MXNet:", len(found), flush=True)
    elif sys.argv[1] == "bytes":
        sent, cable = sent_by(sys.argv[2])
        print(f"sent {sent} of {4 * SIZE * PUSHES}, on the cable {cable}", flush=True)
    else:
        kv = mx.kv.create("dist_sync")
        try:
            kv.set_gradient_compression({"type": "2bit", "threshold": 0.5 + 0.5 * (kv.rank == 1)})
        except mx.MXNetError as error:
            print("heard:", error, flush=True)
            raise SystemExit(7) from None
