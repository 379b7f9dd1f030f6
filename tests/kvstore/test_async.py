"""The asynchronous store without a wire: servers and workers in this process. Values from MXNet 2.0.0b1's dist_async
(two workers, one server, over loopback), NumPy or mathematics."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.kvstore._key_placement import Part, Shards
from mxjax.kvstore._outbox import LocalServers
from mxjax.kvstore.dist_async import AsyncKVStore


class Workers:
    """Two workers that take turns in one thread: who comes first does not wait."""

    def __init__(self, rank: int, size: int = 2):
        self.rank, self.size = rank, size
        self.agreed: list[tuple[str, Any]] = []

    def agree(self, what: str, about: Any) -> None:
        hash(about)
        self.agreed.append((what, about))

    def ended(self) -> bool:
        return True  # nobody waits at the end


def stores(servers: int = 1, size: int = 2) -> tuple[LocalServers, list[AsyncKVStore]]:
    there = LocalServers(servers)
    return there, [AsyncKVStore(workers=Workers(r, size), servers=there) for r in range(size)]


def value(kv: AsyncKVStore, key: Any, shape: tuple[int, ...] = (3,)) -> list[Any]:
    out = mx.np.zeros(shape)
    kv.pull(key, out=out)
    return out.asnumpy().tolist()


def momentum(**changes: Any) -> Any:
    return mx.optimizer.SGD(**{"learning_rate": 0.5, "momentum": 0.9, **changes})


def test_pushes_count_at_once_as_in_mxnet() -> None:
    _, (first, second) = stores()
    for kv in (first, second):  # rank 0's value counts
        kv.init("w", mx.np.ones(3) * (kv.rank + 5))
        kv.set_optimizer(momentum())
    assert value(second, "w") == [5.0] * 3
    first.push("w", mx.np.ones(3))
    assert value(first, "w") == [4.5] * 3
    first.push("w", mx.np.ones(3))
    first.barrier()
    seen = value(second, "w")  # what MXNet's second worker pulled after the first one's two pushes
    assert seen == np.full(3, 3.549999952316284, "float32").tolist()
    second.push("w", mx.np.ones(3) * 2)
    assert value(second, "w") == np.full(3, 1.6949999332427979, "float32").tolist()
    second.push("w", mx.np.ones(3) * 2)
    second.barrier()
    assert value(first, "w") == np.full(3, -0.9744999408721924, "float32").tolist()


def test_pushpull_and_broadcast_as_in_mxnet() -> None:
    _, (first, second) = stores()
    for kv in (first, second):
        kv.init("b", mx.np.zeros((2, 2)))
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    v, out = mx.np.ones((2, 2)) * 4, mx.np.zeros((2, 2))
    first.pushpull("b", v)
    assert v.tolist() == [[-4.0, -4.0], [-4.0, -4.0]]
    second.pushpull("b", mx.np.ones((2, 2)), out=out)
    assert out.tolist() == [[-5.0, -5.0], [-5.0, -5.0]]
    for kv in (first, second):
        got = mx.np.zeros(2)
        kv.broadcast("c", mx.np.ones(2) * (kv.rank + 3), out=got)
        assert got.tolist() == [3.0, 3.0]
    first.push("b", [mx.np.ones((2, 2), device=mx.cpu(k)) * (k + 1) for k in range(2)])
    first.barrier()
    assert value(second, "b", (2, 2)) == [[-8.0, -8.0], [-8.0, -8.0]]


def test_a_pull_is_of_the_moment_it_was_asked_for() -> None:
    _, (first, second) = stores()
    for kv in (first, second):
        kv.init(0, mx.np.zeros(2))
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    out = mx.np.zeros(2)
    first.pull(0, out=out)
    first.barrier()  # it has left
    second.push(0, mx.np.ones(2))
    second.barrier()
    assert out.tolist() == [0.0, 0.0]  # stale
    first.pull(0, out=out)
    first.push(0, mx.np.ones(2))  # in one message with the pull before it
    assert out.tolist() == [-1.0, -1.0] and value(first, 0, (2,)) == [-2.0, -2.0]


def test_a_push_arrives_though_nobody_looks_at_it() -> None:
    there, (first, second) = stores()
    for kv in (first, second):
        kv.init(0, mx.np.zeros(2))
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    first.push(0, mx.np.ones(2))
    for _ in range(10_000):
        if there.servers[0].pushes:
            break
        threading.Event().wait(0.002)
    assert value(second, 0, (2,)) == [-1.0, -1.0]


def test_without_an_optimizer_a_push_is_refused() -> None:
    _, (kv,) = stores(size=1)
    kv.init("w", mx.np.ones(3))
    kv.push("w", mx.np.ones(3))
    with pytest.raises(mx.MXNetError, match="Updater needs to be set for async mode"):
        kv.barrier()
    assert value(kv, "w") == [1.0, 1.0, 1.0]
    with pytest.raises(mx.MXNetError, match="no updater function"):
        kv.set_updater(lambda key, grad, weight: None)


def test_errors_that_mxnet_has_too() -> None:
    _, (kv,) = stores(size=1)
    kv.init("w", mx.np.ones(3))
    for wrong, told in (
        (lambda: kv.init("w", mx.np.ones(3)), "duplicate init of key w"),
        (lambda: kv.push("nokey", mx.np.ones(3)), "nokey has not been inited"),
        (lambda: kv.init(3, mx.np.ones(3)), "Mixed key types are not allowed"),
        (lambda: kv.push("w", mx.np.ones(4)), "shape"),
    ):
        with pytest.raises((mx.MXNetError, ValueError), match=told):
            wrong()
    for call in (kv.save_optimizer_states, kv.load_optimizer_states):
        with pytest.raises(AssertionError, match="states"):
            call("nowhere")
    with pytest.raises(mx.MXNetError, match="MXNet's pickles are not executed"):
        kv.send_command(0, "gASV")
    kv.send_command(7, "hello")


def test_optimizers_travel_as_numbers_only() -> None:
    class Own(mx.optimizer.SGD):
        pass

    class Schedule(mx.lr_scheduler.FactorScheduler):
        pass

    there, (kv,) = stores(size=1)
    with pytest.raises(mx.MXNetError, match="never code"):
        kv.set_optimizer(Own())
    with pytest.raises(mx.MXNetError, match="the schedule Schedule"):
        kv.set_optimizer(
            mx.optimizer.SGD(learning_rate=1.0, lr_scheduler=Schedule(step=2, base_lr=1.0))
        )
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    kv.init("w", mx.np.zeros(1))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, lr_scheduler=schedule))
    for _ in range(4):
        kv.push("w", mx.np.ones(1))
    own = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    alone = mx.optimizer.Updater(mx.optimizer.SGD(learning_rate=1.0, lr_scheduler=own))
    weight = mx.np.zeros(1)
    for _ in range(4):
        alone("w", mx.np.ones(1), weight)
    assert value(kv, "w", (1,)) == weight.tolist() and weight.tolist()[0] < -1.5


@pytest.mark.parametrize("name", ["sgd", "adam", "ftrl", "lamb", "signum"])
def test_the_servers_optimizer_is_the_same_as_a_local_one(name: str) -> None:
    there, (kv,) = stores(2, size=1)
    made = {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.7}
    alone = mx.optimizer.Updater(mx.optimizer.create(name, **made))
    kv.set_optimizer(mx.optimizer.create(name, **made))
    weight = mx.np.array(np.linspace(-1, 1, 12).reshape(3, 4).astype("float32"))
    kv.init(4, weight)
    for step in range(3):
        grad = mx.np.array(np.sin(np.arange(12) + step).reshape(3, 4).astype("float32"))
        kv.push(4, grad)
        alone(4, grad, weight)
    np.testing.assert_allclose(value(kv, 4, (3, 4)), weight.asnumpy(), rtol=1e-6)


def test_the_same_optimizer_again_forgets_nothing_and_changes_reach_the_servers() -> None:
    _, (first, second) = stores()
    for kv in (first, second):
        kv.init("w", mx.np.zeros(1))
    mine = momentum()
    first.set_optimizer(mine)
    first.push("w", mx.np.ones(1))
    second.set_optimizer(momentum())
    second.barrier()
    first.push("w", mx.np.ones(1))
    np.testing.assert_allclose(value(first, "w", (1,)), [-0.5 - 0.95], rtol=1e-6)
    mine.set_learning_rate(0.0)
    first.push("w", mx.np.ones(1))
    first.barrier()
    np.testing.assert_allclose(value(second, "w", (1,)), [-0.5 - 0.95 - 0.9 * 0.95], rtol=1e-6)


def test_big_arrays_are_cut_between_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    with mx.config.scope(comm_bigarray_bound=20):
        there, (kv, other) = stores(3)
    shards = Shards(3, 20)
    assert [shards.add(s, "f4").parts for s in ((2, 3), (5,), (7, 3), (2, 100))] == [
        (Part(0, 0, 2),), (Part(1, 0, 5),), (Part(0, 0, 2), Part(1, 2, 4), Part(2, 4, 7)), (Part(2, 0, 2),)
    ]  # fmt: skip
    first = np.arange(21, dtype="float32").reshape(7, 3)
    for k in (kv, other):
        k.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        k.init(["small", "big"], [mx.np.ones(3), mx.np.array(first)])
        assert len(k._places["big"].parts) == 3
    assert [s._values["big"].shape for s in there.servers] == [(2, 3), (2, 3), (3, 3)]
    kv.push(["small", "big"], [mx.np.ones(3), mx.np.array(first)])
    kv.barrier()
    assert (
        value(other, "big", (7, 3)) == np.zeros((7, 3)).tolist() and value(kv, "small") == [0.0] * 3
    )
    out = mx.np.zeros((7, 3))
    kv.push("big", mx.np.array(-first))
    kv.row_sparse_pull("big", out=out, row_ids=mx.np.array([6, 1, 6, 3, 99]))
    expected = np.zeros((7, 3), "float32")
    expected[[1, 3, 6]] = first[[1, 3, 6]]
    np.testing.assert_array_equal(out.asnumpy(), expected)


def test_rows_that_are_zero_do_not_travel() -> None:
    there, (kv,) = stores(2, size=1)
    first = np.arange(12, dtype="float32").reshape(6, 2)
    kv.init("rs", mx.np.array(first))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=0.9))
    out = mx.np.zeros((6, 2))
    kv.row_sparse_pull("rs", out=out, row_ids=mx.np.array([4, 1, 4]))
    assert out.tolist() == [[0, 0], [2, 3], [0, 0], [0, 0], [8, 9], [0, 0]]  # MXNet's
    seen: list[Any] = []
    send = there.send
    there.send = lambda server, requests: (seen.extend(requests), send(server, requests))[1]  # type: ignore[method-assign]
    grad = np.zeros((6, 2), "float32")
    grad[[1, 4]] = 1
    for _ in range(2):
        kv.push("rs", mx.np.array(grad))
    kv.row_sparse_pull("rs", out=out, row_ids=mx.np.arange(6))
    expected = np.array(
        [[0.0, 1.0], [-0.8999999761581421, 0.10000002384185791], [4.0, 5.0], [6.0, 7.0],
         [5.099999904632568, 6.099999904632568], [10.0, 11.0]], "float32",
    )  # fmt: skip  # MXNet's after two row_sparse pushes
    np.testing.assert_array_equal(out.asnumpy(), expected)
    pushed = [gradient for r in seen if r[0] == "push" for gradient in r[2]]
    assert len(pushed) == 2 and all(p[0] == "rows" and p[3].shape == (2, 2) for p in pushed)


@pytest.mark.parametrize(("kind", "bits"), [("2bit", 2), ("1bit", 1), ("fp16", 16), ("bf16", 16)])
def test_compressed_gradients_travel_compressed(kind: str, bits: int) -> None:
    with mx.config.scope(comm_bigarray_bound=100):
        there, (kv,) = stores(2, size=1)
    kv.set_gradient_compression({"type": kind, "threshold": 0.5})
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    kv.init("w", mx.np.zeros((64, 4)))
    local = mx.kv.create("device")  # what arrives there is MXNet's to the bit (test_types.py)
    local.set_gradient_compression({"type": kind, "threshold": 0.5})
    local.init("w", mx.np.zeros((64, 4)))
    sent = 0
    post = kv._outbox.post

    def counting(server: int, request: Any, nbytes: int = 0, asked: bool = True) -> Any:
        nonlocal sent
        sent += nbytes
        if request[0] == "push":
            arrays = [g[-1] if isinstance(g, tuple) else g for g in request[2]]
            assert sum(a.nbytes for a in arrays) == nbytes
        return post(server, request, nbytes, asked)

    kv._outbox.post = counting  # type: ignore[method-assign]
    total, out = np.zeros((64, 4), "float32"), mx.np.zeros((64, 4))
    for step in range(4):
        grad = mx.np.array(np.sin(np.arange(256) * 1.7 + step).reshape(64, 4).astype("float32"))
        kv.push("w", grad)
        local.push("w", grad)
        local.pull("w", out=out)
        total -= out.asnumpy()
    assert sent == 4 * 256 * bits // 8
    np.testing.assert_array_equal(np.array(value(kv, "w", (64, 4)), "float32"), total)


def test_states_are_those_of_whole_weights(tmp_path: Path) -> None:
    first = np.linspace(-1, 1, 24).reshape(8, 3).astype("float32")

    def grads(step: int) -> list[Any]:
        return [mx.np.array(np.cos(np.arange(n) + step).reshape(s).astype("float32"))
                for n, s in ((24, (8, 3)), (2, (2,)))]  # fmt: skip

    def started(servers: int) -> AsyncKVStore:
        with mx.config.scope(comm_bigarray_bound=10):
            _, (kv,) = stores(servers, size=1)
        kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
        return kv

    kv = started(3)
    kv.init([0, 1], [mx.np.array(first), mx.np.ones(2)])
    for step in range(3):
        kv.push([0, 1], grads(step))
    path = str(tmp_path / "states")
    kv.save_optimizer_states(path, dump_optimizer=True)
    weights = [mx.np.array(value(kv, 0, (8, 3))), mx.np.array(value(kv, 1, (2,)))]
    kv.push([0, 1], grads(3))
    expected = value(kv, 0, (8, 3)), value(kv, 1, (2,))

    other = started(2)  # at another number of servers
    other.init([0, 1], weights)
    other.load_optimizer_states(path)
    other.push([0, 1], grads(3))
    assert (value(other, 0, (8, 3)), value(other, 1, (2,))) == expected

    local = mx.kv.create("device")  # and in one process
    local.init([0, 1], weights)
    local.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
    local.load_optimizer_states(path)
    local.push([0, 1], grads(3))
    out = mx.np.zeros((8, 3))
    local.pull(0, out=out)
    np.testing.assert_allclose(out.asnumpy(), expected[0], rtol=0, atol=1e-6)


def test_many_keys_take_few_messages() -> None:
    there, (kv,) = stores(size=1)
    keys = list(range(40))
    kv.init(keys, [mx.np.zeros(4)] * 40)
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    outs = [mx.np.zeros(4) for _ in keys]
    kv.pushpull(keys, [mx.np.ones(4)] * 40, out=outs)
    mx.waitall()
    before = there.messages
    kv.pushpull(keys, [mx.np.ones(4) * k for k in keys], out=outs)
    mx.waitall()
    assert there.messages - before <= 2
    assert [o.tolist() for o in outs] == [[-1.0 - k] * 4 for k in keys]


def test_workers_that_push_at_the_same_time_lose_nothing() -> None:
    there, both = stores(2)
    for kv in both:
        kv.init(["a", "b"], [mx.np.zeros(5), mx.np.zeros(7)])
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))

    def work(kv: AsyncKVStore) -> None:
        for _ in range(50):
            kv.push("a", mx.np.ones(5))
            kv.pushpull("b", mx.np.ones(7), out=mx.np.zeros(7))
        kv.barrier()

    threads = [threading.Thread(target=work, args=(kv,)) for kv in both]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert value(both[0], "a", (5,)) == [-100.0] * 5 and value(both[1], "b", (7,)) == [-100.0] * 7


def test_a_trainer_lets_the_servers_update(tmp_path: Path) -> None:
    there, both = stores(2)

    class Made:
        def __init__(self, kv: AsyncKVStore):
            self.net = gluon.nn.Dense(1, in_units=2)
            self.net.initialize(mx.init.One())
            self.trainer = gluon.Trainer(
                self.net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kv
            )

        def step(self) -> float:
            with autograd.record():
                loss = (self.net(mx.np.ones((4, 2))) ** 2).mean()
            loss.backward()
            self.trainer.step(4)
            return float(loss)

    workers = [Made(kv) for kv in both]
    losses = [w.step() for _ in range(20) for w in workers]
    assert losses[0] == 4.0
    # The second one's gradient was of the first weights, but what it got had both pushes in it.
    assert losses[1] == 4.0 and losses[2] > losses[4] > losses[-1] and losses[-1] < 0.2
    for w in workers:
        assert w.trainer._update_on_kvstore
        with pytest.raises(AssertionError):
            w.trainer.allreduce_grads()
    path = str(tmp_path / "trainer")
    workers[0].trainer.save_states(path)
    workers[1].trainer.load_states(path)
    with pytest.raises(ValueError, match="update_on_kvstore=True"):
        trainer = gluon.Trainer(
            workers[0].net.collect_params(), "sgd", kvstore=both[0], update_on_kvstore=False
        )
        trainer.step(4)


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxjax.launch import cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "ray")
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ImportError, match=r"mxjax\[ray\]"):
        mx.kv.create("dist_async")
