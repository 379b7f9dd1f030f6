"""An exception at any place of the engine leaves every array as it was before or after the statement.

A trace function raises at the places that a statement passes, one after the other: at each line and at each call of a
function of the files below (`-m slow`: at each instruction, each time it is passed). After each the arrays are looked
at, no mode of the thread is left behind, and statements that follow are right.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, scopes
from mxjax.core import in_flight, mirroring, rng
from mxjax.core.calls.state import local
from mxjax.gluon import nn

pytestmark = [
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(),
        reason="signals come to the main thread",
    ),
    # Python closes generators that nobody reads to their end, and swallows what is raised there.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(mx.__file__).resolve().parent
#: What runs between a statement and its results; each name is a file, or a folder with its files.
FILES = frozenset(
    str(path)
    for name in (
        *(f"core/{name}.py" for name in (
            "calls/call", "calls/known", "calls/reading", "calls/record", "calls/rng", "calls/segment", "calls/state",
            "calls/value",
            "compile/program", "compile/store", "graph/graph", "graph/tape", "interpret/by_call", "interpret/symbolic",
            "placement/memory", "run/choice", "run/cold", "run/host_compute", "run/interrupts", "run/known",
            "run/programs", "run/scheduler", "run/sync", "calls/varying",
        )),
        *(f"array/{name}.py" for name in ("handle", "indexing", "invoke", "ndarray", "operators", "view")),
        *(f"optimizer/{name}.py" for name in ("optimizer", "rules", "updater")),
        *(f"gluon/{name}.py" for name in (
            "block", "graphs/breaks", "graphs/cached_graph", "graphs/served", "hybrid_block", "parameter", "trainer",
        )),
        *(f"kvstore/{name}.py" for name in ("_collective", "_gather", "_row_sparse", "_zero_devices", "base", "store")),
        *(f"module/{name}.py" for name in ("base_module", "executor_group", "module", "steps")),
        *(f"symbol/{name}.py" for name in ("cached", "run")),
        "autograd.py", "executor.py", "npx/control_flow.py",
    )
    for path in (ROOT / name, (ROOT / name).resolve(strict=True))
)  # fmt: skip


class Interrupted(BaseException):
    """What a handler of the user's may raise."""


class Pressed(KeyboardInterrupt):
    """Stands for Ctrl-C itself, which waits where the engine is not to be interrupted."""


