"""Numbers of steps that are sent ahead: a steady step transfers nothing, and gets the numbers that it asks for."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.core import ahead
from mxjax.core.compile import program
from mxjax.core.placement.ahead import PROVEN, STEPS, Again, Ahead

HERE = jax.local_devices(backend="cpu")[0]


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU is as far away as a GPU, NumPy computes nothing, and what was compiled for a near CPU is forgotten."""
    monkeypatch.setattr(ahead, "is_far", lambda device: isinstance(device, jax.Device))
    mx.engine.reset()
    mx.core.drop_programs()
    with mx.settings.scope("engine.cold", "compile"):
        yield
    mx.core.drop_programs()


def _sent() -> int:
    return int(mx.engine.stats()["sent"])


def test_the_array_has_the_numbers_whatever_was_told() -> None:
    draw = np.random.RandomState(0)
    sender, n = Ahead(HERE), 0
    for _ in range(600):
        n += 1 if draw.rand() < 0.97 else draw.randint(-3, 3)
        now = np.array([n, n * n], "float32")
        later = [np.array([n + k, (n + k) ** 2], "float32") for k in range(1, STEPS)]
        told = sender.array(now, lambda many, later=later: later[:many])
        assert np.array_equal(np.asarray(told), now)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint32", "int64"])
def test_numbers_that_can_be_told_are_sent_once_in_many_steps(dtype: str) -> None:
    sender, before = Ahead(HERE), _sent()
    for n in range(PROVEN + 1 + 3 * STEPS):
        row = np.array([n + 0.25, 7], dtype)
        got = sender.array(
            row, lambda many, n=n: [np.array([n + k + 0.25, 7], dtype) for k in range(1, many + 1)]
        )
        assert np.asarray(got).tobytes() == row.tobytes()
    assert _sent() - before == PROVEN + 1 + 3


def test_beside_the_host_numbers_that_come_again_are_kept_on_the_device() -> None:
    numbers = Again(HERE)
    first, second, third = (numbers.array(np.float64([0.0, np.nan])) for _ in range(3))
    assert type(first) is np.ndarray and isinstance(second, jax.Array) and third is second
    other = numbers.array(np.float64([-0.0, np.nan]))  # equal, and not the same
    assert type(other) is np.ndarray and np.signbit(other[0])
    for n in (1.0, 1.0, 2.0, 1.0, 1.0):
        np.testing.assert_array_equal(np.asarray(numbers.array(np.float64([n]))), [n])


def test_numbers_that_stay_are_sent_once() -> None:
    sender, before = Ahead(HERE), _sent()
    for _ in range(20):
        got = sender.array(np.float32([1, 2]), lambda many: [])
        assert np.asarray(got).tolist() == [1, 2]
    assert _sent() - before == 1


def test_numbers_that_nobody_can_tell_are_asked_for_less_and_less() -> None:
    sender, asked = Ahead(HERE), []
    draw = np.random.RandomState(1)
    for _ in range(200):
        sender.array(draw.rand(2), lambda many: asked.append(many) or [np.zeros(2)])
    assert set(asked) == {1}
    assert len(asked) < 12


def test_whole_numbers_grow_and_others_stay() -> None:
    assert ahead.counting_on("qdq", [1, 2.5, 7], [4, 3.5, 7], 2) == [[7, 3.5, 7], [10, 3.5, 7]]
    top = (1 << 63) - 2
    assert ahead.counting_on("q", [top - 1], [top], 3) == [[top + 1]]


def _network(drop: bool = False) -> Any:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, in_units=6, activation="relu"))
    if drop:
        net.add(mx.gluon.nn.Dropout(0.5))
    net.add(mx.gluon.nn.Dense(3, in_units=8))
    return net


def _losses(
    steps: int, hybrid: bool, rule: Any, drop: bool = False, at: Any = None, **more: Any
) -> tuple[list[float], list[int]]:
    """Of some steps: the losses, and how often something was sent in each."""
    mx.random.seed(5)
    net = _network(drop)
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    x = mx.np.array(np.random.RandomState(0).rand(4, 6), dtype="float32")
    trainer = mx.gluon.Trainer(net.collect_params(), rule, more or None)
    losses, sent = [], []
    for n in range(steps):
        before = _sent()
        with mx.autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss)
        mx.npx.waitall()
        sent.append(_sent() - before)
        if at is not None:
            at(n, trainer)
    return [float(a) for a in losses], sent


@pytest.mark.parametrize(
    ("rule", "hybrid", "more"),
    [
        ("sgd", True, {"learning_rate": 0.1, "momentum": 0.9}),
        ("adam", False, {"learning_rate": 0.01}),
        ("lamb", True, {"learning_rate": 0.01}),
        (
            "sgd",
            False,
            {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.CosineScheduler(99, 0.1, 0, 3)},
        ),
    ],
    ids=["sgd", "adam", "lamb", "schedule"],
)
def test_a_steady_step_sends_nothing_and_computes_the_same(
    far: None, monkeypatch: pytest.MonkeyPatch, rule: str, hybrid: bool, more: dict[str, Any]
) -> None:
    handed: list[Any] = []
    run = program.Program.run

    def watched(self: Any, arrays: list[Any], scalars: Any) -> Any:
        handed.extend(a for a in arrays if type(a) is np.ndarray)
        return run(self, arrays, scalars)

    monkeypatch.setattr(program.Program, "run", watched)
    losses, sent = _losses(30, hybrid, rule, **copy.deepcopy(more))
    assert sent[12:] == [0] * 18
    assert handed == []  # nor does the call bring an array of the host's with it
    monkeypatch.setattr(ahead, "is_far", lambda device: False)
    mx.core.drop_programs()
    assert _losses(30, hybrid, rule, **copy.deepcopy(more))[0] == losses


@pytest.mark.parametrize("hybrid", [False, True])
def test_random_numbers_are_the_same_and_send_nothing(
    far: None, monkeypatch: pytest.MonkeyPatch, hybrid: bool
) -> None:
    losses, sent = _losses(25, hybrid, "sgd", drop=True, learning_rate=0.1)
    assert sent[12:] == [0] * 13
    monkeypatch.setattr(ahead, "is_far", lambda device: False)
    mx.core.drop_programs()
    assert _losses(25, hybrid, "sgd", drop=True, learning_rate=0.1)[0] == losses


def test_what_changes_is_heeded_at_once(far: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(n: int, trainer: Any) -> None:
        if n in (9, 15):
            trainer.set_learning_rate(0.05 / n)
        if n == 18:
            trainer.optimizer.wd = 0.1

    losses, sent = _losses(40, False, "adam", at=at, learning_rate=0.01)
    assert sent[-1] == 0
    assert sent[10] == sent[16] == sent[19] == 1
    monkeypatch.setattr(ahead, "is_far", lambda device: False)
    mx.core.drop_programs()
    assert _losses(40, False, "adam", at=at, learning_rate=0.01)[0] == losses


def test_an_optimizer_with_numbers_on_the_way_is_copied_and_pickled(far: None) -> None:
    net = _network()
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    for _ in range(8):
        with mx.autograd.record():
            loss = net(mx.np.ones((2, 6))).sum()
        loss.backward()
        trainer.step(2)
    for other in (copy.deepcopy(trainer.optimizer), pickle.loads(pickle.dumps(trainer.optimizer))):
        assert other._ahead == {}
        assert other.num_update == 8
