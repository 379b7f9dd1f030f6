"""Run by the processes of a job of which one meets with a fault in the middle of its sums."""

from __future__ import annotations

import os
import signal
import sys

import mxjax as mx

fault, where = sys.argv[1], int(sys.argv[2])
kv = mx.kv.create("dist_sync")
kv.init(["weight", "bias"], [mx.np.zeros(1000)] * 2)
out = mx.np.zeros(1000)


def meet():
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "raise":
        raise ValueError("no more data")
    elif fault == "exit":
        sys.exit(5)
    elif fault == "leave":
        sys.exit(0)
    elif fault == "late":
        signal.pause()
    elif fault == "order":
        kv.push("bias", out)
    elif fault == "shape":
        kv.init("more", mx.np.zeros(3))


for step in range(10**9):
    if step == 5:
        print("summing", flush=True)
        if kv.rank == where:
            meet()
    kv.push("weight", mx.np.ones(1000))
    kv.pull("weight", out=out)
    try:
        assert (out.asnumpy() == kv.num_workers).all()
    except mx.MXNetError as error:
        print(f"heard: {error}", flush=True)
        raise SystemExit(7) from None
