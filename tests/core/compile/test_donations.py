"""Whose buffers results are written into: gradients take those of the step before, where programs gain by that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.compile import donations
from mxjax.core.compile.compiler_options import part_scans
from mxjax.core.compile.program import Program

X, Y = onp.arange(12, dtype="float32").reshape(3, 4) / 12, onp.ones((3, 3), "float32")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Those that run; this CPU's programs gain by old arrays."""
    ran: list[Program] = []
    run = Program.run

    def noted(self: Program, arrays: Any, scalars: Any) -> Any:
        ran.append(self)
        return run(self, arrays, scalars)

    monkeypatch.setattr(Program, "run", noted)
    monkeypatch.setattr("mxjax.core.calls.spares.gives_spares", lambda device: True)
    return ran


class Training:
    """Two layers of one shape, so that a gradient could take the other's place."""

    def __init__(self, hybridize: bool = False):
        self.net = gluon.nn.HybridSequential()
        self.net.add(gluon.nn.Dense(4, in_units=4), gluon.nn.Dense(4, in_units=4))
        self.net.add(gluon.nn.Dense(3, in_units=4))
        self.net.initialize(mx.init.Constant(0.1))
        if hybridize:
            self.net.hybridize()
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.1})

    def step(self, x: Any, y: Any) -> list[onp.ndarray]:
        with autograd.record():
            loss = gluon.loss.L2Loss()(self.net(x), y).mean()
        loss.backward()
        self.trainer.step(1)
        mx.waitall()
        return [
            a.asnumpy() for p in self.net.collect_params().values() for a in (p.data(), p.grad())
        ]


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_gradient_takes_the_place_of_the_one_before(programs, monkeypatch, hybridize):
    with mx.config.scope(engine_cold="compile"):
        training = Training(hybridize)
        x, y = mx.np.array(X), mx.np.array(Y)
        mx.waitall()
        programs.clear()
        found = [training.step(x, y) for _ in range(3)]
        assert len(set(map(id, programs))) == 1  # the first step, too
        gradients = list(donations.spared(donations_of(programs[0])).values())
        assert len(gradients) == 6 and set(gradients) <= set(programs[0].live)
        assert len(programs[0].donate) == 12
        monkeypatch.setattr("mxjax.core.calls.spares.gives_spares", lambda device: False)
        other = Training(hybridize)
        want = [other.step(x, y) for _ in range(3)]
        assert len(programs[-1].donate) == 6
    for a, b in zip(found, want, strict=True):
        for x, y in zip(a, b, strict=True):
            onp.testing.assert_allclose(x, y, rtol=1e-6)


def donations_of(program: Program) -> Any:
    """All recorded steps of the segment that a program runs, with those that it has no use for."""
    step = program.at[0]()
    steps = []
    while step.call is not None:
        steps.append(step)
        step = step.parent
    return steps


def test_who_holds_an_old_gradient_keeps_it(programs):
    with mx.config.scope(engine_cold="compile"):
        training, x, y = Training(), mx.np.array(X), mx.np.array(Y)
        training.step(x, y)
        held = training.net[1].weight.grad().jax
        before = onp.array(held)
        training.step(x, y)
        after = training.step(x, y)[3]
    onp.testing.assert_array_equal(onp.asarray(held), before)
    assert not onp.array_equal(after, before)


def test_gradients_that_are_added_up_are_no_spares(programs):
    with mx.config.scope(engine_cold="compile"):
        x = mx.np.array([1.0, 2.0])
        x.attach_grad("add")
        for _ in range(3):
            with autograd.record():
                y = (x * x).sum()
            y.backward()
            mx.waitall()
    assert x.grad.asnumpy().tolist() == [6.0, 12.0]


def test_the_call_on_spares_names_inputs_and_results():
    one = SimpleNamespace(call=donations.SPARE, args=(-1, 3, -2, 5, 6, 7))
    two = SimpleNamespace(call=None, args=(-4, 8))
    # 3 is a result of the segment itself, which is no input.
    assert donations.spared([two, one]) == {0: 5, 1: 7}


@pytest.mark.parametrize("platform, apart", [("gpu", True), ("cpu", False), ("tpu", False)])
def test_scans_of_a_gpus_program_are_not_merged(platform, apart):
    def options(fn: Any) -> Any:
        return part_scans(platform, jax.make_jaxpr(fn)(jnp.ones(3)).jaxpr)

    two = options(jax.jit(lambda x: (jnp.nancumsum(x), jnp.nancumprod(x))))
    assert two == ({"xla_disable_hlo_passes": "multi_output_fusion"} if apart else {})
    assert options(jnp.cumsum) == options(jnp.tanh) == {}
