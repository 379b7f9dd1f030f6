"""Real signals into training, hybridized calls, saving, loading and threads: no number is wrong, and no weight lost."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.run import interrupts
from mxjax.gluon import nn
from mxjax.gluon.data import ArrayDataset, DataLoader

from .test_any_place import modes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(),
        reason="signals come to the main thread",
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = 41


class Sender:
    """Sends SIGINT once at a random time of each `broken`; what comes too late is not heard.

    Whoever presses Ctrl-C three times is heard at once, in the midst of JAX too: one is sent at a time.
    """

    def __init__(self, longest: float):
        self.heard = 0
        self.armed = False
        self._longest = longest
        self._ends = False
        self._begins = threading.Semaphore(0)
        self._sent = threading.Semaphore(0)
        self._random = random.Random(SEED)
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while self._begins.acquire() and not self._ends:
            time.sleep(self._random.uniform(0, self._longest))
            os.kill(os.getpid(), signal.SIGINT)
            self._sent.release()

    def _hear(self, number: int, frame: Any) -> None:
        if self.armed:
            self.armed = False
            self.heard += 1
            raise KeyboardInterrupt

    def __enter__(self) -> Sender:
        self._before = signal.signal(signal.SIGINT, self._hear)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends = True
        self._begins.release()
        self._thread.join()
        signal.signal(signal.SIGINT, self._before)

    def broken(self, statement: Callable[[], Any]) -> bool:
        """Run a statement; whether a signal broke it off."""
        self._begins.release()
        try:
            self.armed = True
            statement()
            if self.armed:
                self.armed = False
            else:  # Python swallowed it: the engine would raise it where it next begins something
                assert interrupts.swallowed
                interrupts.swallowed.clear()
        except KeyboardInterrupt:
            return True
        finally:
            self.armed = False
            self._sent.acquire()
        return False


@pytest.fixture(params=["auto", "compile"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with mx.config.scope({"engine.cold": request.param}):
        yield request.param


def close(a: Any, b: Any) -> bool:
    return all(np.allclose(x, y, rtol=2e-4, atol=1e-5) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_training(optimizer: str, hybrid: bool, way: str) -> None:
    """Each weight is that of a whole number of steps, and all that belongs to it is of the same one."""
    data = np.random.default_rng(SEED).uniform(-1, 1, (8, 6)).astype(np.float32)

    def made() -> tuple[Any, Any]:
        net = nn.HybridSequential()
        net.add(
            nn.Dense(5, in_units=6, activation="tanh"),
            nn.Dense(3, in_units=5),
            nn.Dense(1, in_units=3),
        )
        mx.np.random.seed(3)
        net.initialize(mx.init.Uniform(0.5))
        if hybrid:
            net.hybridize()
        options = (
            {"learning_rate": 0.01}
            if optimizer == "adam"
            else {"learning_rate": 0.01, "momentum": 0.9}
        )
        return net, gluon.Trainer(net.collect_params(), optimizer, options)

    def numbers(net: Any, trainer: Any) -> list[np.ndarray]:
        found = [p.data().asnumpy() for p in net.collect_params().values()]
        for state in trainer._updaters[0].states.values():
            found += [s.asnumpy() for s in mx.optimizer.optimizer.flatten(state)]
        return [*found, np.array(list(trainer.optimizer.update_counts[0].values()))]

    def step(net: Any, trainer: Any) -> None:
        x = mx.np.array(data)
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(8)
        net[0].weight.data().wait_to_read()

    steps = 40
    twin = made()
    path = []
    for _ in range(steps + 1):
        step(*twin)
        path.append(numbers(*twin))
    normal = modes()
    rounds = 0
    with Sender(0.01) as sender:
        while sender.heard < 100:
            net, trainer = made()
            step(net, trainer)
            done = 0
            while done < steps and sender.heard < 100:
                broken = sender.broken(lambda n=net, t=trainer: step(n, t))
                now = numbers(net, trainer)
                if not broken:
                    done += 1
                elif close(now, path[done + 1]):
                    done += 1
                assert close(now, path[done]), f"after {sender.heard} signals, step {done}"
            rounds += 1
    assert modes() == normal


def test_calls_of_hybridized_blocks(way: str) -> None:
    rng = np.random.default_rng(SEED)
    normal = modes()
    with Sender(0.004) as sender:
        while sender.heard < 200:
            net = nn.HybridSequential()
            net.add(nn.Dense(4, in_units=3, use_bias=False), nn.BatchNorm(in_channels=4))
            net.initialize(mx.init.Constant(0.5))
            net.hybridize()
            a = rng.uniform(-1, 1, (5, 3)).astype(np.float32)
            x = mx.np.array(a)
            out = np.repeat(a.sum(1, keepdims=True) * 0.5, 4, 1)
            mean, var = np.zeros(4), np.ones(4)
            for _ in range(20):
                broken = sender.broken(lambda n=net, y=x: forward(n, y))
                now = net[1].running_mean.data().asnumpy(), net[1].running_var.data().asnumpy()
                after = mean * 0.9 + out.mean(0) * 0.1, var * 0.9 + out.var(0) * 0.1
                if not broken or close(now, after):
                    mean, var = after
                assert close(now, (mean, var))
                assert close([net[0].weight.data().asnumpy()], [np.full((4, 3), 0.5)])
                got = net(x).asnumpy()
                assert close([got], [(out - mean) / np.sqrt(var + 1e-5)])
    assert modes() == normal


def forward(net: Any, x: Any) -> None:
    with autograd.record():
        net(x).wait_to_read()


def test_expressions_with_numbers_that_change(way: str) -> None:
    rng = np.random.default_rng(SEED)
    a = rng.uniform(1, 2, (3, 4)).astype(np.float32)
    x = mx.np.array(a)
    normal = modes()
    with Sender(0.0005) as sender:
        for k in itertools.count():
            if sender.heard >= 400:
                break
            b = rng.uniform(1, 2, (3, 4)).astype(np.float32)
            y = mx.np.array(b)
            sender.broken(
                lambda y=y, k=k: (x * (0.5 + k % 7) + y * 0.25 - x[0]).sum(axis=1).asnumpy()
            )
            assert close([(x * 0.5 + y * 0.25).asnumpy()], [a * 0.5 + b * 0.25])
            sender.broken(lambda y=y: y.__iadd__(x))
            assert close([y.asnumpy()], [b]) or close([y.asnumpy()], [a + b])
    assert modes() == normal


@pytest.mark.parametrize("fmt", ["params", "npz"])
def test_saving(tmp_path: Path, fmt: str) -> None:
    """The file is the one before or the new one."""
    path = str(tmp_path / f"numbers.{fmt}")
    save = mx.nd.save if fmt == "params" else mx.npx.savez

    def write(k: int) -> None:
        arrays = {"a": mx.np.full((20, 30), k), "b": mx.np.full((5,), k)}
        if fmt == "params":
            save(path, {name: v.as_nd_ndarray() for name, v in arrays.items()})
        else:
            save(path, **arrays)

    write(0)
    there = 0
    with Sender(0.004) as sender:
        for k in itertools.count(1):
            if sender.heard >= 200:
                break
            broken = sender.broken(lambda k=k: write(k))
            found = mx.npx.load(path)
            now = int(found["b"].asnumpy()[0])
            assert now == k or (broken and now == there)
            there = now
            assert (found["a"].asnumpy() == now).all() and found["a"].shape == (20, 30)
    assert os.listdir(tmp_path) == [f"numbers.{fmt}"]


@pytest.mark.parametrize(
    ("workers", "threads", "signals"), [(0, False, 150), (2, True, 100), (2, False, 20)]
)
def test_loading(workers: int, threads: bool, signals: int) -> None:
    """What was broken off leaves nothing behind, and the next pass gives all batches."""
    n = np.arange(60, dtype=np.float32).reshape(30, 2)
    before = threading.active_count()
    with Sender(0.004 if not workers or threads else 0.05) as sender:
        while sender.heard < signals:
            loader = DataLoader(ArrayDataset(n), 4, num_workers=workers, thread_pool=threads)
            for _ in range(10):
                sender.broken(lambda loader=loader: [batch.asnumpy() for batch in loader])
                got = np.concatenate([batch.asnumpy() for batch in loader])
                assert got.tolist() == n.tolist()
                if sender.heard >= signals:
                    break
            del loader
    gc.collect()
    deadline = time.monotonic() + 20
    while threading.active_count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before + 2, threading.enumerate()


def test_threads(way: str) -> None:
    """Others go on while the main thread is interrupted as it reads what they recorded."""
    ends = threading.Event()
    wrong: list[Any] = []
    handed: dict[int, tuple[Any, np.ndarray]] = {}

    def work(k: int) -> None:
        rng = np.random.default_rng(k)
        try:
            while not ends.is_set():
                a = rng.uniform(1, 2, (4, 3)).astype(np.float32)
                x = mx.np.array(a)
                y = x * 2 + k
                handed[k] = y, a * 2 + k
                z = mx.np.tanh(y) - x
                if not close([z.asnumpy(), y.asnumpy()], [np.tanh(a * 2 + k) - a, a * 2 + k]):
                    wrong.append((k, z))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    try:
        with Sender(0.004) as sender:
            while sender.heard < 150 and not wrong:
                for k in list(handed):
                    y, numbers = handed[k]
                    sender.broken(lambda y=y: (y + 1).asnumpy())
                    if not close([(y + 1).asnumpy()], [numbers + 1]):
                        wrong.append(("main", k))
    finally:
        ends.set()
        for t in threads:
            t.join()
    assert not wrong
