"""Run by four processes: pushes and pulls of mixed sizes with random delays; every sum is exact."""

from __future__ import annotations

import random
import sys
import time

import numpy as np

import mxjax as mx

count = int(sys.argv[1])
kv = mx.kv.create("dist_sync")
same = random.Random(5)  # the same calls everywhere
own = random.Random(100 + kv.rank)  # at different times
sizes = [1, 7, 100, 1000, 4096, 30_000, 500_000, 1_500_000]
keys = [(f"{size} {k}", size) for size in sizes for k in range(3)]
outs = {name: mx.np.zeros(size) for name, size in keys}
for name, size in keys:
    kv.init(name, mx.np.zeros(size))
total = sum(range(1, kv.num_workers + 1))
expected = dict.fromkeys(outs, 0)
done = 0
while done < count:
    name, size = same.choices(
        keys, [8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 6, 6, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1]
    )[0]
    number = same.randrange(1, 50)
    kv.push(
        name,
        mx.np.full(size, (kv.rank + 1) * number, dtype="float32"),
        priority=same.randrange(-3, 3),
    )
    expected[name] = total * number
    kv.pull(name, out=outs[name])
    done += 2
    if own.random() < 0.02:
        time.sleep(own.random() * 0.01)
    if own.random() < 0.05:  # this rank alone looks
        looked = own.choice(list(outs))
        assert (outs[looked].asnumpy() == expected[looked]).all(), looked
for name, out in outs.items():
    assert (out.asnumpy() == expected[name]).all(), name
kv.barrier()
print("exact", done, kv._processes.batches, flush=True)
assert np.isfinite(total)