class Raiser:
    """Raises at the place of this number (None: nowhere), and notes all places that are passed."""

    def __init__(self, at: int | None, opcodes: bool, error: type[BaseException]):
        self.at = at
        self.opcodes = opcodes
        self.error = error
        self.caught = KeyboardInterrupt if error is Pressed else error
        self.places: list[tuple[str, str, int]] = []

    def _pass(self, frame: Any, event: str) -> None:
        self.places.append(
            (event, frame.f_code.co_filename, frame.f_lasti if self.opcodes else frame.f_lineno)
        )
        if len(self.places) - 1 == self.at:
            if self.error is Pressed:
                signal.raise_signal(signal.SIGINT)
                return
            if issubclass(self.error, Exception):
                signal.raise_signal(signal.SIGTERM)  # whose handler raises it
            raise self.error

    def trace(self, frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = self.opcodes
        self._pass(frame, "call")
        return self.local

    def local(self, frame: Any, event: str, arg: Any) -> Any:
        if event == ("opcode" if self.opcodes else "line"):
            self._pass(frame, event)
        return self.local

    def run(self, statement: Callable[[], Any]) -> bool:
        """Whether the statement was broken off."""
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            statement()
        except self.caught:
            return True
        finally:
            sys.settrace(before)
            let_go()
        return False


def let_go() -> None:
    """Give back this thread's locks, for which others would wait for ever.

    A trace function raises on the way out of a with statement too, before `__exit__` is called, where no handler of a
    signal runs: those run after calls, at the beginnings of functions and as loops go round.
    """
    for lock in (local.st.lock, in_flight.lock):
        while lock._is_owned():
            lock.release()


def modes() -> dict[str, Any]:
    st = local.st
    flags = st.slow, st.limit, st.soft
    st.refresh()
    return {
        "recording": autograd.is_recording(), "training": autograd.is_training(), "steady": st.steady,
        "differentiating": st.differentiating, "scope": st.scope, "graph": st.seg.graph, "device": st.device,
        "aside": st.segs is st.aside, "on_read": st.on_read, "flags": flags == (st.slow, st.limit, st.soft),
        "draws": getattr(rng._recording, "now", None), "mirroring": mirroring.get(), "scopes": len(scopes._stack()),
        "handler": signal.getsignal(signal.SIGINT), "x64": jax.numpy.asarray(np.float64(1)).dtype.name,
        "np": (mx.util.is_np_array(), mx.util.is_np_shape()),
        "locks": [lock._is_owned() for lock in (st.lock, in_flight.lock)],
    }  # fmt: skip


def everywhere(
    make: Callable[[], tuple[Callable[[], Any], Callable[[], None]]],
    opcodes: bool = False,
    error: type[BaseException] = Interrupted,
    most: int | None = None,
) -> int:
    """Break a statement off at all its places.

    ``make`` gives the statement and what looks at the arrays afterwards. Without ``opcodes`` each place is taken the
    first and the last time that it is passed; ``most`` places are taken, evenly.
    """
    for _ in range(3):  # what is recorded and compiled once is there
        statement, check = make()
        statement()
        check()
    statement, check = make()
    first = Raiser(None, opcodes, error)
    first.run(statement)
    check()
    passed: dict[Any, list[int]] = {}
    for k, place in enumerate(first.places):
        passed.setdefault(place, []).append(k)
    at = sorted({k for ks in passed.values() for k in (ks if opcodes else (ks[0], ks[-1]))})
    if most is not None:
        at = at[:: max(1, len(at) // most)]
    before = modes()
    broken = 0
    for k in at:
        statement, check = make()
        raiser = Raiser(k, opcodes, error)
        broken += raiser.run(statement)
        where = "" if k >= len(raiser.places) else str(raiser.places[k])
        left = {name: mode for name, mode in modes().items() if mode != before[name]}
        assert not left, f"{left} is left after an exception at {where}"
        try:
            check()
        except BaseException as failed:
            raise AssertionError(f"{failed!r} after an exception at {where}") from failed
    assert broken > 0.9 * len(at), "the statement took another way"
    return broken


_numbers = np.random.default_rng(41)


def fresh(*shape: int) -> tuple[np.ndarray, Any]:
    n = _numbers.uniform(1, 2, shape).astype(np.float32)
    return n, mx.np.array(n)


def one_of(a: Any, *wanted: np.ndarray) -> int:
    """Which of these numbers an array has."""
    got = a.asnumpy()
    for k, w in enumerate(wanted):
        # Where terms cancel a number is as exact as they are.
        if np.allclose(got, w, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(w).max(initial=0)))):
            return k
    raise AssertionError(f"{got} is none of {wanted}")


def later_is_right() -> None:
    """Statements on new arrays, which share places in the tree with those broken off."""
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    one_of(x * 0.5 + y * 0.25, a * 0.5 + b * 0.25)
    one_of(mx.np.dot(x, y.T) - 1, a @ b.T - 1)


_scalar = iter(range(1, 1 << 30))


def expression() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    pending = x + y
    s = float(next(_scalar))

    def statement() -> None:
        z = x * s + y * 0.25 - pending
        w = mx.np.maximum(z, x).sum(axis=1)
        u, v = mx.np.split(x, 2, axis=1)
        (w.reshape(3, 1) + u * v).asnumpy()

    def check() -> None:
        one_of(x * s + y, a * s + b)
        one_of(pending, a + b)
        one_of(x, a)
        one_of(y, b)
        later_is_right()

    return statement, check


def in_place() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    c, o = fresh(3, 4)
    view = x[1]

    def statement() -> None:
        nonlocal x
        x += y
        x[2:] = y[:1] * 2
        mx.np.add(y, 1, out=o)
        x.wait_to_read()

    def check() -> None:
        added = a + b
        written = np.concatenate([added[:2], b[:1] * 2])
        k = one_of(x, a, added, written)
        one_of(view, (a, added, written)[k][1])
        one_of(o, c, b + 1)
        one_of(y, b)
        later_is_right()

    return statement, check


def reading() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    p, q = x * y, x + 1

    def statement() -> None:
        r = p - q
        p.wait_to_read()
        q.asnumpy()
        r.sum().item()
        float(x[0, 0] + 1)

    def check() -> None:
        one_of(p, a * b)
        one_of(q, a + 1)
        one_of(p + q, a * b + a + 1)
        later_is_right()

    return statement, check


def gradient() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    x.attach_grad()
    y.attach_grad("add")
    y.grad[:] = 3

    def statement() -> None:
        with autograd.record():
            z = (x * x * y).sum() + (y * 2).sum()
        z.backward()

    def check() -> None:
        k = one_of(x.grad, np.zeros((3, 4)), 2 * a * b)
        assert (
            one_of(y.grad, np.full((3, 4), 3.0), 3 + a * a + 2) == k
        )  # all gradients of a pass, or none
        with autograd.record():
            z = (x * y).sum()
        z.backward()
        one_of(x.grad, b)
        one_of(x, a)
        later_is_right()

    return statement, check


def attaching() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3)
    x.attach_grad()
    old = x.grad

    def statement() -> None:
        x.attach_grad("add")

    def check() -> None:
        with autograd.record():
            z = (x * x).sum()
        z.backward()
        assert x.grad is old or one_of(old, np.zeros(3), 2 * a) == 0
        one_of(x.grad, 2 * a)

    return statement, check


