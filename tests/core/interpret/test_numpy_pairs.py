"""Calls that hand their derivatives what both compute: the same numbers, to the bit, and nothing drawn twice."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.interpret import (
    by_call,
    numpy_code,
    numpy_control,
    numpy_pairs,
    numpy_random,
    symbolic,
)
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


def together_and_apart(monkeypatch):
    """Twice an engine without a history: calls hand over what they can, and then nothing."""
    for apart in (False, True):
        if apart:
            monkeypatch.setattr(by_call.ByCall, "_in_halves", lambda self, scalars: {})
        scheduler.forget()
        mx.random.seed(5)
        yield apart


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
    for apart in together_and_apart(monkeypatch):
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


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layers_loop_runs_once_for_both_passes(mode, both_ways, monkeypatch):
    turns, make = [], numpy_control.CONTROL["scan"]

    def counted(eqn, inner):
        op = make(eqn, inner)

        def scan(*operands):
            turns.append(1)
            return op.fn(*operands)

        scan.loop = op.fn.loop
        return op._replace(fn=scan)

    monkeypatch.setitem(numpy_control.CONTROL, "scan", counted)
    monkeypatch.setattr(by_call, "strict", [True])
    # No trace of another test's serves these sizes.
    units, layers = 7 + both_ways + 3 * ["LSTM", "GRU", "RNN"].index(mode), 2
    found = []
    for apart in together_and_apart(monkeypatch):
        net = getattr(mx.gluon.rnn, mode)(
            units, num_layers=layers, bidirectional=both_ways, input_size=5
        )
        net.initialize(mx.init.Uniform(0.3))
        x = mx.nd.arange(60).reshape((4, 3, 5)) / 60
        x.attach_grad()
        with mx.config.scope(engine_cold="interpret"):
            for _ in range(4):
                turns.clear()
                with mx.autograd.record():
                    loss = (net(x) ** 2).sum()
                loss.backward()
                results = [loss.asnumpy(), x.grad.asnumpy()]
                weights = net.collect_params().values()
                found.append(results + [w.grad().asnumpy() for w in weights])
        assert len(turns) == layers * (1 + both_ways) * (3 if apart else 2)
    for ours, theirs in zip(found[:4], found[4:], strict=True):
        assert all(map(same, ours, theirs))


def pair_of(forward, backward, *shapes):
    """The halves of two functions, the second of which takes one array more."""
    structs = [jax.ShapeDtypeStruct(s, np.float32) for s in shapes]
    codes = [
        numpy_code.Code(jax.make_jaxpr(fn)(*given))
        for fn, given in ((forward, structs), (backward, [*structs, structs[0]]))
    ]
    values = [code.layout.values(()) for code in codes]
    return codes, values, numpy_pairs.halves(codes[0], values[0], codes[1], values[1])


def loop(x, w, more=False, reverse=False, start=0.0, factor=1.0):
    def step(carry, row):
        made = jnp.tanh(carry @ w + row) * factor
        return made, ((made, made * carry) if more else made)

    return jax.lax.scan(step, jnp.full(x.shape[1:], start, x.dtype), x, reverse=reverse)


@pytest.mark.parametrize(
    "other",
    [{"reverse": True}, {"start": 1.0}, {"factor": 0.5}],
    ids=lambda other: next(iter(other)),
)
def test_loops_have_in_common_only_what_is_the_same(other):
    r = np.random.RandomState(3)
    x, w, g = (r.rand(*s).astype("float32") for s in ((5, 2, 4), (4, 4), (5, 2, 4)))

    def gradient(x, w, g, **how):
        _, (outs, more) = loop(x, w, more=True, **how)
        return (g * more + outs).sum()

    codes, values, pair = pair_of(lambda x, w: loop(x, w)[1], gradient, x.shape, w.shape)
    made = pair.forward(x, w)
    assert same(made[0], codes[0].fn(values[0], x, w)[0]) and pair.passed == 2
    (found,) = pair.backward(x, w, g, *made[-2:])
    assert same(np.asarray(found), np.asarray(codes[1].fn(values[1], x, w, g)[0]))
    # In another direction, from another start, or with another step nothing of it is.
    codes, values, pair = pair_of(
        lambda x, w: loop(x, w)[1], lambda *a: gradient(*a, **other), x.shape, w.shape
    )
    want = codes[1].fn(values[1], x, w, g)[0]
    np.testing.assert_allclose(want, gradient(x, w, g, **other), rtol=1e-4)
    assert pair is None or same(
        np.asarray(pair.backward(x, w, g, *pair.forward(x, w)[1:])[0]), np.asarray(want)
    )


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
