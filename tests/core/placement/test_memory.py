"""The seam of a memory manager, what backward lets go of and when, and what errors leave behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, core
from mxjax.core import Value, Work
from mxjax.gluon import nn


class Plain:
    """Runs every segment as the engine would, and puts down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.depths: list[int] = []
        self.kept: dict[int, Any] = {}

    def run(self, work: Work) -> None:
        self.depths.append(work.step.depth)
        program = work.program(work.dying())
        assert program is not None
        arrays = [v.arr for v in work.ins]
        work.ins.clear()
        for v, a in zip(work.outs, work.results(program, arrays), strict=True):
            work.fill(v, a)

    def admit(self, value: Value) -> None:
        self.asked.append("admit")

    def restore(self, value: Value) -> Any:
        self.asked.append("restore")
        value.arr = value.arr.how
        return value.arr

    def drop(self, value: Value) -> bool:
        value.arr = core.Evicted(core.read(value), self)
        return True

    def saved(self, node: Any, made: Any) -> None:
        self.asked.append("saved")

    def retire(self, node: Any) -> None:
        self.asked.append("retire")
        node.release()

    def settle(self) -> None:
        self.asked.append("settle")


@pytest.fixture
def manager() -> Iterator[Plain]:
    mx.waitall()
    made = Plain()
    core.hooks.memory_managers.append(made)
    yield made
    mx.waitall()
    core.hooks.memory_managers.remove(made)


def test_nobody_manages_memory_by_default():
    assert core.hooks.memory_managers == []


def test_a_manager_runs_the_segments(manager):
    x = mx.np.array(np.arange(4.0, dtype="float32"))
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * np.arange(4.0))
    assert "admit" in manager.asked
    assert manager.asked.count("retire") == 2 and manager.asked[-1] == "settle"
    assert manager.depths and max(manager.depths) > 2


def test_small_operators_do_not_go_past_it(manager):
    x = mx.np.ones(4)
    for _ in range(4):  # from the second time on they have a way of their own
        (x + 1).wait_to_read()
    assert len(manager.depths) >= 4


def test_an_evicted_value_comes_back_where_it_is_read(manager):
    x = mx.np.array(np.arange(3.0, dtype="float32"))
    assert x._drop()
    np.testing.assert_array_equal(x.asnumpy(), np.arange(3.0))
    assert manager.asked[-1] == "restore"


def test_a_donated_input_is_still_told_apart(manager):
    x = mx.np.ones(4096)
    x.wait_to_read()
    held = x._value()
    seen: list[tuple[int, ...]] = []
    run = manager.run

    def watch(work: Work) -> None:
        seen.append(work.dying())
        run(work)

    manager.run = watch
    x += 1
    x.wait_to_read()
    assert seen.pop() == ()  # held still
    del held
    x += 1
    x.wait_to_read()
    assert seen.pop() == (0,)


def test_a_hybridized_block_tells_what_its_forward_saved(manager):
    net = nn.Dense(3, in_units=2)
    net.initialize()
    net.hybridize()
    with autograd.record():
        net(mx.np.ones((4, 2))).sum().backward()
    assert "saved" in manager.asked


def test_backward_frees_what_lies_behind_it():
    """Call by call the activations go as the backward passes them, not all at its end."""
    x = mx.np.ones((8, 8))
    x.attach_grad()
    alive: list[int] = []
    refs: list[weakref.ref[Value]] = []

    class Watch(autograd.Function):
        def forward(self, a: Any) -> Any:
            return a * 1

        def backward(self, g: Any) -> Any:
            gc.collect()
            alive.append(sum(r() is not None for r in refs))
            return g * 1

    with mx.engine.bulk(1):
        with autograd.record():
            y = Watch()(x)
            for _ in range(10):
                y = mx.np.exp(y * 0.1)
                refs.append(weakref.ref(y._value()))
            loss = y.sum()
        del y
        assert all(r() is not None for r in refs)
        loss.backward()
    assert alive == [0]


def test_a_retained_graph_stays():
    x = mx.np.ones(4)
    x.attach_grad()
    with autograd.record():
        y = mx.np.exp(x)
        z = y * y
    z.backward(retain_graph=True)
    first = x.grad.asnumpy()
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), first)
    with pytest.raises(mx.MXNetError, match="retain_graph"):
        z.backward()


def failed() -> Any:
    """An array whose program failed."""
    x = mx.np.ones(4)
    x.wait_to_read()
    x._value().arr = core.Failure(ValueError("no"))
    return x


def test_a_call_on_a_failed_array_leaves_no_inputs_behind():
    a, b, c = (mx.np.array(np.full(4, k, "float32")) for k in (1.0, 2.0, 3.0))
    mx.waitall()
    y = mx.np.add(a, failed())
    np.testing.assert_array_equal((b + c).asnumpy(), 5.0)
    with pytest.raises(ValueError, match="no"):
        y.asnumpy()


def test_an_error_raised_at_a_read_is_not_raised_by_waitall():
    from mxjax.core.calls.value import pending_errors

    x = failed()
    pending_errors.append(x._value().arr.error)
    with pytest.raises(ValueError):
        (x + 1).asnumpy()
    mx.waitall()  # it was seen


def test_a_hybridized_block_keeps_no_old_parameters():
    net = nn.Dense(4, in_units=4)
    net.initialize()
    net.hybridize()
    x = mx.np.ones((2, 4))
    net(x).wait_to_read()
    old = weakref.ref(net.weight.data()._value())
    net.weight.set_data(mx.np.zeros((4, 4)))
    np.testing.assert_array_equal(net(x).asnumpy(), 0.0)
    gc.collect()
    assert old() is None
