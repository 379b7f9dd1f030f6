"""Ctrl-C while something runs: it is heard, and no weight is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core import interrupts
from mxjax.core.program import Program
from mxjax.gluon import nn

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread"
)


@pytest.fixture(autouse=True)
def python_s_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.programs
@pytest.mark.parametrize("at", ["first", "compiled"])
def test_an_interrupted_step_is_done(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def made() -> tuple[nn.Dense, gluon.Trainer]:
        net = nn.Dense(3, in_units=4)
        net.initialize(mx.init.Constant(0.5))
        net.hybridize()
        return net, gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step(net: nn.Dense, trainer: gluon.Trainer) -> None:
        with autograd.record():
            loss = (net(mx.np.ones((2, 4))) ** 2).sum()
        loss.backward()
        trainer.step(1)
        mx.npx.waitall()

    twin, other = made(), made()
    warm = 0 if at == "first" else 3
    for _ in range(warm):
        step(*twin)
        step(*other)
    step(*twin)
    run = Program.run

    def interrupted(self: Program, arrays: object, scalars: object) -> object:
        results = run(self, arrays, scalars)
        signal.raise_signal(signal.SIGINT)  # the weights that went in are overwritten now
        return results

    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(*other)
    for _ in range(2):
        np.testing.assert_array_equal(other[0].weight.data().asnumpy(), twin[0].weight.data().asnumpy())
        step(*twin)
        step(*other)


def test_whoever_insists_is_heard_at_once() -> None:
    shield = interrupts.begin()
    assert shield is not None
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    interrupts.end(shield)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_nobody_handles_it_nothing_is_changed() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert interrupts.begin() is None
    found = []
    thread = threading.Thread(target=lambda: found.append(interrupts.begin()))
    thread.start()
    thread.join()
    assert found == [None]


def test_an_initialization_that_was_broken_off_is_done_later() -> None:
    class Once(mx.init.Constant):
        broken = True

        def _init_weight(self, desc: object, arr: object) -> None:
            if Once.broken:
                Once.broken = False
                raise KeyboardInterrupt
            super()._init_weight(desc, arr)

    net = nn.Dense(2)
    net.initialize(Once(0.25))
    with pytest.raises(KeyboardInterrupt):
        net(mx.np.ones((1, 3)))
    assert net(mx.np.ones((1, 3))).asnumpy().tolist() == [[0.75, 0.75]]