def training(
    optimizer: str, options: dict[str, Any], hybrid: bool, start: np.ndarray, data: np.ndarray
) -> tuple[Any, Any, Callable[[], None]]:
    net = nn.HybridSequential()
    net.add(
        nn.Dense(2, in_units=3, use_bias=False, activation="tanh"),
        nn.Dense(1, in_units=2, use_bias=False),
    )
    net.initialize()
    net[0].weight.set_data(mx.np.array(start))
    net[1].weight.set_data(mx.np.array(start[:1, :2]))
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options))
    x = mx.np.array(data)

    def step() -> None:
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)

    return net, trainer, step


def numbers_of(net: Any, trainer: Any) -> list[np.ndarray]:
    """All that training has changed: weights, states and counts."""
    found = [p.data().asnumpy() for p in net.collect_params().values()]
    states = trainer._updaters[0].states
    for k in range(2):
        found += [s.asnumpy() for s in mx.optimizer.optimizer.flatten(states.get(k))]
    counts = trainer.optimizer.update_counts[0]
    return [*found, np.array([counts.get(0, 0), counts.get(1, 0), trainer.optimizer.num_update])]


OPTIMIZERS = {"adam": {"learning_rate": 0.1}, "sgd": {"learning_rate": 0.1, "momentum": 0.9}}


def step_of(
    optimizer: str, hybrid: bool
) -> Callable[[], tuple[Callable[[], Any], Callable[[], None]]]:
    options = OPTIMIZERS[optimizer]
    start = _numbers.uniform(-1, 1, (2, 3)).astype(np.float32)
    data = _numbers.uniform(-1, 1, (4, 3)).astype(np.float32)
    net, trainer, step = training(optimizer, options, hybrid, start, data)
    path = []
    for _ in range(6):
        step()
        path.append(numbers_of(net, trainer))

    def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
        return all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(one, other, strict=True))

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        # Back to the second step of the same network: another one would be other programs.
        weights = [p.data() for p in net.collect_params().values()]
        states = [mx.optimizer.optimizer.flatten(trainer._updaters[0].states[k]) for k in range(2)]
        for array, numbers in zip([*weights, *states[0], *states[1]], path[1], strict=False):
            array[:] = mx.np.array(numbers)
        trainer.optimizer.update_counts = {0: {0: 2, 1: 2}}
        trainer.optimizer.num_update = 2

        def check() -> None:
            now = numbers_of(net, trainer)
            at = next((k for k in (1, 2) if same(now, path[k])), None)
            assert at is not None, f"{now} is neither {path[1]} nor {path[2]}"
            step()
            step()
            assert same(numbers_of(net, trainer), path[at + 2])

        return step, check

    return make


class Normed(nn.HybridSequential):
    def __init__(self) -> None:
        super().__init__()
        self.add(
            nn.Dense(4, in_units=3, use_bias=False),
            nn.BatchNorm(in_channels=4),
            nn.Activation("relu"),
        )


