"""Run by processes that train, save every few steps, and go on from the last checkpoint.

Arguments: the step at which a process of the first attempt is killed (or -1), which one, and whether the
store runs the optimizer.
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import mxjax as mx
from mxjax import settings
from mxjax.launch import Checkpoints

at, who, on_kvstore = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1"
first_attempt = settings.env("DMLC_NUM_ATTEMPT") == "0"
kv = mx.kv.create("dist_sync")
mx.random.seed(3)
net = mx.gluon.nn.Dense(3, in_units=4)
net.initialize(mx.init.Xavier())
trainer = mx.gluon.Trainer(
    net.collect_params(), "adam", {"learning_rate": 0.05}, kvstore=kv, update_on_kvstore=on_kvstore
)
points = Checkpoints()
start = points.load({"net": net.load_parameters, "trainer": trainer.load_states}) or 0
for step in range(start, 20):
    data = np.random.RandomState(100 * step + kv.rank).rand(8, 4).astype("float32")
    if first_attempt and step == at and kv.rank == who:
        os.kill(os.getpid(), signal.SIGKILL)
    with mx.autograd.record():
        loss = ((net(mx.np.array(data)) - 1) ** 2).sum()
    loss.backward()
    trainer.step(16)
    if (step + 1) % 5 == 0:
        points.save(step + 1, {"net": net.save_parameters, "trainer": trainer.save_states})
numbers = [p.data().asnumpy().tobytes().hex() for p in net.collect_params().values()]
print("start", start, "parameters", *numbers, flush=True)
