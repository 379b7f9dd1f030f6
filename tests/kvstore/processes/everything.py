"""Run by two processes of one job: what a synchronous store does, check by check.

Sums are of small whole numbers, so they are exact in every dtype and in every order.
"""

from __future__ import annotations

import sys
from unittest import mock

import compressed
import jax
import numpy as np

import mxjax as mx

kv = mx.kv.create("dist_sync")
rank, size = kv.rank, kv.num_workers
everybody = range(size)


def zeros(shape, dtype="float32"):
    return mx.np.zeros(shape, dtype=dtype)


def ranks_and_names():
    assert (rank, size) == (jax.process_index(), 2) and kv.type == "dist_sync"
    assert sys.argv[1:] == ["--an", "argument"]
    assert mx.kv.create("p3").num_workers == size


def dtypes_and_first_values():
    for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8"):
        out = zeros((3, 5), dtype)
        first = np.arange(15).reshape(3, 5) - (0 if dtype == "uint8" else 7)
        kv.init(f"of {dtype}", mx.np.array(first * (rank + 1), dtype=dtype))
        kv.pull(f"of {dtype}", out=out)
        assert out.dtype == dtype and (out.asnumpy() == first).all()  # rank 0's
        kv.push(f"of {dtype}", mx.np.full((3, 5), rank + 2, dtype=dtype))
        kv.pull(f"of {dtype}", out=out)
        assert (out.asnumpy() == sum(r + 2 for r in everybody)).all()
    special = mx.np.array([-0.0, np.inf, -np.inf, 1e-45]) if rank == 0 else zeros(4)
    out = zeros(4)
    kv.broadcast("special", special, out=out)
    bits = np.array([-0.0, np.inf, -np.inf, 1e-45], np.float32).view(np.uint32)
    assert (out.asnumpy().view(np.uint32) == bits).all()


def shapes():
    for number, shape in enumerate([(), (1,), (0, 3), (7, 1, 2), (1 << 18) + 3, (3, 700_001)]):
        shape = shape if isinstance(shape, tuple) else (shape,)
        out = zeros(shape)
        kv.init(f"shape {number}", out)
        value = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 1000 + rank
        kv.pushpull(f"shape {number}", mx.np.array(value.astype("float32")), out=out)
        assert out.shape == shape
        assert (out.asnumpy() == sum(value - rank + r for r in everybody)).all()


def many_calls_are_one_exchange():
    keys = [f"w{k}" for k in range(40)]
    outs = [zeros(10) for _ in keys]
    kv.init(keys, [zeros(10) for _ in keys])
    before = kv._processes.batches, kv._processes.programs
    for k, (key, out) in enumerate(zip(keys, outs, strict=True)):
        kv.push(key, mx.np.full(10, k + rank, dtype="float32"), priority=-k)
        kv.pull(key, out=out, priority=-k)
    assert kv._processes.batches == before[0]
    for k, out in enumerate(outs):
        assert (out.asnumpy() == sum(k + r for r in everybody)).all()
    assert (kv._processes.batches, kv._processes.programs) == (before[0] + 1, before[1] + 1)


def a_rank_may_look_earlier_than_the_others():
    kv.init(["early", "late"], [zeros(4)] * 2)
    early, late = zeros(4), zeros(4)
    kv.push("early", mx.np.ones(4))
    kv.pull("early", out=early)
    if rank == 0:
        assert (early.asnumpy() == size).all()
    kv.push("late", mx.np.full(4, 5.0))
    kv.pull("late", out=late)
    assert (late.asnumpy() == 5 * size).all() and (early.asnumpy() == size).all()


def several_devices_of_each_process():
    devices = [mx.cpu(k) for k in range(4)]
    kv.init("devices", zeros(6))
    outs = [zeros(6).to_device(d) for d in devices]
    kv.push(
        "devices",
        [mx.np.full(6, rank + k, dtype="float32").to_device(d) for k, d in enumerate(devices)],
    )
    kv.pull("devices", out=outs)
    for out, device in zip(outs, devices, strict=True):
        assert out.device == device
        assert (out.asnumpy() == sum(r + k for r in everybody for k in range(4))).all()


def pushes_of_one_key_come_one_after_the_other():
    kv.init("again", zeros(3))
    seen = []
    kv2 = mx.kv.create("dist_sync")
    kv2.init("again", zeros(3))
    kv2.set_updater(lambda key, total, stored: seen.append(float(total[0])))
    for k in range(3):
        kv2.push("again", mx.np.full(3, k + rank, dtype="float32"))
    assert seen == [2 * k + 1.0 for k in range(3)]


def the_optimizer_runs_in_the_store():
    store = mx.kv.create("dist_sync")
    store.init(["a", "b"], [mx.np.ones(4), mx.np.ones(2)])
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    outs = [zeros(4), zeros(2)]
    before = store._processes.batches
    store.pushpull(["a", "b"], [mx.np.full(4, rank + 1.0), mx.np.full(2, 2.0)], out=outs)
    assert outs[0].tolist() == [1 - 0.5 * 3] * 4 and outs[1].tolist() == [1 - 0.5 * 4] * 2
    assert store._processes.batches == before + 1
    store._updater.optimizer.set_learning_rate(0.25)
    store.pushpull("a", mx.np.full(4, rank + 1.0), out=outs[0])
    assert outs[0].tolist() == [-0.5 - 0.25 * 3] * 4