def first_call() -> tuple[Callable[[], Any], Callable[[], None]]:
    """The first call of a hybridized block, which records it, with moving statistics."""
    a, x = fresh(2, 3)
    net = Normed()
    net.initialize(mx.init.Constant(0.5))
    net.hybridize()
    mean, var = net[1].running_mean.data(), net[1].running_var.data()
    out = np.repeat(a.sum(1, keepdims=True) * 0.5, 4, 1)

    def statement() -> None:
        with autograd.record():
            net(x)

    def check() -> None:
        k = one_of(mean, np.zeros(4), out.mean(0) * 0.1)
        assert one_of(var, np.ones(4), 0.9 + out.var(0) * 0.1) == k
        assert all(b._active for b in (net, net[0], net[1]))
        one_of(net[0].weight.data(), np.full((4, 3), 0.5))
        m, v = mean.asnumpy(), var.asnumpy()
        one_of(net(x), np.maximum((out - m) / np.sqrt(v + 1e-5), 0))
        later_is_right()

    return statement, check


def deferred() -> tuple[Callable[[], Any], Callable[[], None]]:
    """The first call of a block whose parameters have no shapes yet."""
    a, x = fresh(2, 3)
    net = nn.HybridSequential()
    net.add(nn.Dense(2, use_bias=False), nn.Dense(1, use_bias=False))
    net.initialize(mx.init.Constant(0.5))
    net.hybridize()

    def check() -> None:
        one_of(net(x), np.repeat(a.sum(1, keepdims=True) * 0.5, 2, 1).sum(1, keepdims=True) * 0.5)
        assert net._active and net[0]._active and net[1]._active

    return lambda: net(x), check


def hybridizing() -> tuple[Callable[[], Any], Callable[[], None]]:
    net = Normed()
    net.initialize()

    def check() -> None:
        assert len({b._active for b in (net, *net)}) == 1

    return net.hybridize, check


def loop() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(3, 2)
    b, s = fresh(2)

    def statement() -> None:
        outs, _ = mx.npx.foreach(lambda row, state: (row * state, state + row), x, s)
        outs.asnumpy()

    def check() -> None:
        _, end = mx.npx.foreach(lambda row, state: (row * state, state + row), x, s)
        one_of(end, b + a.sum(0))
        one_of(x, a)
        later_is_right()

    return statement, check


def serving() -> Callable[[], tuple[Callable[[], Any], Callable[[], None]]]:
    """Calls of a network that come again: one that is read alone, and one that another follows."""
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(2, in_units=3))
    net.initialize(mx.init.Normal(1.0))
    w, b, v, c = [p.data().asnumpy() for p in net.collect_params().values()]
    x = mx.np.ones((2, 3))
    net.optimize_for(x)
    for _ in range(8):
        net(x).wait_to_read()
        (net(x) * 2).wait_to_read()

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        a, x = fresh(2, 3)
        made: list[Any] = []

        def statement() -> None:
            made.append(net(x))
            made[0].wait_to_read()
            made.append(net(x) * 2)
            made[1].wait_to_read()

        def check() -> None:
            want = (a @ w.T + b) @ v.T + c
            for k, y in enumerate(made):
                one_of(y, want * 2 if k == 1 else want)
            one_of(net(x), want)
            one_of(net(x) + 1, want + 1)
            later_is_right()

        return statement, check

    return make


def parameters() -> tuple[Callable[[], Any], Callable[[], None]]:
    a, x = fresh(2, 3)
    p = gluon.Parameter("weight", shape=(2, 3))
    p.initialize(mx.init.Constant(0.5))

    def statement() -> None:
        p.set_data(x)
        p.cast("float64")

    def check() -> None:
        k = one_of(p.data(), np.full((2, 3), 0.5), a)
        assert p.data().dtype == p.dtype == p.grad().dtype
        assert k or p.dtype == np.float32

    return statement, check


