"""Graphs recorded inside graphs."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import core, errors
from mxjax.array.classes import ndarray


def device() -> Any:
    return mx.cpu().jax_device


def symbol(rec: Any, *shape: int) -> Any:
    return ndarray._wrap(rec.placeholder(core.aval(shape, "float32", device())))


def test_values_of_enclosing_graphs_are_captured_inputs() -> None:
    w = mx.np.array([1.0, 2.0])
    with core.recording("outer", device()) as outer:
        a = symbol(outer, 2)
        b = a * 2
        with core.recording("middle", device()) as middle:
            c = symbol(middle, 2)
            d = c + b
            with core.recording("inner", device()) as inner:
                e = symbol(inner, 2)
                y = e * d + b + w
                graph, taken = inner.subgraph([y._value()])
            # Two levels up (b), one level up (d), and concrete (w), in the order of their use.
            assert [v is x._value() for v, x in zip(taken, (d, b, w), strict=True)] == [True] * 3
            call = core.GraphCall(graph)
            z = ndarray._wrap(core.record(call, [c._value(), *taken])[0])
            middle_graph, more = middle.subgraph([z._value()])
            assert [v is x._value() for v, x in zip(more, (b, w), strict=True)] == [True] * 2
        result = core.record(core.GraphCall(middle_graph), [a._value(), *more])
        whole = outer.finish(result)
    assert [s.call.name for s in whole.steps] == ["multiply", "middle"]
    x = np.array([3.0, 4.0], "float32")
    (got,) = whole.run(x, w.jax)
    b0 = 2 * x
    np.testing.assert_allclose(got, x * (x + b0) + b0 + [1, 2])


def test_pending_values_are_captured_and_not_run() -> None:
    mx.waitall()
    mx.engine.reset()
    w = mx.np.array([1.0, 2.0]) * 3
    with core.recording("body", device()) as rec:
        y = symbol(rec, 2) * w
        graph, taken = rec.subgraph([y._value(), w._value()])
    assert taken == [w._value()] and w._value().seg is not None
    assert mx.engine.stats()["segments"] == 0
    made = [
        ndarray._wrap(v)
        for v in core.record(core.GraphCall(graph), [mx.np.ones(2)._value(), *taken])
    ]
    assert [m.asnumpy().tolist() for m in made] == [[3.0, 6.0], [3.0, 6.0]]
    assert mx.engine.stats()["segments"] == 1  # all of it as one program


def test_equal_bodies_are_one_graph() -> None:
    """So that a call with it is one call, and compiled once."""

    def body(function: Any) -> tuple[Any, Any]:
        like = core.aval((2,), "float32", device())
        with core.recording("body", device(), [like]) as rec:
            made = function(ndarray._wrap(rec.placeholder(like))) * 2 + mx.np.array([1.0, 2.0])
            return rec.subgraph([made._value()])

    one, taken = body(mx.np.sin)
    two, others = body(mx.np.sin)
    assert one is two and one is not body(mx.np.cos)[0]
    assert taken[0] is not others[0]
    assert one.captured == () == one.scalars  # whoever keeps the graph keeps no arrays


def test_an_array_of_another_device() -> None:
    other = next(
        (d for d in mx.np.ones(1).jax.devices().pop().client.local_devices() if d is not device()),
        None,
    )
    if other is None:
        pytest.skip("one device")
    here = mx.np.ones(2)
    there = ndarray(core.concrete(jax.device_put(here.jax, other), shared=True))
    with core.recording("body", device()) as rec:
        symbol(rec, 2)
        with pytest.raises(errors.DeviceError, match="Move it to one device"):
            rec.finish([there._value()])


def test_calls_outside_of_the_recording_run() -> None:
    with core.recording("body", device()) as rec:
        x = symbol(rec, 2)
        with core.outside():
            w = mx.np.ones(2) * 5
            assert w.asnumpy().tolist() == [5.0, 5.0]
        graph = rec.finish([(x * w)._value()])
    assert len(graph.steps) == 1 and len(graph.captured) == 1


@pytest.mark.parametrize("device", [mx.cpu(1), mx.cpu_pinned(1)])
def test_what_a_graph_makes_of_nothing_is_made_where_its_inputs_are(device):
    """A cell's states, in a thread that has computed nothing yet, and in one that has elsewhere."""
    x = mx.np.ones((2, 3, 2), device=device)

    class Unrolled(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = mx.gluon.rnn.RNNCell(3, input_size=2)

        def forward(self, x):
            return self.cell.unroll(3, x, merge_outputs=True)[0]

    net, found = Unrolled(), []
    net.initialize(mx.init.One(), device=mx.cpu(1))
    net.hybridize()
    net(x).wait_to_read()

    def work(before):
        if before:
            mx.np.ones(2).wait_to_read()
        found.append(net(x))

    for before in (False, True):
        thread = threading.Thread(target=work, args=(before,))
        thread.start()
        thread.join()
    assert [a.device for a in found] == [mx.cpu(1)] * 2
    np.testing.assert_allclose(found[0][:, 0].asnumpy(), np.tanh(2), rtol=1e-5)
