"""Run by any number of processes: exact sums of all dtypes, of sizes on both sides of a piece's."""

from __future__ import annotations

import numpy as np

import mxjax as mx

kv = mx.kv.create("dist_sync")
everybody = sum(range(1, kv.num_workers + 1))
same = np.random.RandomState(3)
sizes = [0, 1, 5, 1000, 4096, 300_001, 1_500_000, 3]
for dtype in ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8"):
    arrays = [same.randint(0, 7, size) for size in sizes]
    keys = [f"{dtype} {k}" for k in range(len(sizes))]
    outs = [mx.np.zeros(size, dtype=dtype) for size in sizes]
    kv.init(keys, outs)
    for _ in range(2):
        kv.pushpull(keys, [mx.np.array(a * (kv.rank + 1)).astype(dtype) for a in arrays], out=outs)
        for array, out in zip(arrays, outs, strict=True):
            assert (out.asnumpy().astype("int64") == array * everybody).all(), (dtype, array.size)
machine = kv._processes._machine
print(f"exact, machines {machine.ranks} of {machine.leaders}", flush=True)
