"""Run by the processes of a job with a `dist_async` kvstore: what it does, or a fault while they push and pull.

asynchronous.py everything
asynchronous.py kill|stop worker|server NUMBER
asynchronous.py outsider worker 0
asynchronous.py places worker 0
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon

kv = mx.kv.create("dist_async")


def value(key, shape=(3,)):
    out = mx.np.zeros(shape)
    kv.pull(key, out=out)
    return out.asnumpy().tolist()


def pushes_count_at_once():
    """The numbers of MXNet 2.0.0b1, two workers and one server, over loopback."""
    kv.init("w", mx.np.ones(3) * (kv.rank + 5))
    assert value("w") == [5.0] * 3
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
    kv.barrier()
    expected = [3.549999952316284, -0.9744999408721924]
    for turn in range(2):
        if kv.rank == turn:
            for _ in range(2):
                kv.push("w", mx.np.ones(3) * (turn + 1))
        kv.barrier()
        assert value("w") == np.full(3, expected[turn], "float32").tolist()
        kv.barrier()


def nobody_waits():
    """One worker pushes a thousand times while the other does nothing."""
    kv.init("count", mx.np.zeros(2))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    kv.barrier()
    if kv.rank == 0:
        for _ in range(200):
            kv.push("count", mx.np.ones(2))
        assert value("count", (2,)) == [-200.0] * 2
    kv.barrier()
    for _ in range(100):
        kv.push("count", mx.np.ones(2))
    kv.barrier()
    assert value("count", (2,)) == [-200.0 - 100 * kv.num_workers] * 2
    kv.barrier()


def big_arrays_and_rows():
    size = (1001, 1200)  # more than comm.bigarray_bound: on both servers
    first = np.arange(size[0] * size[1], dtype="float32").reshape(size) % 1013
    kv.init("big", mx.np.array(first))
    assert len(kv._places["big"].parts) == 2
    out = mx.np.zeros(size)
    kv.row_sparse_pull("big", out=out, row_ids=mx.np.array([1000, 3, 3]))
    rows = np.zeros(size, "float32")
    rows[[3, 1000]] = first[[3, 1000]]
    assert (out.asnumpy() == rows).all()
    kv.barrier()
    kv.set_gradient_compression({"type": "2bit", "threshold": 2.0})
    kv.push("big", mx.np.array(first))
    kv.barrier()
    kv.pull("big", out=out)
    assert (out.asnumpy() == first - 2 * kv.num_workers * (first >= 2)).all()
    kv.barrier()
    kv.set_gradient_compression({"type": "fp16"})
    kv.barrier()


def training():
    mx.random.seed(7)
    rng = np.random.RandomState(11)
    x = rng.randn(64, 8).astype("float32")
    y = (x @ rng.randn(8, 1)).astype("float32")
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="tanh", in_units=8), gluon.nn.Dense(1, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore="dist_async"
    )
    mine = slice(kv.rank, None, kv.num_workers)
    losses = []
    for _ in range(60):
        with autograd.record():
            loss = ((net(mx.np.array(x[mine])) - mx.np.array(y[mine])) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    assert trainer._update_on_kvstore and losses[-1] < 0.1 * losses[0], (losses[0], losses[-1])


def refusals():
    for call, told in (
        (lambda: kv.init("w", mx.np.ones(3)), "duplicate init of key w"),
        (lambda: kv.send_command(0, "gASV"), "pickles are not executed"),
        (lambda: kv.set_updater(print), "no updater function"),
    ):
        try:
            call()
        except mx.MXNetError as error:
            assert told in str(error), error
        else:
            raise AssertionError(told)


def outsider():
    """Another process of this machine, without the token; and where everything listens."""
    import ray

    if kv.rank == 0:
        address = ray.get_runtime_context().gcs_address
        code = (
            "import ray, sys\n"
            "try: ray.init(address=sys.argv[1], logging_level='ERROR'); print('let in')\n"
            "except Exception as error: print('refused', type(error).__name__)"
        )
        unknown = {
            name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")
        }
        unknown["RAY_AUTH_MODE"] = "disabled"
        done = subprocess.run(
            [sys.executable, "-c", code, address], env=unknown, capture_output=True, text=True
        )
        print(done.stdout, flush=True)
        print("not of this machine alone:", listening(), flush=True)
    kv.barrier()


def places():
    """Which servers are on this process's machine, where machines are network namespaces."""
    import ray

    pids = ray.get([a.alive.remote() for a in kv._outbox.servers._actors])
    here = [
        k
        for k, pid in enumerate(pids)
        if os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net")
    ]
    print("servers here:", here, flush=True)
    kv.barrier()


def listening():
    """Addresses other than loopback at which this process, or one that it started, listens."""
    own, todo = set(), [os.getpid()]
    while todo:
        pid = todo.pop()
        own.add(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            todo += map(int, task.read_text().split())
    sockets = set()
    for pid in own:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(fd))
            except OSError:
                pass
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address = fields[1].split(":")[0]
                loopback = ("0100007F", "0" * 16 + "FFFF0000" + "0100007F", "0" * 24 + "01000000")
                if address not in loopback:
                    found.append(fields[1])
    return found


def fault(what, where, number):
    if what == "outsider":
        return outsider()
    if what == "places":
        return places()
    number = int(number)
    kv.init("w", mx.np.zeros(1000))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    kv.barrier()
    if where == "server":
        import ray

        pid = ray.get(kv._outbox.servers._actors[number].alive.remote())
    sign = signal.SIGKILL if what == "kill" else signal.SIGSTOP
    for step in range(10**9):
        if step == 20:
            print("pushing", flush=True)
            if where == "worker" and kv.rank == number:
                os.kill(os.getpid(), sign)
            if where == "server" and kv.rank == 0:
                os.kill(pid, sign)
        began = time.monotonic()
        try:
            kv.push("w", mx.np.ones(1000))
            value("w", (1000,))
        except mx.MXNetError as error:
            print(f"heard: {error} (within {time.monotonic() - began:.1f} s)", flush=True)
            raise SystemExit(7) from None


CHECKS = (
    pushes_count_at_once,
    nobody_waits,
    big_arrays_and_rows,
    training,
    refusals,
)
if sys.argv[1] == "everything":
    for check in CHECKS:
        check()
        print(f"done {check.__name__}", flush=True)
else:
    fault(*sys.argv[1:])