def pushing() -> tuple[Callable[[], Any], Callable[[], None]]:
    """Sums over two devices, which are gathered until somebody pulls."""
    a, x = fresh(3, 4)
    b, y = fresh(3, 4)
    c, first = fresh(3, 4)
    d, second = fresh(3, 4)
    _, out = fresh(3, 4)
    there = y.to_device(mx.cpu(1))
    kv = mx.kv.create("device")
    kv.init([0, 1], [first, second])
    before = out.asnumpy()

    def statement() -> None:
        kv.push([0, 1], [[x, there], [x, there]])
        kv.pull(0, out=out)
        out.wait_to_read()

    def check() -> None:
        k = one_of(out, before, c, a + b)
        kv.pull(0, out=out)
        assert one_of(out, c, a + b) >= k - 1
        kv.pull(1, out=out)
        one_of(out, d, a + b)
        kv.push(1, [x, there])
        kv.pull(1, out=out)
        one_of(out, a + b)
        one_of(x, a)
        one_of(there, b)

    return statement, check


def path_of(w: Any, g: Any) -> list[Any]:
    """A weight before and after each of four steps of `SGD(learning_rate=0.1, momentum=0.9)` with this gradient."""
    path, m = [w], np.zeros_like(w)
    for _ in range(4):
        m = 0.9 * m - 0.1 * g
        path.append(path[-1] + m)
    return path


def sharing() -> Callable[[], tuple[Callable[[], Any], Callable[[], None]]]:
    """Pushes from two devices, between which the optimizer is shared out; Ctrl-C waits while it updates."""
    kv = mx.kv.create("device")
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.0))
    keys = iter(range(1 << 30))

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        key = next(keys)
        w, weight = fresh(3, 4)
        g, grad = fresh(3, 4)
        grads = [grad, grad.to_device(mx.cpu(1))]
        outs = [mx.np.zeros((3, 4)), mx.np.zeros((3, 4), device=mx.cpu(1))]
        kv.init(key, weight)
        kv.pushpull(key, grads, out=outs)
        outs[1].wait_to_read()
        path = path_of(w, 2 * g)

        def statement() -> None:
            kv.pushpull(key, grads, out=outs)
            outs[1].wait_to_read()

        def check() -> None:
            k = 1 + one_of(kv_value(), path[1], path[2])
            for out in outs:
                one_of(out, path[1], path[2])
            assert kv._updater.optimizer.update_counts[0][key] == k
            kv.pushpull(key, grads, out=outs)
            for out in outs:
                one_of(out, path[k + 1])

        def kv_value() -> Any:
            found = mx.np.zeros((3, 4))
            kv.pull(key, out=found)
            return found

        return statement, check

    return make


def updating() -> Callable[[], tuple[Callable[[], Any], Callable[[], None]]]:
    """Pushes that an optimizer of the store's takes: the weight, its momentum and its count go together."""
    kv = mx.kv.create("local")
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.0))
    keys = iter(range(1 << 30))

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        key = next(keys)
        w, weight = fresh(3, 4)
        g, grad = fresh(3, 4)
        _, out = fresh(3, 4)
        before = out.asnumpy()
        kv.init(key, weight)
        kv.push(key, grad)
        path = path_of(w, g)

        def statement() -> None:
            kv.push(key, grad)
            kv.pull(key, out=out)
            out.wait_to_read()

        def check() -> None:
            one_of(out, before, path[1], path[2])
            kv.pull(key, out=out)
            k = 1 + one_of(out, path[1], path[2])
            assert kv._updater.optimizer.update_counts[0][key] == k
            kv.push(key, grad)
            kv.pull(key, out=out)
            one_of(out, path[k + 1])
            one_of(grad, g)

        return statement, check

    return make


