"""What MXNet's dist_sync takes for the work of kvstore_dist.py; one process of the job that DMLC_* names.

DMLC_ROLE=... /path/to/python benchmarks/kvstore_dist_mxnet.py resnet50 [repeats]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mxnet as mx  # noqa: E402  # the scheduler and the server end in here
from kvstore_work import least, resnet50  # noqa: E402


def main() -> None:
    kind, repeats = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    kv = mx.kv.create("dist_sync")
    shapes = resnet50() if kind == "resnet50" else [(1024,)] * 161
    keys = list(range(len(shapes)))
    grads = [mx.nd.ones(s) * (kv.rank + 1) for s in shapes]
    outs = [mx.nd.zeros(s) for s in shapes]
    kv.init(keys, grads)
    mx.nd.waitall()

    def work() -> None:
        kv._barrier()
        for k in keys:
            kv.push(k, grads[k], priority=-k)
            kv.pull(k, out=outs[k], priority=-k)
        mx.nd.waitall()

    found = least(work, repeats)
    if kv.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
