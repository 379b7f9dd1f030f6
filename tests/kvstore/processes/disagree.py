"""Run by processes of which the last uses an optimizer in the store as the others do not, or is killed."""

from __future__ import annotations

import os
import signal
import sys

import mxjax as mx

mistake, folder = sys.argv[1], sys.argv[2]
kv = mx.kv.create("dist_sync")
odd = kv.rank == kv.num_workers - 1
mx.config.set(comm_bigarray_bound=5000 if mistake == "bound" and odd else 500)
out = mx.np.zeros(1000)
try:
    kv.init("weight", out)
    kv.set_optimizer(
        mx.optimizer.Adam(learning_rate=0.5 if mistake == "optimizer" and odd else 0.1)
    )
    for step in range(3):
        if mistake == "kill" and odd and step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if mistake == "rate" and odd and step == 1:
            kv._updater.optimizer.set_learning_rate(0.025)
        kv.push("weight", mx.np.ones(1000))
        kv.pull("weight", out=out)
        out.wait_to_read()
        if mistake == "alone" and odd:
            kv.save_optimizer_states(f"{folder}/states")
except mx.MXNetError as error:
    print(f"heard: {error}", flush=True)
    raise SystemExit(7) from None