def fitting() -> Callable[[], tuple[Callable[[], Any], Callable[[], None]]]:
    """A step of Module.fit: forward, backward, update, metric, and the beginning of the next one, which runs it."""
    x = mx.sym.var("data")
    net = mx.sym.FullyConnected(x, num_hidden=2, no_bias=True, name="one")
    net = mx.sym.FullyConnected(mx.sym.tanh(net), num_hidden=1, no_bias=True, name="two")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("label"), name="out")
    module = mx.mod.Module(net, ["data"], ["label"], context=mx.cpu())
    module.bind([("data", (4, 3))], [("label", (4, 1))])
    start = {
        n: _numbers.uniform(-1, 1, s).astype(np.float32)
        for n, s in (("one", (2, 3)), ("two", (1, 2)))
    }
    names = [f"{n}_weight" for n in start]
    module.init_params()
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    data = mx.nd.array(_numbers.uniform(-1, 1, (4, 3)).astype(np.float32))
    batch = mx.io.DataBatch([data], [mx.nd.array(np.ones((4, 1), np.float32))])
    metric = mx.metric.create("mse")

    def step() -> None:
        module.forward_backward(batch)
        module.update()
        module.update_metric(metric, batch.label)

    def numbers() -> list[np.ndarray]:
        given = module.get_params()[0]
        states = module._updater.states
        found = [given[n].asnumpy() for n in names] + [
            states[k].asnumpy() for k in range(2) if k in states
        ]
        counts = module._optimizer.update_counts[0]
        return [
            *found,
            np.array([counts.get(0, 0), counts.get(1, 0), module._optimizer.num_update]),
        ]

    module.set_params({f"{n}_weight": mx.nd.array(v) for n, v in start.items()}, {})
    path = []
    for _ in range(6):
        step()
        path.append(numbers())

    def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
        return all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(one, other, strict=True))

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        first, second, m1, m2, _ = path[1]
        module.set_params({names[0]: mx.nd.array(first), names[1]: mx.nd.array(second)}, {})
        for state, numbers_of_it in zip(
            (module._updater.states[0], module._updater.states[1]), (m1, m2), strict=True
        ):
            state[:] = mx.nd.array(numbers_of_it)
        module._optimizer.update_counts = {0: {0: 2, 1: 2}}
        module._optimizer.num_update = 2

        def statement() -> None:
            step()
            module.forward(batch, is_train=False)
            module.get_outputs()[0].wait_to_read()

        def check() -> None:
            now = numbers()
            at = next((k for k in (1, 2) if same(now, path[k])), None)
            assert at is not None, f"{now} is neither {path[1]} nor {path[2]}"
            step()
            step()
            assert same(numbers(), path[at + 2])

        return statement, check

    return make


CASES: dict[str, Callable[[], Any]] = {
    "expression": lambda: expression,
    "in place": lambda: in_place,
    "reading": lambda: reading,
    "gradient": lambda: gradient,
    "attaching": lambda: attaching,
    "adam": lambda: step_of("adam", False),
    "sgd, hybridized": lambda: step_of("sgd", True),
    "first call": lambda: first_call,
    "deferred": lambda: deferred,
    "hybridizing": lambda: hybridizing,
    "serving": serving,
    "loop": lambda: loop,
    "parameters": lambda: parameters,
    "pushing": lambda: pushing,
    "updating": updating,
    "sharing": sharing,
    "fitting": fitting,
}


#: Those that only Ctrl-C may break off: a program overwrites the states of all devices.
PRESSED = ("sharing",)
#: Those that are compiled anew each time, which are interpreted only.
ANEW = ("first call", "deferred", "hybridizing")
#: The price is such that a block goes the same way at each call: by NumPy, or as a graph.
TIERS: dict[str, dict[str, Any]] = {
    "interpret": {"engine.cold": "interpret", "engine.compile_price": 1e6},
    "graphs": {"engine.cold": "auto", "engine.compile_price": 0.001},
    "compile": {"engine.cold": "compile"},
}
WAYS = [
    (case, tier)
    for case in CASES
    for tier in ("interpret", "compile")
    if tier == "interpret" or case not in ANEW
]
WAYS += [("sgd, hybridized", "graphs")]


@pytest.fixture(autouse=True)
def python_s_handler() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise RuntimeError("too late")

    before = (
        signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.signal(signal.SIGTERM, late),
    )
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.mark.parametrize(("case", "tier"), WAYS)
def test_an_exception_at_any_line(case: str, tier: str) -> None:
    with mx.config.scope(TIERS[tier]):
        everywhere(CASES[case](), most=40, error=Pressed if case in PRESSED else Interrupted)


@pytest.mark.slow
@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize(("case", "tier"), WAYS)
def test_an_exception_at_each_line(case: str, tier: str, error: type[BaseException]) -> None:
    with mx.config.scope(TIERS[tier]):
        everywhere(CASES[case](), error=Pressed if case in PRESSED else error)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "tier"), WAYS)
def test_an_exception_at_each_instruction(case: str, tier: str) -> None:
    with mx.config.scope(TIERS[tier]):
        everywhere(
            CASES[case](),
            opcodes=True,
            most=8000,
            error=Pressed if case in PRESSED else Interrupted,
        )