def each_process_updates_its_part_of_a_big_weight():
    """More of this in parts.py."""
    with mx.config.scope(comm_bigarray_bound=5):
        store = mx.kv.create("dist_sync")
        store.init(["w", "b"], [mx.np.ones(7), mx.np.ones(2)])
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
        outs = [zeros(7), zeros(2)]
        before = store._processes.batches
        for expected in (1 - 0.5 * 3, 1 - 0.5 * 3 - 0.5 * (3 + 0.5 * 3)):
            for key, out in zip("wb", outs, strict=True):
                store.push(key, mx.np.full(out.shape, rank + 1.0))
                store.pull(key, out=out)
            assert all((out.asnumpy() == expected).all() for out in outs)
        assert store._processes.batches == before + 2
        assert [store._updater._kept[k].leaves[0].shape for k in "wb"] == [(4,), (2,)]


def one_process_updates_each_weight():
    with mx.config.scope(distribute="ParameterServer"):
        store = mx.kv.create("dist_sync")
    shapes = {"a": (6,), "b": (4, 1), "c": (2,), "d": ()}
    store.init(list(shapes), [mx.np.ones(s) for s in shapes.values()])
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
    outs = [zeros(s) for s in shapes.values()]
    for expected in (1 - 0.5 * 3, 1 - 0.5 * 3 - 0.5 * (3 + 0.5 * 3)):
        store.pushpull(list(shapes), [mx.np.full(s, rank + 1.0) for s in shapes.values()], out=outs)
        assert all((o.asnumpy() == expected).all() for o in outs)
    mine = {"a": 0, "b": 1, "c": 1, "d": 0}  # the one with less to do takes the next: 6 | 4, 2 | 1
    assert set(store._updater.states) == {k for k, r in mine.items() if r == rank}
    store.push("c", mx.np.ones(2))  # one process alone has it to update
    store.pull("c", out=outs[2])
    assert outs[2].tolist() == [-2.75 - 0.5 * (2 + 0.5 * 4.5)] * 2


def compressed_sums_are_mxnet_s():
    for case in compressed.cases(size):
        compressed.as_mxnet(case)
    store = mx.kv.create("dist_sync")
    store.set_gradient_compression({"type": "1bit"})
    store.init(["floats", "whole"], [zeros(800), zeros(10, "int32")])
    before = kv._processes.bytes
    out = zeros(800), zeros(10, "int32")
    store.pushpull(
        ["floats", "whole"],
        [mx.np.ones(800), mx.np.full(10, rank + 1, dtype="int32")],
        out=list(out),
    )
    assert (out[0].asnumpy() == size).all() and (out[1].asnumpy() == 3).all()
    assert kv._processes.bytes - before == 800 // 8 + 10 * 4
    with mock.patch.object(
        mx.kvstore.dist, "worthwhile", lambda *_: False
    ):  # as with very many processes
        compressed.as_mxnet(compressed.cases(size)[0])


def training_is_as_in_one_process():
    """Two halves of a batch in two processes, against the whole batch in one."""
    data = np.random.RandomState(7).rand(6, 8, 5).astype("float32")

    def trained(kvstore, part, **options):
        mx.random.seed(1)
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(6, activation="tanh"), mx.gluon.nn.Dense(2))
        net.initialize(mx.init.Xavier())
        net(mx.np.ones((1, 5)))
        trainer = mx.gluon.Trainer(
            net.collect_params(), "adam", {"learning_rate": 0.1}, kvstore=kvstore, **options
        )
        for number, batch in enumerate(data):
            with mx.autograd.record():
                loss = (net(mx.np.array(batch[part])) ** 2).sum()
            loss.backward()
            before = kv._processes.batches
            trainer.step(8)
            net[0].bias.data().asnumpy()
            if kvstore is not None and number:  # with the first one the parameters came from rank 0
                assert kv._processes.batches == before + 1
        return [p.data().asnumpy() for p in net.collect_params().values()]

    half = slice(rank * 4, rank * 4 + 4)
    alone = trained(None, slice(None))
    for options in ({}, {"update_on_kvstore": False}, {"update_on_kvstore": True}):
        for ours, theirs in zip(trained("dist_sync", half, **options), alone, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def barriers_and_one_way_pushes():
    kv.init("unread", zeros(2))
    kv.push("unread", mx.np.ones(2))
    kv.barrier()
    kv.push("unread", mx.np.ones(2))  # takes place at the end of the script


CHECKS = (
    ranks_and_names, dtypes_and_first_values, shapes, many_calls_are_one_exchange,
    a_rank_may_look_earlier_than_the_others, several_devices_of_each_process,
    pushes_of_one_key_come_one_after_the_other, the_optimizer_runs_in_the_store,
    each_process_updates_its_part_of_a_big_weight, one_process_updates_each_weight,
    compressed_sums_are_mxnet_s, training_is_as_in_one_process, barriers_and_one_way_pushes,
)  # fmt: skip


if __name__ == "__main__":
    for check in CHECKS:
        check()
        print("done", check.__name__, flush=True)
