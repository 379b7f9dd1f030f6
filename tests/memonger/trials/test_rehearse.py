"""Rehearsals: the real step's programs, nothing run, nothing changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxjax as mx
from benchmarks import memory_sublinear
from mxjax import autograd, errors, gluon, memonger
from mxjax.core.calls.state import local
from mxjax.gluon import nn
from mxjax.memonger.trials.rehearse import counting


def _net() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(
        nn.Dense(32, activation="relu", in_units=16),
        nn.BatchNorm(in_channels=32),
        nn.Dropout(0.5),
        nn.Dense(4, in_units=32),
    )
    mx.random.seed(7)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


class Step:
    """One training step."""

    def __init__(self, optimizer: str):
        self.net = _net()
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, {"learning_rate": 0.01})
        self.x = mx.np.array(np.random.RandomState(0).randn(8, 16).astype("float32"))
        self.y = mx.np.array(np.random.RandomState(1).randint(0, 4, 8))
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def __call__(self) -> Any:
        with autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.trainer.step(8)
        return loss

    def state(self) -> list[np.ndarray]:
        params = self.net.collect_params().values()
        arrays = [p.data() for p in params] + [p.grad() for p in params if p.grad_req != "null"]
        return [a.asnumpy() for a in arrays]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_cost_is_that_of_the_real_step(optimizer: str) -> None:
    step = Step(optimizer)
    rehearsed = memonger.rehearse(step, step.net, step.trainer)
    measured = memonger.measure(step, warmup=2)
    assert len(rehearsed.programs) == 1
    assert rehearsed == measured


def test_what_ran_before_does_not_matter() -> None:
    """Calls that keep changing are run one by one for a while; a rehearsed step is gathered nevertheless."""
    step = Step("sgd")
    expected = memonger.rehearse(step, step.net, step.trainer)
    state = local.st
    state.churn.direct, before = 300, state.churn.direct
    state.refresh()
    try:
        assert memonger.rehearse(step, step.net, step.trainer) == expected
        assert state.churn.direct >= 290 and state.limit == 1  # it goes on so
    finally:
        state.churn.direct = before
        state.refresh()


def test_a_rehearsed_program_is_not_compiled_again() -> None:
    step = Step("sgd")
    memonger.rehearse(step, step.net, step.trainer)
    step()
    mx.engine.reset()
    step()
    mx.npx.waitall()
    assert mx.engine.stats()["compiled"] == 0


@pytest.mark.parametrize("at", [0, 2])
def test_nothing_has_changed_afterwards(at: int) -> None:
    def run(rehearsed: bool) -> list[np.ndarray]:
        step = Step("adam")
        losses = []
        for k in range(4):
            if rehearsed and k == at:
                before = step.state()
                memonger.rehearse(step, step.net, step.trainer)
                for a, b in zip(step.state(), before, strict=True):
                    np.testing.assert_array_equal(a, b)
                assert step.trainer.optimizer.num_update == at
            losses.append(step())
        return [a.asnumpy() for a in losses] + step.state()

    # Dropout's masks too: the random counts were put back.
    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_is_allocated_and_nothing_runs() -> None:
    x = mx.np.ones((64, 64))
    x.wait_to_read()
    ran = []

    def fn() -> Any:
        y = x
        for _ in range(3):
            y = mx.np.dot(y, x)
        return y

    class Watch:
        def on_run(self, name: str, *_: Any) -> None:
            ran.append(name)

        on_compile = on_sync = on_python = lambda *_: None

    watch = Watch()
    mx.core.observe(watch)
    try:
        cost = memonger.rehearse(fn)
    finally:
        mx.core.unobserve(watch)
    assert ran == []
    assert cost.programs[0].runs == 1
    assert cost.flops == 3 * 2 * 64**3


def test_asking_for_a_number_is_refused() -> None:
    step = Step("sgd")
    with pytest.raises(errors.MXNetError, match="rehearse"):
        memonger.rehearse(lambda: float(step().mean()), step.net, step.trainer)
    assert np.isfinite(step().asnumpy()).all()


def test_unknown_shapes_are_named() -> None:
    net = nn.Dense(3)
    net.initialize()
    with pytest.raises(errors.MXNetError, match="weight"):
        memonger.rehearse(lambda: net(mx.np.ones((2, 5))), net)


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        memonger.rehearse(lambda: None, 3)


@pytest.mark.parametrize("kind", ["perceptron", pytest.param("residual", marks=pytest.mark.slow)])
def test_what_is_compiled_to_be_counted_counts_the_same(kind: str) -> None:
    """Convolutions, loops and matrix products, with and without what is left out where nothing runs."""

    def cost(options: dict[str, Any]) -> tuple[int, float]:
        with mx.config.scope(compiler_options=options):
            found = memory_sublinear.Step(kind, 4, "sublinear").rehearsed()
        return found.temp_bytes, found.flops

    whole = cost({"xla_backend_optimization_level": 3})
    assert cost(counting()) == whole
    assert memory_sublinear.counted(kind, 4, "sublinear") == whole
