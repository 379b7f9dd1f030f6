"""Ctrl-C while something runs: it is heard, and no weight is lost."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from jax.stages import Compiled

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.array import packing
from mxjax.core import read
from mxjax.core.calls.segment import Segment, Step
from mxjax.core.compile.program import Program
from mxjax.core.interpret.by_call import ByCall
from mxjax.core.run import cold, interrupts
from mxjax.gluon import nn

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals come to the main thread",
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
        np.testing.assert_array_equal(
            other[0].weight.data().asnumpy(), twin[0].weight.data().asnumpy()
        )
        step(*twin)
        step(*other)


@pytest.mark.programs
def test_no_weight_is_lost_where_jax_looks_arrays_up_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does at the second call, too, where numbers that come again are arrays of the device."""
    data = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    net = nn.Dense(3, in_units=4, use_bias=False)
    net.initialize(mx.init.Constant(0.5))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.5})
    weight, momentum = np.full((3, 4), 0.5, np.float32), np.zeros((3, 4), np.float32)
    looked_up, call = [], Compiled.call

    def interrupted(*args: object, **kwargs: object) -> object:
        results = call(*args, **kwargs)
        looked_up.append(len(args))
        signal.raise_signal(signal.SIGINT)  # the weights that went in are overwritten now
        return results

    with mx.config.scope({"engine.cold": "compile"}):
        for step in range(4):
            x = mx.np.array(data)
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            gradient = 2 * (data @ weight.T).T @ data
            momentum = 0.5 * momentum - 0.1 * gradient
            weight = weight + momentum
            with monkeypatch.context() as patch:
                if step:
                    patch.setattr(Compiled, "call", staticmethod(interrupted))
                try:
                    trainer.step(1)
                    mx.npx.waitall()
                except KeyboardInterrupt:
                    pass
            np.testing.assert_allclose(net.weight.data().asnumpy(), weight, rtol=1e-5, atol=1e-6)
    assert looked_up


def test_nothing_is_collected_while_jax_traces() -> None:
    seen = []

    def traced() -> None:
        seen.append(gc.isenabled())

    def broken() -> None:
        interrupts.shielded(traced)()  # of two shields the outer one lets the collector go on
        traced()
        raise ValueError

    with pytest.raises(ValueError):
        interrupts.shielded(broken)()
    traced()
    gc.disable()
    try:
        interrupts.shielded(traced)()
        traced()
    finally:
        gc.enable()
    other = threading.Thread(target=interrupts.shielded(traced))
    other.start()
    other.join()
    assert seen == [False, False, True, False, False, True]


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
        target=lambda: interrupts.Shield().around(
            lambda: seen.append(signal.getsignal(signal.SIGINT))
        )
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


PLACES = [(cold, "by_call"), (Step, "grow"), (ByCall, "run"), (Segment, "enter")]


@pytest.mark.parametrize("place", PLACES, ids=[name for _, name in PLACES])
def test_what_was_interrupted_is_not_mistaken_for_what_comes_later(
    monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
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
        monkeypatch.setattr(*place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            (a + z).asnumpy()
        b = y * 2.5 + mx.np.arange(7.0 * n)
        c = mx.np.tanh(y) - y
        np.testing.assert_allclose(b.asnumpy(), 2.5 + np.arange(7.0 * n))
        np.testing.assert_allclose(c.asnumpy(), np.tanh(1.0) - np.ones(7 * n), rtol=1e-6)
        np.testing.assert_allclose((x + 1).asnumpy(), numbers + 1)
        np.testing.assert_allclose((a + 1).asnumpy(), numbers * 3.25 + 1)


class Once:
    """A function that Ctrl-C breaks off the first time, before or after it has done its work."""

    def __init__(self, fn: object, after: bool = False):
        self.fn, self.after, self.broke = fn, after, False

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.broke:
            return self.fn(*args, **kwargs)  # type: ignore[operator]
        self.broke = True
        if self.after:
            self.fn(*args, **kwargs)  # type: ignore[operator]
        raise KeyboardInterrupt


class Tripled(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        if (in_data[0] < 0).asnumpy().any():
            raise ValueError("a negative number")
        self.assign(out_data[0], req[0], in_data[0] * 3)


@mx.operator.register("test_interrupts_tripled")
class TripledProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Tripled()


def test_operators_in_threads_are_awaited_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with mx.config.scope(engine_host_ops_parallel=True):
        good, bad = (
            mx.nd.Custom(mx.nd.array([n]), op_type="test_interrupts_tripled") for n in (2.0, -2.0)
        )
        for x in (good, bad):
            future = x._value().seg._future
            monkeypatch.setattr(future, "result", Once(future.result))
            with pytest.raises(KeyboardInterrupt):
                x.asnumpy()
        assert good.asnumpy() == 6
        for _ in range(2):
            with pytest.raises(ValueError, match="a negative number"):
                bad.asnumpy()


@pytest.mark.parametrize("after", [False, True])
def test_host_arrays_that_travel_together_are_sent_again(
    monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(packing, "_sent", Once(packing._sent, after))
    made = []
    with pytest.raises(KeyboardInterrupt), packing.packed(1 << 20):
        made += [packing.offered(np.full(3, n, "float32")) for n in (1, 2)]
    assert [read(v).tolist() for v in made] == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize("after", [False, True])
def test_sums_over_devices_are_begun_again(monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    kv = mx.kv.create("device")
    kv.init(0, mx.np.zeros(2))
    kv._reduce = Once(kv._reduce, after)
    kv.push(0, [mx.np.ones(2), mx.np.ones(2, device=mx.cpu(1))])
    out = mx.np.zeros(2)
    kv.pull(0, out=out)
    with pytest.raises(KeyboardInterrupt):
        out.asnumpy()
    assert out.tolist() == [2, 2]
    kv.pull(0, out=out)
    assert out.tolist() == [2, 2]


_WORKERS = """
import os, signal, time
import mxjax as mx

def deaf(number):
    tasks = {}
    for task in os.listdir("/proc/self/task"):
        try:
            lines = dict(line.split(":", 1) for line in open(f"/proc/self/task/{task}/status"))
        except OSError:  # it has ended meanwhile
            continue
        tasks[task] = bool(int(lines["SigBlk"], 16) >> (number - 1) & 1)
    return tasks

before = deaf(signal.SIGPROF)
mx.core.default_device()  # XLA's client begins, and compiles nothing in other threads
while any(deaf(signal.SIGSEGV).values()):  # a thread that is about to begin hears nothing yet
    time.sleep(0.01)
new = {task: blocked for task, blocked in deaf(signal.SIGPROF).items() if task not in before}
# All but at most one of something else that begins late (LLVM's, which computes nothing).
assert len(new) > 2 and sum(not deaf for deaf in new.values()) <= 1, new
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system's list of threads is Linux's")
def test_signals_come_to_no_thread_of_xla_s() -> None:
    subprocess.run([sys.executable, "-c", _WORKERS], check=True, timeout=120)
