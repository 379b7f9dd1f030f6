"""Loops and branches: as plain Python, as one operator, and in hybridized blocks."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, errors, gluon, npx
from mxjax.gluon import nn
from mxjax.npx import control_flow

MODES = ("python", "operator", "hybridized")


class Function(gluon.HybridBlock):
    """A function of the block's children and arrays, as a block."""

    def __init__(self, fn: Any, *children: Any):
        super().__init__()
        self.fn = fn
        for k, child in enumerate(children):
            self.register_child(child, f"child{k}")
        self.children = children

    def forward(self, *args: Any) -> Any:
        return self.fn(*self.children, *args)


def hybrid(fn: Any, *children: Any) -> Function:
    block = Function(fn, *children)
    block.hybridize()
    return block


@pytest.fixture(params=MODES)
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls a function of arrays in each of the three forms."""
    if request.param == "hybridized":
        return lambda fn, *args: hybrid(fn)(*args)
    monkeypatch.setattr(control_flow, "LONG", 10**9 if request.param == "python" else 0)
    return lambda fn, *args: fn(*args)


def lists(x: Any) -> Any:
    """Arrays in nested lists and tuples as lists of numbers, the lists and tuples kept."""
    if isinstance(x, (list, tuple)):
        return type(x)(lists(part) for part in x)
    return x.asnumpy().tolist()


D = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
SUMS = [[1.0, 2.0], [4.0, 5.0], [7.0, 8.0]]

# What MXNet 2.0.0b1 gives for D and states of ones.
FORMATS = {
    "array": (lambda x, s: (x + s, s + 1), lambda d, s: (d, s), (SUMS, [4.0, 4.0])),
    "list": (lambda x, s: (x + s[0], [s[0] + 1]), lambda d, s: (d, [s]), (SUMS, [[4.0, 4.0]])),
    "tuple": (lambda x, s: (x + s[0], (s[0] + 1,)), lambda d, s: (d, (s,)), (SUMS, [[4.0, 4.0]])),
    "nested": (
        lambda x, s: (x + s[0][0], [[s[0][0] + 1], s[1] * 2]),
        lambda d, s: (d, [[s], s]),
        (SUMS, [[[4.0, 4.0]], [8.0, 8.0]]),
    ),
    "outputs": (lambda x, s: ([x + s, [x]], s + 1), lambda d, s: (d, s), ([SUMS, [D]], [4.0, 4.0])),
    "data": (
        lambda x, s: (x[0] + s, s + x[1] * 0 + 1),
        lambda d, s: ([d, d], s),
        (SUMS, [4.0, 4.0]),
    ),
    "no output": (lambda x, s: ([], s + x), lambda d, s: (d, s), ([], [7.0, 10.0])),
    "state unused": (lambda x, s: (x, x), lambda d, s: (d, s), (D, [4.0, 5.0])),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_foreach(run: Any, name: str) -> None:
    body, given, want = FORMATS[name]
    d, s = mx.np.array(D), mx.np.ones(2)
    got = run(lambda d, s: npx.foreach(body, *given(d, s)), d, s)
    assert lists(tuple(got)) == want


def test_formats_of_foreach_in_nd(run: Any) -> None:
    """MXNet 1.9.1: states come back as the body gives them, outputs as lists; hybridized blocks give lists alone."""
    d, s = mx.nd.array(D), mx.nd.ones(2)
    out, last = run(
        lambda d, s: mx.nd.contrib.foreach(lambda x, s: ((x + s[0], x), (s[0] + 1,)), d, (s,)), d, s
    )
    assert lists(out) == [SUMS, D] and type(out[0]) is mx.nd.NDArray
    assert tuple(lists(last)) == ([4.0, 4.0],)
    out, last = run(lambda d, s: mx.nd.contrib.foreach(lambda x, s: (x + s, s + 1), d, s), d, s)
    assert lists(out) == SUMS and lists(last) == [4.0, 4.0]


def _counting(out: Any, new: Any = lambda i, s: (i + 1, s + i)) -> Any:
    def step(i: Any, s: Any) -> Any:
        return out(i, s), new(i, s)

    return lambda i, s: npx.while_loop(lambda i, s: i <= 3, step, (i, s), max_iterations=5)


@pytest.mark.parametrize(
    ("out", "want"),
    [
        (lambda i, s: i + s, [[1], [3], [6], [0], [0]]),
        (lambda i, s: [i + s], [[[1], [3], [6], [0], [0]]]),
        (lambda i, s: [i, [s]], [[[1], [2], [3], [0], [0]], [[[0], [1], [3], [0], [0]]]]),
        (lambda i, s: None, []),
    ],
)
def test_formats_of_while_loop(run: Any, out: Any, want: Any) -> None:
    i, s = mx.np.array([1], dtype="int64"), mx.np.array([0], dtype="int64")
    got, last = run(_counting(out), i, s)
    assert lists(got) == want and lists(last) == [[4], [6]]
    assert all(x.dtype == "int64" for x in last)


def test_loops_of_one_step_stack_one_row(run: Any) -> None:
    """A list of one array is a list: its rows are no steps."""
    s = mx.np.array([2.0, 3.0])
    out, last = run(
        lambda d, s: npx.foreach(lambda x, s: (x + s, s * 2), d, s), mx.np.array([[1.0, 1.0]]), s
    )
    assert lists(out) == [[3.0, 4.0]] and lists(last) == [4.0, 6.0]
    for bound, more in ((1, []), (3, [[0.0, 0.0], [0.0, 0.0]])):

        def loop(s: Any, n: int = bound) -> Any:
            return npx.while_loop(lambda s: s.sum() < 6, lambda s: (s, s * 2), s, max_iterations=n)

        out, last = run(loop, s)
        assert lists(out) == [[2.0, 3.0], *more] and lists(last) == [4.0, 6.0]


@pytest.mark.parametrize("new", [lambda i: i + 1, lambda i: [i + 1]])
def test_one_loop_variable(run: Any, new: Any) -> None:
    loop = run(
        lambda i: npx.while_loop(lambda i: i <= 3, lambda i: (i, new(i)), i, max_iterations=5),
        mx.np.array([1], dtype="int64"),
    )
    assert lists(tuple(loop)) == ([[1], [2], [3], [0], [0]], [4])


def test_a_while_loop_without_a_step(run: Any) -> None:

    def never(i: Any) -> Any:
        return npx.while_loop(lambda i: i > 30, lambda i: (i * 1.5, [i + 1]), [i], max_iterations=3)

    out, last = run(never, mx.np.array([1.0]))
    assert out.asnumpy().tolist() == [[0.0]] * 3 and lists(last) == [[1.0]]
    none = lambda i: npx.while_loop(lambda i: i > 0, lambda i: (i, [i + 1]), [i], max_iterations=0)  # noqa: E731
    out, last = run(none, mx.np.array([1.0]))
    assert out.shape == (0, 1) and lists(last) == [[1.0]]


def test_a_while_loop_of_nd_without_a_step() -> None:
    never = mx.nd.contrib.while_loop(
        lambda i: i > 30, lambda i: (i, [i + 1]), [mx.nd.ones(1)], max_iterations=3
    )
    assert lists(tuple(never)) == ([], [[1.0]])


@pytest.mark.parametrize(("array", "last"), [(mx.np.array, 0.5), (mx.nd.array, 0.0)])
def test_the_condition_of_np_is_an_integer(run: Any, array: Any, last: float) -> None:
    loop = lambda x: npx.while_loop(lambda x: x, lambda x: (x, [x - 0.5]), [x], max_iterations=8)  # noqa: E731
    assert lists(run(loop, array([2.0]))[1]) == [[last]]


def test_foreach_over_nothing(run: Any) -> None:
    """MXNet ends in an IndexError; the shapes of the outputs are known all the same."""
    out, last = run(
        lambda d, s: npx.foreach(lambda x, s: ([x.sum(), x], s + x), d, s),
        mx.np.zeros((0, 2)),
        mx.np.ones(2),
    )
    assert [o.shape for o in out] == [(0,), (0, 2)] and lists(last) == [1.0, 1.0]


# ---- one step, compiled once -------------------------------------------------------------------------

X100 = np.cos(np.arange(200.0)).reshape(100, 2).astype("float32")


def test_100_rows_are_one_step_compiled_once() -> None:
    w, x, s = mx.np.array([0.5, 0.9]), mx.np.array(X100), mx.np.ones(2)
    want, last = [], np.ones(2, "float32")
    for row in X100:
        last = last * np.array([0.5, 0.9], "float32") + row
        want.append(last)
    for k in range(4):
        mx.waitall()
        mx.engine.reset()
        out, got = npx.foreach(lambda x, s: (s * w + x,) * 2, x, s)
        mx.waitall()
        stats = mx.engine.stats()
        assert stats["operators"] == 1 and (stats["compiled"] == 0 or not k)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5)
    np.testing.assert_allclose(got.asnumpy(), want[-1], rtol=1e-5)
    graph = hybrid(lambda x, s: npx.foreach(lambda x, s: (s * w + x,) * 2, x, s)).graph(x, s)
    assert [step.call.name for step in graph.steps] == ["_foreach"]


def test_training_a_long_loop_is_one_program_a_step() -> None:
    cell = nn.Dense(2, in_units=2, flatten=False)
    cell.initialize()
    trainer = gluon.Trainer(cell.collect_params(), "sgd", {"learning_rate": 0.01})
    x = mx.np.array(X100)
    for step in range(6):
        if step == 3:
            mx.waitall()
            mx.engine.reset()
        with autograd.record():
            out, _ = npx.foreach(lambda x, s: (cell(x) * s, s * 0.9), x, mx.np.ones(2))
            loss = (out**2).sum()
        loss.backward()
        trainer.step(1)
    mx.waitall()
    stats = mx.engine.stats()
    assert stats["compiled"] == 0 and stats["segments"] == 3
    assert stats["operators"] < 3 * 15


def test_numbers_that_change_become_inputs() -> None:
    x = mx.np.array(X100)
    for k in range(12):
        mx.engine.reset()
        out, _ = npx.foreach(lambda x, s, k=k: (x * (0.5 + k), s), x, [])
        np.testing.assert_allclose(out.asnumpy(), X100 * (0.5 + k), rtol=1e-5)
    assert mx.engine.stats()["compiled"] == 0


def test_what_a_loop_captured_ends_with_it() -> None:
    """By reference counts alone: they decide what a program returns and overwrites."""
    x = mx.np.array(X100)
    mx.waitall()
    gc.collect()
    gc.disable()
    try:

        def loop() -> Any:
            w = x[0] * 2
            return npx.foreach(lambda x, s: (x * w, s), x, [])[0], weakref.ref(w._value())

        out, pending = loop()
        assert pending().seg is not None  # the loop did not need it computed
        out.wait_to_read()
        assert pending() is None
    finally:
        gc.enable()
    np.testing.assert_allclose(out.asnumpy(), X100 * X100[0] * 2, rtol=1e-5)


# ---- gradients ---------------------------------------------------------------------------------------


def test_gradients_by_data_states_and_what_is_captured(run: Any) -> None:
    """s <- s w + x, the loss is the sum of all s: dL/ds of each step follows from the next."""
    x0, w0, s0 = np.cos(np.arange(10.0)).astype("float32"), 0.8, 0.5
    states, slopes = [s0], []
    for v in x0:
        states.append(states[-1] * w0 + v)
    grad = 0.0
    for _ in x0:
        grad = grad * w0 + 1
        slopes.insert(0, grad)
    x, w, s = mx.np.array(x0), mx.np.array(w0), mx.np.array(s0)
    for a in (x, w, s):
        a.attach_grad()
    with autograd.record():
        # The first call of a hybridized block records it; w is an input there.
        out, _ = run(lambda x, w, s: npx.foreach(lambda x, s: (s * w + x,) * 2, x, s), x, w, s)
        loss = out.sum()
    loss.backward()
    np.testing.assert_allclose(out.asnumpy(), states[1:], rtol=1e-5)
    np.testing.assert_allclose(x.grad.asnumpy(), slopes, rtol=1e-5)
    np.testing.assert_allclose(s.grad.asnumpy(), slopes[0] * w0, rtol=1e-5)
    np.testing.assert_allclose(w.grad.asnumpy(), np.dot(slopes, states[:-1]), rtol=1e-5)


def test_higher_orders(run: Any) -> None:
    """The last state is s w^10."""
    w, s = mx.np.array(0.9), mx.np.array(2.0)
    w.attach_grad()
    with autograd.record():
        _, last = run(
            lambda w, s, x: npx.foreach(lambda x, s: ([], s * w), x, s), w, s, mx.np.zeros(10)
        )
        first = autograd.grad(last, [w], create_graph=True, retain_graph=True)[0]
        first.backward()
    np.testing.assert_allclose(first.asnumpy(), 20 * 0.9**9, rtol=1e-5)
    np.testing.assert_allclose(w.grad.asnumpy(), 180 * 0.9**8, rtol=1e-5)


def test_gradients_of_while_loop(run: Any) -> None:
    """x, 2x, 4x, ... below 40, of at most 9 rows: 1.5 2^k up to 24; the second order of the squares is constant."""
    x = mx.np.array(1.5)
    x.attach_grad()
    with autograd.record():
        out, last = run(
            lambda x: npx.while_loop(
                lambda x: x < 40, lambda x: (x * x, [x * 2]), [x], max_iterations=9
            ),
            x,
        )
        first = autograd.grad(out.sum() + last[0], [x], create_graph=True, retain_graph=True)[0]
        first.backward()
    rows = 4.0 ** np.arange(5)
    np.testing.assert_allclose(out.asnumpy(), [*(2.25 * rows), 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(first.asnumpy(), 2 * 1.5 * rows.sum() + 32, rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * rows.sum(), rtol=1e-6)


def test_steps_that_did_not_happen_give_no_nan(run: Any) -> None:
    x = mx.np.array(3.0)
    x.attach_grad()
    with autograd.record():
        out, _ = run(
            lambda x: npx.while_loop(
                lambda x: x > 0, lambda x: (mx.np.sqrt(x), [x - 1]), [x], max_iterations=9
            ),
            x,
        )
        loss = out.sum()
    loss.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), sum(0.5 / np.sqrt([3.0, 2.0, 1.0])), rtol=1e-5)


def test_a_while_loop_with_a_huge_bound_keeps_no_rows_for_it() -> None:
    _, (i,) = npx.while_loop(
        lambda i: i < 3, lambda i: (None, [i + 1]), [mx.np.array(0)], max_iterations=10**9
    )
    assert i.item() == 3
    x = mx.np.array(1.0)
    x.attach_grad()
    with autograd.record():
        _, (y,) = npx.while_loop(
            lambda x: x < 8, lambda x: (None, [x * 2]), [x], max_iterations=10**9
        )
    y.backward()
    assert x.grad.item() == 8


# ---- nesting -----------------------------------------------------------------------------------------


def test_nested_loops_and_branches(run: Any) -> None:
    """Values of a body, and of the forward two levels up, in the innermost body."""
    a = np.cos(np.arange(30.0)).reshape(10, 3).astype("float32")

    def forward(x: Any, w: Any) -> Any:
        scale = w * 2

        def row(xs: Any, total: Any) -> Any:
            half = total / 2

            def element(x: Any, s: Any) -> Any:
                return npx.cond(x > 0, lambda: x * scale + half, lambda: s - x), s + x

            return npx.foreach(element, xs, total)

        return npx.foreach(row, x, w)

    total, want = 1.5, []
    for xs in a:
        half, line = total / 2, []
        for x in xs:
            line.append(x * 3.0 + half if x > 0 else total - x)
            total = total + x
        want.append(line)
    x, w = mx.np.array(a), mx.np.array(1.5)
    x.attach_grad()
    with autograd.record():
        out, last = run(forward, x, w)
    out.backward()
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.asnumpy(), total, rtol=1e-4)
    assert x.grad[-1, -1].item() == (3.0 if a[-1, -1] > 0 else -1.0)


# ---- cond --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hybridize", [False, True])
def test_cond(hybridize: bool) -> None:
    block = Function(
        lambda x, y: npx.cond(
            lambda x: x.sum() > 0, lambda x: [x * y, [x]], lambda x: [x * 3, [y]], x
        )
    )
    if hybridize:
        block.hybridize()
    y = mx.np.array([5.0, 7.0])
    y.attach_grad()
    for sign, want, slope in ((1, [5.0, 14.0], [1.0, 2.0]), (-1, [-3.0, -6.0], [1.0, 1.0])):
        x = mx.np.array([1.0, 2.0]) * sign
        with autograd.record():
            out, (other,) = block(x, y)
            loss = out.sum() + other.sum() * (sign < 0)
        loss.backward()
        assert lists(out) == want
        assert lists(other) == ([1.0, 2.0] if sign > 0 else [5.0, 7.0])
        assert lists(y.grad) == slope
    if hybridize:
        assert len(block._graphs) == 1
        assert [s.call.name for s in block.graph(x, y).steps][-1] == "_cond"


def test_cond_of_an_array_and_of_a_number() -> None:
    a, b = mx.nd.array([1.0]), mx.nd.array([2.0])
    assert lists(mx.nd.contrib.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: a)) == [42.0]
    assert hybrid(lambda x: npx.cond(False, lambda: x, lambda: x * 2))(mx.np.ones(1)).item() == 2
    with autograd.record():  # only the branch that is chosen runs
        assert npx.cond(mx.np.array(0.0), lambda: 1 / 0, lambda: [a])[0].item() == 1


def test_inside_jax() -> None:
    w = mx.np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        x = mx.np.from_jax(x)
        out, last = npx.foreach(lambda x, s: (x * s, s + x * w), x, mx.np.ones(2))
        rows, _ = npx.while_loop(
            lambda v: v.sum() < 50, lambda v: (v * w, v * 2), last * 0 + 1, max_iterations=9
        )
        return npx.cond(last.sum() > 0, lambda: out.sum() + rows.sum(), lambda: out.sum() * 3).jax

    with jax.enable_x64(True):
        x = jax.numpy.asarray(X100[:12])
        want, last, slope = 0.0, np.ones(2), np.zeros(2)
        for row in X100[:12].astype("float64"):
            want += (row * last).sum()
            last = last + row * [1.0, 2.0]
        assert last.sum() > 0
        want += 3 * sum(2.0**k for k in range(5))  # 2 (1 + 2 + 4 + ...) is below 50 five times
        np.testing.assert_allclose(jax.jit(f)(x), want, rtol=1e-5)
        # dL/dx of the last row is its state; of the first, 1 and w times all rows that follow.
        slope = np.asarray(jax.grad(f)(x))
    np.testing.assert_allclose(slope[-1], last - X100[11] * [1.0, 2.0], rtol=1e-4)
    np.testing.assert_allclose(slope[0], 1 + X100[1:12].sum(0) * [1.0, 2.0], rtol=1e-4)


# ---- what is not a pure function ---------------------------------------------------------------------


def test_each_step_draws_its_own_numbers(run: Any) -> None:
    def forward(x: Any) -> Any:
        return npx.foreach(
            lambda x, s: ([npx.dropout(x, 0.5), mx.np.random.uniform(size=(2,))], s), x, []
        )

    x = mx.np.ones((12, 64))
    want: list[Any] = []
    mx.random.seed(5)
    with autograd.train_mode():
        for _ in range(12):
            want.append(
                (npx.dropout(x[0], 0.5).asnumpy(), mx.np.random.uniform(size=(2,)).asnumpy())
            )
        after = mx.np.random.uniform().item()
        mx.random.seed(5)
        (masks, numbers), _ = run(forward, x)
        assert mx.np.random.uniform().item() == after
    np.testing.assert_array_equal(masks.asnumpy(), [m for m, _ in want])
    np.testing.assert_array_equal(numbers.asnumpy(), [n for _, n in want])
    assert len({m.tobytes() for m, _ in want}) == 12


def test_random_numbers_of_while_loop_and_nested_loops(run: Any) -> None:
    def forward(x: Any) -> Any:
        def inner(x: Any, s: Any) -> Any:
            return mx.np.random.uniform(size=(1,)), s

        def step(i: Any) -> Any:
            return [npx.foreach(inner, x, [])[0], mx.np.random.uniform(size=(1,))], i + 1

        return npx.while_loop(
            lambda i: i + mx.np.random.uniform() * 0 < 9, step, mx.np.zeros(()), max_iterations=9
        )

    mx.random.seed(5)
    want = [mx.np.random.uniform(size=(1,)).item() for _ in range(9 * 4)]
    mx.random.seed(5)
    (inner, outer), _ = run(forward, mx.np.zeros(2))
    drawn = np.array(want).reshape(9, 4)  # the condition, twice the inner loop, the step
    np.testing.assert_allclose(inner.asnumpy()[:, :, 0], drawn[:, 1:3], rtol=1e-6)
    np.testing.assert_allclose(outer.asnumpy()[:, 0], drawn[:, 3], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_statistics_move_with_each_step(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_flow, "LONG", 10**9 if mode == "python" else 0)
    norm = nn.BatchNorm(in_channels=2, momentum=0.9)
    block = Function(lambda norm, x: npx.foreach(lambda x, s: (norm(x), s), x, [])[0], norm)
    block.initialize()
    if mode == "hybridized":
        block.hybridize()
    x = np.cos(np.arange(60.0)).reshape(10, 3, 2).astype("float32")
    mean = np.zeros(2)
    for step in range(3):
        with autograd.record():
            out = block(mx.np.array(x)).sum()
        out.backward()
        for rows in x:
            mean = 0.9 * mean + 0.1 * rows.mean(0)
        np.testing.assert_allclose(
            norm.running_mean.data().asnumpy(), mean, rtol=1e-4, atol=1e-5, err_msg=str(step)
        )
    assert norm.running_mean.data()._value().tape is None
    block(mx.np.array(x)).wait_to_read()
    np.testing.assert_allclose(norm.running_mean.data().asnumpy(), mean, rtol=1e-4, atol=1e-5)


def test_arrays_from_outside_that_a_body_writes_to(run: Any) -> None:
    total = mx.np.zeros(2)

    def forward(x: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            nonlocal total
            own = mx.np.array([1.0, 0.0])  # one for each step
            own += x
            total += own
            return total * 1, s

        return npx.foreach(body, x, [])[0]

    out = run(forward, mx.np.array(X100[:10]))
    want = np.cumsum(X100[:10] + np.array([1.0, 0.0]), 0)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total.asnumpy(), want[-1], rtol=1e-4, atol=1e-5)


def test_a_branch_that_writes() -> None:
    count = mx.np.zeros(1)

    def forward(x: Any) -> Any:
        def then() -> Any:
            nonlocal count
            count += 1
            return x * 2

        return npx.cond(x.sum() > 0, then, lambda: x)

    block = hybrid(forward)
    for k, (v, total) in enumerate([(1.0, 1), (-1.0, 1), (2.0, 2)]):
        assert block(mx.np.array([v])).item() == (2 * v if v > 0 else v), k
        assert count.item() == total


def test_parameters_of_unknown_shape_are_initialized_in_a_body() -> None:
    cell = nn.Dense(3)
    cell.initialize(init="ones")
    out, _ = npx.foreach(lambda x, s: (cell(x), s), mx.np.ones((10, 2, 4)), [])
    assert (
        cell.weight.shape == (3, 4)
        and cell.weight.data().asnumpy().tolist() == np.ones((3, 4)).tolist()
    )
    np.testing.assert_array_equal(out.asnumpy(), np.full((10, 2, 3), 4.0))


@pytest.mark.parametrize("mirror", [True, "sublinear", "plan"])
def test_memonger_takes_a_loop_for_one_step(mirror: Any) -> None:
    from mxjax import memonger

    def losses(mirror: Any) -> list[float]:
        mx.random.seed(1)
        block = Function(
            lambda first, cell, last, x: last(
                npx.foreach(lambda x, s: (cell(s * x),) * 2, first(x), x[0] * 0 + 1)[0]
            ),
            nn.Dense(4, in_units=4, flatten=False, activation="tanh"),
            nn.Dense(4, in_units=4, flatten=False, activation="tanh"),
            nn.Dense(2, in_units=4, flatten=False),
        )
        block.initialize(mx.init.Normal(0.5))
        x = mx.np.array(np.cos(np.arange(80.0)).reshape(10, 2, 4).astype("float32"))
        block.hybridize(
            mirror=memonger.plan(block, x, budget="100KB") if mirror == "plan" else mirror
        )
        trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        found = []
        for _ in range(3):
            with autograd.record():
                loss = (block(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
            found.append(loss.item())
        return found

    want = losses(False)
    assert want[2] < want[0]
    np.testing.assert_allclose(losses(mirror), want, rtol=1e-4)


# ---- errors and ways back ----------------------------------------------------------------------------


def test_a_long_loop_that_looks_at_numbers_is_plain_python() -> None:
    x = mx.np.array(X100[:12])
    out, _ = npx.foreach(lambda x, s: (x * 2 if float(x[0]) > 0 else x, s), x, [])
    want = np.where(X100[:12, :1] > 0, 2 * X100[:12], X100[:12])
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-6)
    _, last = npx.foreach(lambda x, s: ([], mx.np.concatenate([s, x[:1]])), x, mx.np.zeros(0))
    np.testing.assert_allclose(last.asnumpy(), X100[:12, 0], rtol=1e-6)


X, S = mx.np.ones((3, 2)), mx.np.ones(2)


@pytest.mark.parametrize(
    ("fn", "error", "words"),
    [
        (lambda: npx.foreach(lambda x, s: (x, s), 3.0, S), AssertionError, "data must be an array"),
        (
            lambda: npx.foreach(lambda x, s: (x, s), X, None),
            AssertionError,
            "init_states must be an array",
        ),
        (
            lambda: npx.foreach(lambda x, s: (None, s), X, S),
            ValueError,
            "an output of foreach's body must be",
        ),
        (lambda: npx.foreach(lambda x, s: x, X, S), ValueError, "returns two things"),
        (
            lambda: npx.foreach(lambda x, s: (x, s), [X, X[:2]], S),
            ValueError,
            "must have one length",
        ),
        (
            lambda: npx.while_loop(lambda x: x, lambda x: (x, x), S),
            ValueError,
            "max_iterations should be specified",
        ),
        (
            lambda: npx.while_loop(lambda x: x, lambda x: (x, x), [], 3),
            ValueError,
            "at least one element",
        ),
        (
            lambda: npx.while_loop(lambda x: x, lambda x: (x, x), S, "a"),
            ValueError,
            "Cannot convert max_iterations",
        ),
        (
            lambda: npx.while_loop(lambda x: x.sum() > 0, lambda x: (x, [x, x]), [S], 3),
            ValueError,
            "The length of loop_vars should be consistent during the loop",
        ),
        (
            lambda: hybrid(lambda x, s: npx.foreach(lambda x, s: (x, s[0]), x, s))(X, S),
            ValueError,
            r"state 0 is float32\[2\] before a step and float32\[\] after it: the body .*test_control_flow.py:\d+",
        ),
        (
            lambda: hybrid(lambda x, s: npx.foreach(lambda x, s: (x, s * 1.5), x, s))(
                X, mx.np.ones(2, dtype="int32")
            ),
            ValueError,
            r"state 0 is int32\[2\] before a step and float",
        ),
        (
            lambda: hybrid(lambda x: npx.cond(lambda x: x > 0, lambda x: x, lambda x: x, x))(X),
            ValueError,
            "must be an array of one element, got bool",
        ),
        (
            lambda: hybrid(lambda x: npx.cond(x.sum() > 0, lambda: [x, x], lambda: x))(X),
            ValueError,
            "Number of outputs differs between then-branch and else-branch",
        ),
        (
            lambda: hybrid(lambda x: npx.cond(x.sum() > 0, lambda: x, lambda: x[0]))(X),
            ValueError,
            r"result 0 of cond is float32\[3, 2\] from then_func .* and float32\[2\] from else_func",
        ),
    ],
)
def test_errors(fn: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as found:
        fn()
    assert isinstance(found.value, errors.MXNetError)


def test_an_array_that_leaves_a_body_by_another_way() -> None:
    kept = []
    npx.foreach(lambda x, s: (kept.append(x) or x, s), mx.np.array(X100), [])
    for use in (
        lambda: kept[0] + 1,
        lambda: kept[0].asnumpy(),
        lambda: hybrid(lambda x: x + kept[0])(S),
    ):
        with pytest.raises(errors.MXNetError, match="Return it from the block, or from the body"):
            use()


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_reach_through_all_steps(hybridize: bool) -> None:
    """MXNet 1's numbers; those of 2.0.0b1 end after one step (docs/mxnet_versions.md)."""

    class Sums(mx.gluon.HybridBlock):
        def forward(self, data: Any, state: Any) -> Any:
            return npx.foreach(lambda d, s: (d * 2 + s, s + d), data, state)

    class Same(mx.gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return npx.cond(lambda a: a.sum() > 100, lambda a: [a * 2, a], lambda a: [-a, a], x)

    data, state = mx.np.array([[1.0, 2], [3, 4], [5, 6]]), mx.np.array([1.0, 2.0])
    sums, same = Sums(), Same()
    if hybridize:
        sums.hybridize()
        same.hybridize()
    data.attach_grad()
    state.attach_grad()
    with mx.autograd.record():
        rows, last = sums(data, state)
        total = (rows * rows).sum() + (last * last).sum()
    total.backward()
    assert state.grad.tolist() == [72, 104]
    assert data.grad.tolist() == [[78, 116], [82, 116], [80, 108]]
    with mx.autograd.record():
        total = sum((r * r).sum() for r in same(state))
    total.backward()
    assert state.grad.tolist() == [4, 8]
