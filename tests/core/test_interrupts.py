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
    shield = interrupts.Shield()
    shield.begin()
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    shield.end()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_waited_is_heard_once_at_the_end() -> None:
    shield = interrupts.Shield()
    with pytest.raises(KeyboardInterrupt):
        shield.around(lambda: signal.raise_signal(signal.SIGINT))
    shield.end()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_nobody_handles_it_nothing_is_changed() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen: list[object] = []
    interrupts.Shield().around(lambda: seen.append(signal.getsignal(signal.SIGINT)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(
        target=lambda: interrupts.Shield().around(lambda: seen.append(signal.getsignal(signal.SIGINT)))
    )
    thread.start()
    thread.join()
    assert seen == [signal.SIG_IGN, signal.default_int_handler]


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


PLACES = ["cold.by_call", "segment.Step.grow", "by_call.ByCall.run", "segment.Segment.enter"]


@pytest.mark.parametrize("place", PLACES)
def test_what_was_interrupted_is_not_mistaken_for_what_comes_later(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Calls that did not run are run when they are asked for, and the calls after them give right numbers."""
    n = 3 + PLACES.index(place)  # nobody recorded these calls before
    numbers = np.arange(2.0 * n).reshape(2, n)
    with mx.config.scope({"engine.cold": "auto"}):
        x, y, z = mx.np.array(numbers), mx.np.ones((7 * n,)), mx.np.ones((2, n))
        mx.waitall()

        def interrupted(*args: object, **kwargs: object) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        a = x * 3.25
        monkeypatch.setattr(f"mxjax.core.{place}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            (a + z).asnumpy()
        b = y * 2.5 + mx.np.arange(7.0 * n)
        c = mx.np.tanh(y) - y
        np.testing.assert_allclose(b.asnumpy(), 2.5 + np.arange(7.0 * n))
        np.testing.assert_allclose(c.asnumpy(), np.tanh(1.0) - np.ones(7 * n), rtol=1e-6)
        np.testing.assert_allclose((x + 1).asnumpy(), numbers + 1)
        np.testing.assert_allclose((a + 1).asnumpy(), numbers * 3.25 + 1)
