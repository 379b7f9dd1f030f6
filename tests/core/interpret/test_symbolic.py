"""Calls traced once for all sizes: the shapes are JAX's, the numbers those of the compiled programs."""

from __future__ import annotations

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import mxjax as mx
from mxjax import core
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.invoke import call as invoke
from mxjax.core.calls import call as calls
from mxjax.core.hooks import operator_wrappers
from mxjax.core.interpret import dims, numpy_control, symbolic
from mxjax.core.interpret.numpy_rules import NotHere
from mxjax.ops import TABLE
from mxjax.ops import stored as stored_rows
from mxjax.ops.keys import Slice
from mxjax.ops.lowering.search import search
from mxjax.ops.samples import Body


def made(fn, name="made_here"):
    """A call of a row that nobody else has."""
    return core.Row(name, fn).bind()


def bound(call, *arrays):
    device = core.default_device()
    return symbolic.trace(call, tuple(core.aval(a.shape, a.dtype, device) for a in arrays), device)


def traces(call):
    """The traces that a call has, without what failed."""
    return [t for t in call.traces.values() if isinstance(t, symbolic.Trace)]


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


# ---- dimensions ----------------------------------------------------------------------------


def test_a_layout_computes_what_follows_from_sizes():
    a, b = dims.symbols([(2, 1000), (2, 1000)])
    layout = dims.Layout(2)
    nest = (
        a,
        7,
        (a * b - 3, a // 2),
        a % 3,
        jax.core.max_dim(a, b),
        jax.core.min_dim(a, b),
        -a,
        a * a * b,
        None,
    )
    get = layout.getter(nest)
    for m, n in ((5, 9), (10, 4), (2, 2)):
        want = (m, 7, (m * n - 3, m // 2), m % 3, max(m, n), min(m, n), -m, m * m * n, None)
        assert get(layout.values((m, n))) == want
    assert layout.getter((3, 4))(()) == (3, 4)
    assert layout.getter(a)(layout.values((5, 6))) == 5
    assert layout.getter((b,))(layout.values((5, 6))) == (6,)


def test_sums_of_products_of_dimensions():
    a, b = dims.symbols([(2, 1000), (2, 1000)])
    layout = dims.Layout(2)
    total = layout.total([(2, (a, b)), (1, (a, b)), (5, (3, a)), (7, ())])
    assert total(layout.values((4, 6))) == 3 * 24 + 5 * 12 + 7


def test_undecided_comparisons_are_noted():
    a, b = dims.symbols([(2, 1000), (2, 1000)])
    with dims.noting([a], (4,)) as noted:
        assert a != b and a != 3 and a != 1 and bool(a - 2)
    unequal = dims.Layout(2)
    holds = unequal.true(dims.granted(noted, ()))
    assert holds is not None
    for sizes in ((3, 7), (5, 5), (2, 9)):
        assert not holds(unequal.values(sizes)), sizes
    assert holds(unequal.values((4, 9)))
    known = dims.Noted()
    known.unequal.update({0: (a, 1), 1: (a, b + 5000)})
    assert dims.Layout(2).true(dims.granted(known, [(a * b, b * a)])) is None  # the bounds say so
    count = len(noted.unequal)
    assert a != 4 and len(noted.unequal) == count  # outside nothing is noted


def test_sizes_at_hand_decide_orders():
    a, b = dims.symbols([(2, 1000), (2, 1000)])
    with dims.noting([a, b], (6, 9)) as noted:
        assert a < b and b - 3 >= a and not a > 6 and a * 2 > b and a >= 2 and max(a - 9, 0) == 0
    assert noted.orders and not any(
        found and m is a and n == 2 for m, n, found in noted.orders.values()
    )
    layout = dims.Layout(2)
    holds = layout.true(dims.granted(noted, ()))
    assert holds is not None
    for m, n in ((6, 9), (5, 9), (6, 10)):
        assert holds(layout.values((m, n))) == (
            m < n and n - 3 >= m and m <= 6 and m * 2 > n and m < 9
        ), (m, n)
    for sizes in ((9, 6), (7, 10), (5, 7), (4, 9)):
        assert not holds(layout.values(sizes)), sizes
    with pytest.raises(jax.errors.InconclusiveDimensionOperation):
        bool(a > 6)  # outside nobody decides


def test_what_caches_of_jax_compare_is_not_noted():
    """They look at a part of what they hold, by addresses: 200 look-ups among 4,000 shapes meet some for sure."""
    (a,) = dims.symbols([(2, 100_000)])
    held = [jax.core.ShapedArray((n, 3), np.dtype("float32")) for n in range(2, 4002)]
    with dims.noting([a], (1009,)) as noted:
        for n in range(200):
            held.append(jax.core.ShapedArray((a, 3, n), np.dtype("float32")))
            held.append(jax.core.ShapedArray((a + n, 3), np.dtype("float32")))
        assert not noted.unequal
        assert held[-2].shape != (7, 3, 199)
    assert list(noted.unequal.values()) == [(a, 7)]


def test_are_same_notes_nothing():
    a, b = dims.symbols([(2, 1000), (2, 1000)])
    with dims.noting([a, b], (6, 6)) as noted:
        assert dims.are_same((a, 3, a * b), (a, 3, b * a))
        assert (
            not dims.are_same((a, 3), (b, 3))
            and not dims.are_same((a,), (6,))
            and not dims.are_same((a,), (a, 1))
        )
    assert not noted.unequal and not noted.orders


# ---- traces ----------------------------------------------------------------------------


def test_one_trace_serves_all_sizes():
    call = made(lambda x: jax.nn.softmax(x) @ x.T)
    # Sizes that no other test has: JAX's caches compare them now and then, and what differs is taken for a condition.
    for m, n in ((103, 107), (1009, 101), (109, 109)):
        x = np.random.randn(m, n).astype("float32")
        b = bound(call, x)
        assert b.shapes() == (((m, m), np.float32),) and not b.many and b.runs
        (got,) = b.run([x])
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(got, e / e.sum(1, keepdims=True) @ x.T, rtol=2e-5, atol=1e-6)
    assert len(traces(call)) == 1


def test_lengths_of_0_and_1_are_constants():
    call = made(
        lambda x: (
            x.sum(0) if x.shape[0] == 1 else x.max(0) if x.shape[0] else jnp.zeros(x.shape[1:])
        )
    )
    # Sizes that no other test has, as above.
    assert bound(call, ones(1, 127)).run([2 * ones(1, 127)])[0].tolist() == [2] * 127
    assert bound(call, ones(0, 127)).run([ones(0, 127)])[0].tolist() == [0] * 127
    assert bound(call, ones(113, 127)).run([3 * ones(113, 127)])[0].tolist() == [3] * 127
    assert len(traces(call)) == 3


def test_what_is_taken_for_granted_is_asked_of_each_size():
    """Where a function compares sizes, JAX says that unequal symbols differ."""
    call = made(lambda x, y: x * 2 if x.shape[0] == 3 or x.shape == y.shape else x)
    for m, n in ((5, 7), (3, 7), (6, 6), (8, 9), (3, 3)):
        x, y = ones(m), ones(n)
        assert bound(call, x, y).run([x, y])[0][0] == (2 if m == 3 or m == n else 1), (m, n)


def test_an_expression_that_may_be_zero_is_no_truth():
    call = made(lambda x: x if x.shape[0] - 4 else -x)
    assert [bound(call, ones(n)).run([ones(n)])[0][0] for n in (6, 4, 9)] == [1, -1, 1]


def test_equal_sizes_share_a_symbol_where_they_must():
    call = made(lambda x, y: x + y)
    for n in (4, 9, 13):
        assert bound(call, ones(n, 3), ones(n, 3)).shapes() == (((n, 3), np.float32),)
    assert len(traces(call)) == 1
    with pytest.raises((TypeError, ValueError), match="shape"):
        bound(call, ones(4, 3), ones(5, 3))


def test_a_trace_serves_sizes_of_which_more_are_equal():
    call = made(lambda x, y: x + y)
    for shape in ((4, 6, 9), (7, 7, 3), (5, 5, 5), (2, 8, 8)):
        found = bound(call, ones(*shape), ones(*shape)).run([ones(*shape)] * 2)[0]
        np.testing.assert_array_equal(found, 2 * ones(*shape))
    assert len(traces(call)) == 1
    with pytest.raises((TypeError, ValueError), match="shape"):
        bound(call, ones(5, 5, 5), ones(5, 5, 6))


def test_a_trace_that_took_sizes_for_unequal_does_not_serve_equal_ones():
    call = made(lambda x, y: (x + y) * (2 if x.shape[0] == x.shape[1] else 3))
    for m, n in ((4, 6), (5, 5), (7, 3), (8, 8)):
        (found,) = bound(call, ones(m, n), ones(m, n)).run([ones(m, n)] * 2)
        np.testing.assert_array_equal(found, (4 if m == n else 6) * ones(m, n))
    assert len(traces(call)) == 2


def test_sizes_that_attributes_name_are_constants():
    def fn(x, *, parts):
        if x.shape[1] != parts:
            raise ValueError("parts")
        return x.reshape(-1, parts, 1)

    call = core.Row("parted_here", fn).bind((("parts", 6),))
    for n in range(8, 16):  # between two powers of two
        assert bound(call, ones(n, 6)).shapes() == (((n, 6, 1), np.float32),)
    assert len(traces(call)) <= 2  # of eight sizes; the first may be traced as it is


def test_what_has_not_changed_yet_is_a_constant():
    """Weights stay: a size that their number of elements follows from does not."""

    def fn(x, w):
        n = int(w.shape[0])  # refused of a symbol
        return x @ w.reshape(n // 7, 7)

    call = made(fn)
    for m in (8, 9, 20, 100):
        assert bound(call, ones(m, 11), ones(77)).shapes() == (((m, 7), np.float32),)
    assert len(traces(call)) == 2


def test_shapes_that_cannot_be_symbolic_are_traced_as_they_are():
    call = made(lambda x: x[: int(np.sqrt(float(x.shape[0])))])
    for n in (9, 16, 25):
        x = np.arange(n, dtype="float32")
        assert bound(call, x).run([x])[0].tolist() == list(range(int(np.sqrt(n))))


def test_forms_that_never_serve_a_row_are_not_tried_again():
    def by_its_size(x, *, k):
        return x * k if float(x.shape[0]) > 3 else x  # a symbol is no number

    row = core.Row("made_here", by_its_size)
    for k, shape in enumerate([(5, 7), (11, 13), (17, 19), (23, 29)], 100):
        found = bound(row.bind((("k", k),)), ones(*shape)).run([ones(*shape)])
        np.testing.assert_array_equal(found[0], k * ones(*shape))
    assert row.tries[False, "own"] == [2, 0]


def test_what_sizes_decide_is_a_condition_of_the_trace():
    call = made(lambda x: x * 2 if x.shape[0] * x.shape[1] > 20 else -x)
    for m, n in ((7, 9), (11, 13), (3, 7), (2, 9), (17, 2), (2, 10), (5, 5)):
        want = 2 if m * n > 20 else -1
        assert bound(call, ones(m, n)).run([ones(m, n)])[0][0, 0] == want, (m, n)
        if (m, n) == (3, 7):
            assert len(traces(call)) == 1


@pytest.mark.parametrize(
    "key",
    [
        np.s_[::-1],
        np.s_[::-2],
        np.s_[:-2],
        np.s_[2:],
        np.s_[1::2],
        np.s_[1:, :-1],
        np.s_[:, ::-1],
        np.s_[-3:],
    ],
    ids=str,
)
def test_slices_and_their_derivatives_have_one_trace(key, monkeypatch):
    rows = TABLE["_basic_index"]
    monkeypatch.setattr(rows, "tries", {})  # what failed in other tests is not tried again
    written = tuple(
        [
            (k.start, k.stop, k.step) if isinstance(k, slice) else k
            for k in (key if isinstance(key, tuple) else (key,))
        ]
    )
    call = rows.bind((("key", tuple([Slice(*k) for k in written])),))
    backward = call.vjp((True,), (True,), False)
    backward.forward.row.tries.clear()  # what other tests' calls told of the forms worth trying
    before = len(traces(call)), len(traces(backward))
    for m, n in ((25, 8), (14, 9), (33, 40), (13, 22)):
        x = np.random.RandomState(m).randn(m, n).astype("float32")
        np.testing.assert_array_equal(bound(call, x).run([x])[0], x[key])
        g, want = np.random.RandomState(n).randn(*x[key].shape).astype("float32"), np.zeros_like(x)
        want[key] = g
        np.testing.assert_array_equal(bound(backward, x, g).run([x, g])[0], want)
    assert len(traces(call)) <= before[0] + 1 and len(traces(backward)) <= before[1] + 1


def by_windows(x, kind, kernel, pad):
    """What windows two apart give of an image, and the gradient of their sum."""
    value = -np.inf if kind == "max" else 0
    padded = np.pad(x, pad, constant_values=value)
    out = np.zeros([(n - kernel) // 2 + 1 for n in padded.shape])
    gradient = np.zeros(padded.shape)
    for i, j in np.ndindex(*out.shape):
        at = slice(2 * i, 2 * i + kernel), slice(2 * j, 2 * j + kernel)
        window, back = padded[at], gradient[at]
        if kind == "max":
            out[i, j] = window.max()
            back[np.unravel_index(window.argmax(), window.shape)] += 1
        else:
            out[i, j] = window.mean()
            back += 1 / kernel**2
    return out, gradient[pad : pad + x.shape[0], pad : pad + x.shape[1]]


@pytest.mark.parametrize(
    ("kind", "kernel", "pad"), [("max", 2, 0), ("max", 2, 1), ("max", 3, 1), ("avg", 2, 0)]
)
def test_pooling_and_its_derivative_have_one_trace_for_even_and_odd_images(kind, kernel, pad):
    attrs = (
        ("kernel", (kernel,) * 2),
        ("pad", (pad,) * 2),
        ("pool_type", kind),
        ("stride", (2, 2)),
    )
    call = TABLE["pooling"].bind(attrs)
    backward = call.vjp((True,), (True,), False)
    backward.forward.row.tries.clear()  # what other tests' calls told of the forms worth trying
    before = len(traces(call)), len(traces(backward))
    rounding = 0 if kind == "max" else 1e-6
    for m, n in ((16, 12), (15, 8), (7, 33), (26, 9), (31, 30)):
        x = np.random.RandomState(m).randn(1, 1, m, n).astype("float32")
        out, gradient = by_windows(x[0, 0], kind, kernel, pad)
        got = bound(call, x).run([x])[0]
        np.testing.assert_allclose(got[0, 0], out, rtol=rounding, atol=rounding)
        (found,) = bound(backward, x, got).run([x, np.ones_like(got)])
        np.testing.assert_allclose(found[0, 0], gradient, rtol=1e-6)
    assert len(traces(call)) <= before[0] + 1 and len(traces(backward)) <= before[1] + 1


def test_a_global_mean_has_one_trace():
    call = TABLE["pooling"].bind((("global_pool", True), ("kernel", (1, 1)), ("pool_type", "avg")))
    before = len(traces(call))
    for shape in ((3, 5, 4, 6), (2, 7, 9, 8), (4, 3, 11, 10)):
        x = np.random.RandomState(0).randn(*shape).astype("float32")
        got = bound(call, x).run([x])[0]
        np.testing.assert_allclose(got[..., 0, 0], x.mean((2, 3)), rtol=1e-5, atol=1e-6)
    assert len(traces(call)) <= before + 1


def test_boxes_of_which_only_the_best_count_have_one_trace():
    call = TABLE["box_nms"].bind((("topk", 3),))
    before = len(traces(call))
    for count, samples in ((7, 2), (9, 4), (8, 5)):
        x = np.zeros((samples, count, 6), "float32")
        x[:, :, 1] = np.arange(1, count + 1) / count
        x[:, :, 2] = x[:, :, 3] = 2 * np.arange(count)  # apart from each other
        x[:, :, 4:] = x[:, :, 2:4] + 1
        got = bound(call, x).run([x])[0]
        np.testing.assert_array_equal(got[:, :3], x[:, :-4:-1])
        assert (got[:, 3:] == -1).all()
    assert len(traces(call)) <= before + 1


def test_a_primitive_of_ours_is_traced_once_for_its_shape_and_its_run(monkeypatch):
    call = TABLE["convolution"].bind(
        (("kernel", (3, 3)), ("no_bias", True), ("num_filter", 5), ("pad", (1, 1)))
    )
    x, w = ones(2, 3, 9, 9), ones(5, 3, 3, 3)
    monkeypatch.setattr(dims, "available", lambda: False)  # as it is, without symbols
    once = numpy_control._traced_once
    once.cache_clear()
    assert bound(call, x, w).run([x, w])[0][0, 0, 4].tolist() == [18.0, *[27.0] * 7, 18.0]
    assert once.cache_info().misses == 1 and once.cache_info().hits


def test_errors_are_those_of_the_function():
    def fn(x):
        raise ValueError(f"never {x.shape[0]}")

    with pytest.raises(ValueError, match="never 5"):
        bound(made(fn), ones(5))


def test_scalars_come_after_the_operands():
    call = made(lambda x, a, b: (x * a, b + 1))
    device = core.default_device()
    b = symbolic.trace(call, (core.aval((5,), np.dtype("float32"), device), "d", "q"), device)
    product, number = b.run([ones(5)], [np.float64(2.5), np.int64(3)])
    assert b.many and product.dtype == np.float64 and number.dtype == np.int64
    assert product.tolist() == [2.5] * 5 and number == 4


def test_operators_with_wrappers_are_left_to_programs():
    operator_wrappers.append(lambda call, fn: fn)
    try:
        with pytest.raises(NotHere):
            bound(made(lambda x: x), ones(3))
    finally:
        operator_wrappers.pop()


def test_what_numpy_does_not_know_still_has_shapes():
    b = bound(made(lambda x: jnp.linalg.svd(x, compute_uv=False)), ones(5, 4))
    assert b.shapes() == (((4,), np.float32),)
    assert not b.runs and "svd" in b.why
    with pytest.raises(NotHere, match="svd"):
        b.run([ones(5, 4)])


def test_results_have_memory_of_their_own():
    """Also what is only sliced, turned or passed on; so that nobody's array changes with another's."""
    call = made(
        lambda x: (x, x[1:], x.T, x.reshape(-1), jnp.broadcast_to(x[:1], (4, 3)), jnp.arange(3.0))
    )
    x = np.random.randn(4, 3).astype("float32")
    first, second = bound(call, x).run([x]), bound(call, x).run([x])
    for a, b in zip(first, second, strict=True):
        assert a.flags.c_contiguous and a.flags.writeable
        assert not np.shares_memory(a, x) and not np.shares_memory(a, b)


def test_work_grows_with_sizes():
    call = made(lambda x: x @ x.T)
    small, large = bound(call, ones(4, 8)), bound(call, ones(40, 80))
    assert large.library() >= 500 * small.library() > 0
    assert small.steps() == large.steps() == 2


def test_a_derivative_is_a_call_as_well():
    call = made(lambda x, w: jnp.tanh(x @ w).sum())
    back = call.vjp((True, True), (True,), False)
    for m in (1009, 1013):  # see test_one_trace_serves_all_sizes
        x, w = np.random.randn(m, 5).astype("float32"), np.random.randn(5, 2).astype("float32")
        g, h = bound(back, x, w, np.float32(1)).run([x, w, np.float32(1)])
        d = 1 - np.tanh(x @ w) ** 2
        np.testing.assert_allclose(g, d @ w.T, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(h, x.T @ d, rtol=1e-4, atol=1e-6)
    assert len(traces(back)) == 1


def test_tracing_keeps_no_frame_of_its_caller():
    """JAX leaves errors in cycles with their frames; a value that the caller held would live on in them."""

    class Held:
        pass

    def caller():
        held = Held()
        bound(made(lambda x: jnp.cumsum(x, 0) + 1), ones(6, 5))
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


# ---- inference ----------------------------------------------------------------------------


def test_inference_asks_the_trace_from_the_second_shape_on(monkeypatch):
    call, device = made(lambda x: (x.sum(0), x[1:])), core.default_device()
    asked = []
    plain = calls.shapes_of
    monkeypatch.setattr(calls, "shapes_of", lambda *a, **k: asked.append(a) or plain(*a, **k))
    found = [
        call.infer((core.aval((n, 3), np.dtype("float32"), device),), device) for n in (4, 5, 6, 7)
    ]
    assert [[o.shape for o in outs] for outs, _ in found] == [
        [(3,), (n - 1, 3)] for n in (4, 5, 6, 7)
    ]
    assert all(many for _, many in found) and found[1][0][0] is found[2][0][0]
    assert len(asked) == 1 and len(traces(call)) == 1


@pytest.mark.parametrize("draw", ["uniform", "normal"])
def test_draws_of_other_numbers_need_no_trace(draw, monkeypatch):
    """A network's weights have a scale for each layer: what the row has looked at is an operand the first time, too."""
    seen = []
    for name, of in (("_traced", symbolic), ("shapes_of", calls)):
        fn = getattr(of, name)
        monkeypatch.setattr(of, name, lambda *a, fn=fn, **k: [seen.append(a), fn(*a, **k)][1])
    with mx.config.scope(engine_cold="interpret"):
        for k in range(2, 12):
            found = getattr(mx.np.random, draw)(-k - 0.5, k + 0.25, (k, 3, k + 1)).asnumpy()
            assert found.shape == (k, 3, k + 1) and np.isfinite(found).all()
            if k > 5:
                assert seen == []
            seen.clear()
        with pytest.raises(mx.MXNetError, match="scale < 0"):
            mx.np.random.normal(0.5, -0.75, (3, 3)).asnumpy()


def test_inference_of_wrong_shapes_raises_as_before():
    call, device = made(lambda x, y: x @ y), core.default_device()

    def infer(*shapes):
        return call.infer(tuple(core.aval(s, np.dtype("float32"), device) for s in shapes), device)

    infer((2, 3), (3, 4))
    infer((5, 3), (3, 4))
    with pytest.raises(TypeError, match="contracting"):
        infer((5, 3), (4, 4))


# ---- the operators' table ----------------------------------------------------------------------------

GROUP = 40
ROWS = sorted(TABLE)
GROUPS = [ROWS[k : k + GROUP] for k in range(0, len(ROWS), GROUP)]
FEW = ROWS[::4]


def recorded(names):
    """The calls of these rows' first samples, with operands and results: one segment, one program."""
    found = []

    def listen(call, inputs, results):
        found.append((call, list(inputs), list(results)))

    core.note_calls(listen)
    try:
        kept = []
        for name in names:
            op = TABLE[name]
            if not op.tests.samples:
                continue
            case = op.tests.samples[0]
            fronts = set(op.names.fronts)
            legacy = op.legacy or (fronts and all(f.startswith("nd") for f in fronts))
            make = mx.nd.array if legacy else mx.np.array
            rng = np.random.RandomState(7)
            args = [a.draw(rng) if hasattr(a, "draw") else a for a in case.args]
            args = [make(a, dtype=a.dtype) if isinstance(a, np.ndarray) else a for a in args]
            attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in case.attrs.items()}
            kept.append((args, invoke(op, NDArray if legacy else ndarray, tuple(args), attrs)))
    finally:
        core.end_note(listen)
    mx.waitall()
    return found, kept


def operands(inputs):
    """Avals and NumPy arrays of a call's operands; None where one is a graph's."""
    avals, arrays = [], []
    for v in inputs:
        if isinstance(v, core.Dynamic):
            avals.append(v.kind)
            arrays.append(core.SCALARS[v.kind].dtype.type(v.value))
        else:
            if getattr(v, "arr", None) is None:
                return None
            avals.append(v.aval)
            arrays.append(np.asarray(core.read(v)))
    return tuple(avals), arrays


def grown(avals):
    """Operands with other sizes: equal ones stay equal."""
    return tuple(
        a
        if isinstance(a, str) or a.shape == (2,)
        else core.aval(tuple(n if n < 2 else 2 * n for n in a.shape), a.dtype, a.device)
        for a in avals
    )


def numbers(rng, aval):
    if isinstance(aval, str):
        return core.SCALARS[aval].dtype.type(1)
    if aval.dtype.kind in "iu":
        return rng.randint(0, 2, aval.shape).astype(aval.dtype)
    return np.asarray(
        rng.uniform(0.1, 0.9, aval.shape)
        if aval.dtype.kind != "b"
        else rng.rand(*aval.shape) > 0.5,
        aval.dtype,
    )


def close(got, want, what):
    assert got.shape == want.shape and got.dtype == want.dtype, (
        what,
        got.shape,
        want.shape,
        got.dtype,
        want.dtype,
    )
    if want.dtype == jax.dtypes.float0:
        return
    if got.dtype.kind == "u" and got.ndim >= 3:  # an image, whose numbers were truncated
        assert np.abs(got.astype("int64") - want).max(initial=0) <= 1, what
        return
    np.testing.assert_allclose(
        got.astype("float64"), want.astype("float64"), rtol=2e-5, atol=2e-6, err_msg=what
    )


@pytest.mark.parametrize(
    "names",
    [
        *(FEW[k : k + GROUP] for k in range(0, len(FEW), GROUP)),
        *(pytest.param(g, marks=pytest.mark.slow) for g in GROUPS),
    ],
    ids=lambda names: names[0],
)
def test_rows_agree_with_programs(names):
    """The rows' samples by NumPy, and their shapes at other sizes, from the same traces where that can be."""
    found, kept = recorded(names)
    device = core.default_device()
    ran = 0
    for call, inputs, results in found:
        given = operands(inputs)
        if given is None or call.graph is not None or call.effect:
            continue
        avals, arrays = given
        b = symbolic.trace(call, avals, device)
        assert [s for s, _ in b.shapes()] == [r.aval.shape for r in results], call
        try:
            got = b.run(arrays)
        except NotHere:
            got = None
        if got is not None:
            ran += 1
            for g, r in zip(got, results, strict=True):
                close(g, np.asarray(core.read(r)), str(call))
        other = grown(avals)
        structs = [core.SCALARS[a] if isinstance(a, str) else a.struct for a in other]
        try:
            with jax.enable_x64(True):
                want = jax.eval_shape(call.fn, *structs)
        except Exception:  # these sizes it does not take
            with pytest.raises(Exception):  # noqa: B017
                symbolic.trace(call, other, device)
            continue
        shapes = symbolic.trace(call, other, device).shapes()
        assert shapes == tuple(
            (tuple(w.shape), np.dtype(w.dtype)) for w in jax.tree.leaves(want)
        ), call
    assert ran or not found
    del kept


@pytest.mark.slow
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_rows_agree_with_programs_at_other_sizes(names):
    found, kept = recorded(names)
    device = core.default_device()
    rng = np.random.RandomState(3)
    for call, inputs, _ in found:
        given = operands(inputs)
        if given is None or call.graph is not None or call.effect:
            continue
        other = grown(given[0])
        arrays = [
            numbers(rng, a) if g.dtype.kind != "u" or g.shape != (2,) else g
            for a, g in zip(other, given[1], strict=True)
        ]
        try:
            with jax.enable_x64(True):
                want = jax.tree.leaves(jax.jit(call.fn)(*arrays))
        except Exception:
            continue
        try:
            got = symbolic.trace(call, other, device).run(arrays)
        except NotHere:
            continue
        for g, w in zip(got, want, strict=True):
            close(g, np.asarray(w), str(call))
    del kept


# ---- lengths among the attributes ----------------------------------------------------------------

LENGTHS = {
    "zeros": (lambda k: mx.np.zeros((k, 5)), lambda k: np.zeros((k, 5))),
    "full": (lambda k: mx.np.full((k, k + 1), 2.5), lambda k: np.full((k, k + 1), 2.5)),
    "eye": (lambda k: mx.np.eye(k, k + 2), lambda k: np.eye(k, k + 2)),
    "reshape": (lambda k: mx.np.ones((k, 6)).reshape(2 * k, 3), lambda k: np.ones((2 * k, 3))),
    "reshape, inferred": (lambda k: mx.np.ones((k, 6)).reshape(k * 3, -1), lambda k: np.ones((k * 3, 2))),
    "nd.reshape": (lambda k: mx.nd.ones((k, 6)).reshape((-3, 1)), lambda k: np.ones((k * 6, 1))),
    "broadcast_to": (lambda k: mx.np.broadcast_to(mx.np.ones((1, 5)), (k, 5)), lambda k: np.ones((k, 5))),
    "tile": (lambda k: mx.np.tile(mx.np.ones((3,)), k), lambda k: np.ones(3 * k)),
    "grid": (
        lambda k: mx.nd.GridGenerator(
            mx.nd.array([[1, 0, 0, 0, 1, 0]]), transform_type="affine", target_shape=(k, k + 2)
        ),
        lambda k: np.stack(
            np.meshgrid(np.linspace(-1, 1, k + 2), np.linspace(-1, 1, k)), dtype="float32"
        )[None],
    ),
    "one_hot": (lambda k: mx.npx.one_hot(mx.np.ones((3,)), k), lambda k: np.eye(k)[[1, 1, 1]]),
    "slice": (lambda k: mx.np.arange(64)[:k], lambda k: np.arange(64)[:k]),
    "dense": (lambda k: dense(k, k), lambda k: np.full((2, k), 3.0)),
    "embedding": (
        lambda k: mx.npx.embedding(mx.np.zeros((2,)), mx.np.ones((k, k + 1)), k, k + 1), lambda k: np.ones((2, k + 1))
    ),
    "draw": (lambda k: mx.np.random.uniform(size=(k, 3)) * 0, lambda k: np.zeros((k, 3))),
}  # fmt: skip


def dense(units, said):
    return mx.npx.fully_connected(
        mx.np.ones((2, 3)), mx.np.ones((units, 3)), num_hidden=said, no_bias=True
    )


@pytest.fixture
def traced(monkeypatch):
    """The calls that were traced."""
    seen = []
    trace = symbolic._traced
    monkeypatch.setattr(
        symbolic, "_traced", lambda call, *rest: [seen.append(call), trace(call, *rest)][1]
    )
    with mx.config.scope({"engine.cold": "auto"}):
        yield seen


@pytest.mark.parametrize("name", LENGTHS)
def test_other_lengths_need_no_trace(name, traced):
    fn, want = LENGTHS[name]
    for k in (11, 5, 7, 23, 9, 13, 21, 18, 25):
        if k == 21:
            traced.clear()
        np.testing.assert_allclose(fn(k).asnumpy(), want(k))
    assert not traced


def test_wrong_lengths_are_refused_as_ever():
    for k in (4, 6, 9):
        dense(k, k).wait_to_read()
        mx.np.ones((k, 6)).reshape(2 * k, -1).wait_to_read()
    with pytest.raises(ValueError, match="inferred shape="):
        dense(7, 8)
    with pytest.raises(ValueError, match="Cannot reshape"):
        mx.np.ones((7, 6)).reshape(5, -1)
    with pytest.raises(ValueError, match="Cannot reshape"):
        mx.np.ones((7, 6)).reshape(13, 3)


def test_gradients_of_other_lengths_need_no_trace(traced):
    def run(k):
        x = mx.np.ones((2, 3))
        x.attach_grad()
        with mx.autograd.record():
            y = (
                mx.npx.fully_connected(x, mx.np.ones((k, 3)), num_hidden=k, no_bias=True)
                .reshape(k, 2)
                .sum()
            )
        y.backward()
        return x.grad.asnumpy()

    for k in (11, 5, 7, 23, 9):
        if k == 23:
            traced.clear()
        np.testing.assert_allclose(run(k), np.full((2, 3), k))
    assert not traced


@pytest.mark.parametrize("length", [7, 6])
@pytest.mark.parametrize("kernel", ["all", 3])
def test_parts_of_a_gradient_are_traced_with_what_its_shapes_take_for_granted(length, kernel):
    # a window as long as the image: JAX cannot tell whether the lengths differ
    kernel = length if kernel == "all" else kernel
    host = np.random.RandomState(0).normal(size=(6, 4, length, 1)).astype("float32")
    x = mx.nd.array(host)
    x.attach_grad()
    with mx.config.scope(engine_cold="interpret"), mx.autograd.record():
        y = mx.nd.Pooling(mx.nd.relu(x), kernel=(kernel, 1), stride=(1, 1), pool_type="max")
    with mx.config.scope(engine_cold="interpret"):
        y.backward()
        found = x.grad.asnumpy()
    expected = np.zeros_like(host)
    n, c = np.ogrid[:6, :4]
    for k in range(length - kernel + 1):
        window = np.maximum(host[:, :, k : k + kernel, 0], 0)
        expected[n, c, k + window.argmax(-1), 0] += 1
    np.testing.assert_array_equal(found, expected * (host > 0))


# ---- sparse arrays, of which as much is stored as it happens


def one_trace(call):
    """The call whose traces are those of all lengths, without what other tests left."""
    for of in {call, call.general(())[0]}:
        of.traces.clear()
    call.row.tries.clear()
    return call.general(())[0]


@pytest.mark.parametrize("name", ["csr_dot", "csr_transposed_dot", "csr_to_dense"])
def test_products_with_csr_have_one_trace_for_all_that_is_stored(name):
    kept = None
    for m, n, stored, room, k in ((6, 9, 17, 2, 4), (7, 8, 11, 0, 3), (12, 10, 30, 1, 5)):
        rng = np.random.RandomState(m)
        at = rng.choice(m * n, stored, replace=False)
        full = np.zeros(m * n, "float32")
        full[at] = rng.randn(stored)
        x = scipy.sparse.csr_matrix(full.reshape(m, n))
        data = np.append(x.data, np.zeros(room, "float32"))
        places = np.append(x.indices, np.zeros(room)).astype("int64")
        parts = data, places, x.indptr.astype("int64")
        attrs = {} if name == "csr_dot" else {"columns": n}
        other = rng.randn(m if name == "csr_transposed_dot" else n, k).astype("float32")
        call = stored_rows.bound(name, **attrs)
        kept = kept or one_trace(call)
        operands = parts if name == "csr_to_dense" else (*parts, other)
        want = {
            "csr_dot": lambda x=x, o=other: x @ o,
            "csr_transposed_dot": lambda x=x, o=other: x.T @ o,
            "csr_to_dense": x.toarray,
        }[name]()
        got = bound(call, *operands).run(list(operands))[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(traces(kept)) == 1


def test_rows_of_a_gradient_have_one_trace_for_all_batches():
    kept = None
    for batch, rows, width in ((5, 40, 4), (9, 30, 3), (23, 17, 6)):
        rng = np.random.RandomState(batch)
        ids = rng.randint(-2, rows + 2, batch).astype("float32")
        g = rng.randn(batch, width).astype("float32")
        call = stored_rows.bound("rows_looked_up", rows=rows, capacity=batch, last=True)
        kept = kept or one_trace(call)
        data, indices = bound(call, g, ids).run([g, ids])
        want = np.zeros((rows, width))
        np.add.at(want, np.clip(ids, 0, rows - 1).astype(int), g)
        different = np.unique(np.clip(ids, 0, rows - 1))
        np.testing.assert_array_equal(indices[: len(different)], different)
        assert (indices[len(different) :] == rows).all() and not data[len(different) :].any()
        np.testing.assert_allclose(data[: len(different)], want[different.astype(int)], rtol=1e-5)
    assert len(traces(kept)) == 1


@pytest.mark.parametrize("name", ["searchsorted", "digitize"])
def test_places_among_ascending_numbers_have_one_trace(name):
    call = TABLE[name].bind(())
    one_trace(call)
    for m, n in ((9, 5), (21, 8), (6, 33)):
        rng = np.random.RandomState(m)
        edges, x = np.sort(rng.randn(m)).astype("float32"), rng.randn(n, 3).astype("float32")
        x.flat[:3] = edges[0], edges[-1], np.nan
        operands = (edges, x) if name == "searchsorted" else (x, edges)
        got = bound(call, *operands).run(list(operands))[0]
        np.testing.assert_array_equal(got, getattr(np, name)(*operands))
        if name == "digitize":
            got = bound(call, x, edges[::-1]).run([x, edges[::-1]])[0]
            np.testing.assert_array_equal(got, np.digitize(x, edges[::-1]))
    assert len(traces(call)) == 1


def test_a_search_goes_through_transformations():
    """It has no gradient; what it found may stand beside what has one."""
    rng = np.random.RandomState(0)
    edges = np.sort(rng.randn(3, 7), 1).astype("float32")
    x = rng.randn(3, 4).astype("float32")
    want = np.stack([np.searchsorted(a, v) for a, v in zip(edges, x, strict=True)])
    np.testing.assert_array_equal(jax.vmap(search)(edges, x), want)
    gradient = jax.grad(lambda v: (v * search(jnp.asarray(edges[0]), v)).sum())(x[0])
    np.testing.assert_array_equal(gradient, want[0])
