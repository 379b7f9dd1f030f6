"""Calls that hand their derivatives what both compute: the same numbers, to the bit, and nothing drawn twice."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.interpret import by_call, numpy_pairs, numpy_random, symbolic
from mxjax.core.run import scheduler
from tests.core.interpret.test_kept_traces import derivative, same
from tests.core.interpret.test_symbolic import GROUPS, ROWS, operands, recorded


@pytest.mark.parametrize(
    "names",
    [
        [*ROWS[::12], "softmax", "layer_norm", "batch_norm", "log_softmax", "sigmoid", "dropout"],
        *(pytest.param(g, marks=pytest.mark.slow) for g in GROUPS),
    ],
    ids=lambda names: names[0],
)
def test_halves_of_rows_give_what_the_whole_gives(names):
    pairs = 0
    known = [n for n in names if n in ROWS]
    device = core.default_device()
    for call, inputs, results in recorded(known)[0]:
        given = operands(inputs)
        if given is None or call.graph is not None or call.effect:
            continue
        avals, arrays = given
        try:
            of = derivative(call, avals, arrays, results)
            first = symbolic.trace(call, avals, device)
            second = None if of is None else symbolic.trace(of[0], of[1], device)
            wholes = [first.run(arrays), second.run(of[2])] if second is not None else []
        except Exception:  # it has no derivative, or NumPy has no rule
            continue
        if not wholes or not all(isinstance(b, symbolic.Bound) for b in (first, second)):
            continue
        pair = second.after(first)
        if pair is None:
            continue
        pairs += 1
        with np.errstate(all="ignore"):
            made = pair.forward(*arrays)
            handed = made[len(made) - pair.passed :]
            found = [made[: -pair.passed], pair.backward(*of[2], *handed)]
        for whole, half in zip(wholes, found, strict=True):
            assert len(whole) == len(half), call
            assert all(map(same, whole, map(np.asarray, half))), call
    assert pairs or "softmax" not in names


def step(x, w, p=0.5):
    with mx.autograd.record():
        y = mx.nd.Dropout(mx.nd.softmax(mx.nd.LayerNorm(x, w, w)), p=p)
        loss = (y * y).sum()
    loss.backward()
    return loss.asnumpy(), x.grad.asnumpy(), w.grad.asnumpy()


def test_a_mask_is_drawn_once_for_both_passes(monkeypatch):
    draws, drawn = [], numpy_random.threefry
    monkeypatch.setattr(numpy_random, "threefry", lambda *a: [draws.append(1), drawn(*a)][1])
    monkeypatch.setattr(by_call, "strict", [True])
    found = []
    for apart in (False, True):
        if apart:
            monkeypatch.setattr(by_call.ByCall, "_in_halves", lambda self, scalars: {})
        scheduler.forget()
        mx.random.seed(5)
        x, w = mx.nd.arange(48).reshape((6, 8)), mx.nd.ones((8,))
        x.attach_grad()
        w.attach_grad()
        counts = []
        with mx.config.scope(engine_cold="interpret"):
            for _ in range(6):
                draws.clear()
                found.append(step(x, w))
                counts.append(len(draws))
        assert counts[-3:] == ([2, 2, 2] if apart else [1, 1, 1])
    for ours, theirs in zip(found[:6], found[6:], strict=True):
        assert all(map(same, ours, theirs))


def test_numbers_that_differ_hand_nothing_over():
    """A derivative whose random count is another one than the call's draws for itself."""
    half = by_call.Half(lambda *a: [np.zeros(1)], 1, 0, [(0, 1)])
    part = by_call.ByCall.__new__(by_call.ByCall)
    args = [np.ones(1)]
    for one, two in ((3, 4), (0.0, -0.0), (1, 1.0), (np.float32(1), 1.0)):
        assert part._half(1, half, args, [one, two], {0: [np.ones(1)]}) is None
    assert part._half(1, half, args, [3, 3], {}) is None
    assert part._half(1, half, args, [3, 3], {0: [np.ones(1)]})[0] == 0


def test_functions_are_the_same_only_where_all_that_they_hold_is():
    class Scale:
        def __init__(self, by):
            self.by = by

        def times(self, x):
            return x * self.by

    def scaled(by, more=None):
        return lambda x, b=more: x * by + (b or 0)

    one, two = Scale(1), Scale(2)
    key = numpy_pairs._key
    assert key(one.times) == key(one.times) != key(two.times)
    assert key(scaled(1.0)) == key(scaled(1.0)) != key(scaled(2.0))
    assert key(scaled(0.0)) != key(scaled(-0.0)) and key(scaled(1)) != key(scaled(1.0))
    assert key(scaled(1.0, 2)) != key(scaled(1.0, 3))
    assert key(scaled({})) != key(scaled({}))  # a dict may be another one tomorrow
