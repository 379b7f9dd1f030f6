"""Run by any number of processes: some steps of a training, from the files that another job has left.

Arguments: the folder of the files, the first step, and the one after the last.
"""

from __future__ import annotations

import sys

import numpy as np

import mxjax as mx

folder, start, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
mx.config.set(comm_bigarray_bound=40)
kv = mx.kv.create("dist_sync")
mx.random.seed(3)
net = mx.gluon.nn.Sequential()
net.add(mx.gluon.nn.Dense(16, activation="tanh"), mx.gluon.nn.Dense(5))
net.initialize(mx.init.Xavier())
net.setattr("wd_mult", 0.5)
trainer = mx.gluon.Trainer(
    net.collect_params(), "adam",
    {"learning_rate": 0.05, "wd": 0.01, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.05)},
    kvstore=kv, update_on_kvstore=True,
)  # fmt: skip
if start:
    net.load_parameters(f"{folder}/net")
    trainer.load_states(f"{folder}/trainer")
mine = slice(kv.rank * 12 // kv.num_workers, (kv.rank + 1) * 12 // kv.num_workers)
for step in range(start, stop):
    batch = np.random.RandomState(step).rand(12, 8).astype("float32")
    with mx.autograd.record():
        loss = ((net(mx.np.array(batch[mine])) - 1) ** 2).sum()
    loss.backward()
    trainer.step(12)
trainer.save_states(f"{folder}/trainer")
if kv.rank == 0:
    net.save_parameters(f"{folder}/net")
kv.barrier()
leaves = [leaf for kept in kv._updater._kept.values() for leaf in kept.leaves]
numbers = [p.data().asnumpy() for p in net.collect_params().values()]
print("rate", trainer.learning_rate, "bytes", sum(x.nbytes for x in leaves), flush=True)
print("parameters", *[n.tobytes().hex() for n in numbers], flush=True)
