"""Numbers that change: where they are found out, what it costs, and that they mean what they meant."""

import math
import random

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd, np, npx
from mxjax.core import Graph, local, recording, varying
from mxjax.core.calls.segment import Tree
from mxjax.core.run import scheduler
from mxjax.ops import TABLE

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def nothing_known():
    mx.waitall()
    scheduler.forget()


def compiled(step, rounds):
    """How many programs each round compiles."""
    counts = []
    for k in range(rounds):
        before = mx.engine.stats()["compiled"]
        step(k)
        mx.waitall()
        counts.append(mx.engine.stats()["compiled"] - before)
    return counts


# ------------------------------------------------------------------------------------------ loops


def test_fifty_products_with_fresh_numbers_settle_in_two_rounds():
    w = np.ones((4,))
    w.attach_grad()

    def step(_):
        numbers = [random.random() for _ in range(50)]
        with autograd.record():
            s = np.zeros(())
            for number in numbers:
                s = s + (w * number).sum()
        s.backward()
        onp.testing.assert_allclose(w.grad.asnumpy(), sum(numbers), rtol=1e-5)
        onp.testing.assert_allclose(s.item(), 4 * sum(numbers), rtol=1e-5)

    counts = compiled(step, 6)
    assert sum(counts[:2]) <= 4 and counts[2:] == [0] * 4


def test_numbers_in_one_line_each_settle():
    """What is learned of one number leaves standing what is known of the others."""
    x = np.ones((3,))

    def step(_):
        a, b, c, d = (random.random() for _ in range(4))
        y = x * a
        y = y + b
        y = y / (1 + c)
        y = y - d
        y.asnumpy()

    counts = compiled(step, 6)
    assert sum(counts) <= 3 and counts[3:] == [0] * 3


def test_a_policy_gradient_loop():
    observation, weight = np.ones((1, 4)), np.full((4, 2), 0.1)
    weight.attach_grad()

    def episode(_):
        with autograd.record():
            loss = np.zeros(())
            for k in range(40):
                chances = npx.log_softmax(np.dot(observation, weight))
                loss = loss - chances[0, k % 2] * random.gauss(0, 1)
        loss.backward()
        weight[:] = weight - 0.01 * weight.grad
        weight.asnumpy()

    assert sum(compiled(episode, 5)) <= 20


def test_adam_from_the_textbook():
    weights = [np.ones((3, k + 1)) for k in range(10)]
    means, squares = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    want, m, v = 1.0, 0.0, 0.0
    for w in weights:
        w.attach_grad()

    def step(k):
        nonlocal want, m, v
        t = k + 1
        with autograd.record():
            loss = sum(((w - 2) ** 2).sum() for w in weights)
        loss.backward()
        for i, w in enumerate(weights):
            means[i] = 0.9 * means[i] + (1 - 0.9) * w.grad
            squares[i] = 0.999 * squares[i] + (1 - 0.999) * w.grad**2
            mean, square = means[i] / (1 - 0.9**t), squares[i] / (1 - 0.999**t)
            w[:] = w - 0.001 * mean / (np.sqrt(square) + 1e-8)
        g = 2 * (want - 2)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        want -= 0.001 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        assert abs(weights[9].asnumpy()[0, 0] - want) < 1e-5

    assert sum(compiled(step, 8)) <= 20


def test_a_replay_buffer():
    """randint's bound grows, noise decays, a temperature is annealed."""
    memory, weight = np.random.normal(size=(200, 4)), np.full((4, 2), 0.1)

    def step(k):
        n = 10 + k
        batch = memory[np.random.randint(0, n, size=(8,))]
        batch = batch + np.random.normal(0, 0.95**k, size=batch.shape)
        chances = npx.softmax(np.dot(batch, weight), temperature=2.0 * 0.97**k)
        assert int(np.random.choice(n)) < n
        onp.testing.assert_allclose(chances.sum(axis=1).asnumpy(), 1, rtol=1e-5)

    assert sum(compiled(step, 20)) <= 20


def test_the_fallback_compiles_no_program_for_each_value():
    x = np.ones((3,))

    def chain(k):
        y = x
        for _ in range(
            k + 2
        ):  # each structure comes once: all but the first two run operator by operator
            y = y * random.random()
        y.asnumpy()

    before = mx.engine.stats()["fallbacks"]
    assert compiled(chain, 12)[3:] == [0] * 9
    assert mx.engine.stats()["fallbacks"] - before >= 9


def test_the_calls_of_a_fallback_take_their_numbers_as_operands():
    row = TABLE["multiply_scalar"]
    call = row.bind((("scalar", 0.3),))
    loose, before, numbers = call.loose()
    assert loose is row.bind(varying=("scalar",)) and numbers == (0.3,) and before == -1
    gradient = call.vjp((True,), (True,), False)
    loose, before, numbers = gradient.loose()
    assert loose.forward is row.bind(varying=("scalar",)) and numbers == (0.3,) and before == 1
    call = TABLE["arange"].bind_moving(
        (("start", 3.0), ("stop", 7.5), ("step", 1.5)), (), ("start", "stop")
    )
    loose, _, numbers = call.loose()
    assert (
        loose.varying == ("start", "stop", "step")
        and dict(loose.attrs) == {"length": 3}
        and numbers == (1.5,)
    )
    for structure in (2, 2.0, 1, 0.5, True, 1 << 70):  # an exponent, or no operand at all
        call = row.bind((("scalar", structure),))
        assert call.loose() == (call, -1, ())


# ---------------------------------------------------------------------------------- what is learned


def test_a_second_value_makes_a_number_an_operand():
    numbers = varying.Numbers()
    assert [numbers.varies("a", s) for s in (0.5, 0.5, 0.7, 0.5)] == [False, False, True, True]
    assert not numbers.varies("b", 0.7)  # another number
    assert not numbers.varies("a", 1)  # an int is not the float
    assert [numbers.varies("c", s) for s in (math.nan, float("nan"), 1.0)] == [False, False, True]
    assert [numbers.varies("d", s) for s in (0.0, 0.0, -0.0)] == [False, False, True]
    numbers.fix("e", 1.0)
    assert not any(numbers.varies("e", s) for s in (1.0, 2.0, 3.0))
    numbers.clear()
    assert not numbers.varies("a", 0.9)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(varying, "_LIMIT", 100)
    numbers = varying.Numbers()
    for k in range(1000):
        numbers.varies(k, 0.5)
    assert len(numbers._first) <= 101


def test_it_is_forgotten_with_the_tree():
    for forget in (Tree.clear, scheduler.forget, lambda: scheduler.forget(programs=False)):
        varying.of_calls.varies("a", 0.5)
        assert varying.of_calls.varies("a", 0.7)
        mx.waitall()
        forget()
        assert not varying.of_calls.varies("a", 0.7)


def test_equal_operators_in_other_places_do_not_count():
    """An expression's constants stay constants, however many there are."""
    x = np.ones((3,))
    for _ in range(3):
        y = x * 0.5 + x * 0.25 + x * 0.125
        y = y**2 + y**3
        step = local.st.seg.step
        y.asnumpy()
    assert step.fmt == "" and step.depth == 8


def test_a_block_of_each_layer_has_its_own_numbers():
    class Scaled(gluon.HybridBlock):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by

    net = gluon.nn.HybridSequential()
    net.add(Scaled(0.5), Scaled(0.25))
    net(np.ones(2))
    out = net(np.ones(2))
    step = local.st.seg.step
    assert out.asnumpy().tolist() == [0.125, 0.125] and step.fmt == ""


# --------------------------------------------------------------------------------- what they mean


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
def test_numbers_that_change_give_what_constants_give(dtype):
    x = np.array([0, 1, 1], dtype=dtype)
    values = [2.5, -0.0, 1.5, math.inf, math.nan, -3.25, 3, 7, -2]
    want = []
    with mx.engine.bulk(1):
        for v in values:
            scheduler.forget()
            want.append([(x + v), (v - x), (x * v)])
            want[-1] = [(a.dtype, a.asnumpy()) for a in want[-1]]
    scheduler.forget()
    for v, expected in zip(values, want, strict=True):
        got = [(x + v), (v - x), (x * v)]
        for g, (kind, numbers) in zip(got, expected, strict=True):
            assert g.dtype == kind
            onp.testing.assert_array_equal(g.asnumpy(), numbers)
            signs = [
                onp.signbit(n[n == n]) for n in (g.asnumpy(), numbers)
            ]  # a NaN's means nothing
            onp.testing.assert_array_equal(*signs)


def test_bools_and_huge_ints_stay_what_they_are():
    x = np.array([1.0, 2.0])
    for number, want in ((True, [1, 2]), (False, [0, 0]), (True, [1, 2])):
        assert (x * number).asnumpy().tolist() == want
    for huge in (1 << 70, 1 << 71, 1 << 72):
        assert (x * huge).asnumpy().tolist() == [float(huge), 2.0 * huge]
    assert not varying.takes_operand(True) and not varying.takes_operand(1 << 63)
    assert varying.takes_operand(-(1 << 63)) and varying.takes_operand(0.5)


def test_full_keeps_the_sign_of_zero():
    for v in (0.0, -0.0, 0.0, -0.0):
        assert onp.signbit(np.full((2,), v).asnumpy()).tolist() == [math.copysign(1, v) < 0] * 2
        assert onp.signbit(nd.full((2,), v).asnumpy()).tolist() == [math.copysign(1, v) < 0] * 2


def test_full_and_where_tell_ints_and_floats_apart():
    for v, w in ((1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)):
        assert np.full((2,), v).dtype == "int64" and np.full((2,), w).dtype == "float32"
        assert np.full((2,), True).dtype == "bool"
        x = np.array([1, 2], dtype="float16")
        assert np.where(x > 1, x, w).dtype == "float16"
        assert np.where(x > 1, x, w).asnumpy().tolist() == [w, 2]
        assert np.where(x > 1, v, w).asnumpy().tolist() == [w, v]


def test_clip_without_one_of_its_bounds():
    x = np.array([-2.0, 0.0, 2.0])
    for b in (0.5, 0.75, 1.0, 1.25):
        assert np.clip(x, None, b).asnumpy().tolist() == [-2, 0, b]
        assert np.clip(x, -b, None).asnumpy().tolist() == [-b, 0, 2]
        assert x.as_nd_ndarray().clip(-b, b).asnumpy().tolist() == [-b, 0, b]
        assert np.clip(np.array([-5, 0, 300]), -b * 4, 1e20).asnumpy().tolist() == [
            int(-b * 4),
            0,
            300,
        ]


def test_arguments_are_refused_however_often_they_change():
    for scale in (1.0, 2.0, 3.0, -1.0, 4.0, -2.0):
        made = np.random.normal(0, scale, size=(2,))
        if scale < 0:
            with pytest.raises(ValueError, match="scale < 0"):
                made.asnumpy()
        else:
            made.asnumpy()
    for p in (0.5, 0.6, 1.5, 0.7):
        made = npx.random.bernoulli(p, size=(2,))
        if p > 1:
            with pytest.raises(ValueError, match="prob"):
                made.asnumpy()
        else:
            made.asnumpy()
    for low, high in ((0, 5), (1, 6), (7, 2), (2, 7)):
        made = np.random.randint(low, high, size=(2,))
        if low > high:
            with pytest.raises(ValueError, match="low >= high"):
                made.asnumpy()
        else:
            made.asnumpy()


def test_random_numbers_are_the_same_however_their_parameters_come():
    def draws():
        mx.random.seed(5)
        return [
            [np.random.normal(0.1 * k, 1 + k, size=3), np.random.uniform(-k, k + 0.5, size=3)]
            for k in range(1, 4)
        ]

    once = [[a.asnumpy() for a in row] for row in draws()]
    for _ in range(2):
        for row, want in zip(draws(), once, strict=True):
            for a, b in zip(row, want, strict=True):
                onp.testing.assert_allclose(a.asnumpy(), b, rtol=1e-6)
    mx.random.seed(5)
    below = [np.random.choice(n, size=4).asnumpy() for n in (5, 6, 7)]
    mx.random.seed(5)
    among = [np.random.choice(np.arange(n, dtype="int64"), size=4).asnumpy() for n in (5, 6, 7)]
    onp.testing.assert_array_equal(below, among)


def test_no_gradient_flows_to_a_number():
    x = np.array([1.0, -2.0])
    x.attach_grad()
    for s in (0.25, 0.5, 0.75):
        with autograd.record():
            y = npx.leaky_relu(x, slope=s) * s
        y.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), [s, s * s], rtol=1e-6)


def test_a_graph_with_such_numbers_is_read_back():
    """Numbers as attributes, and in the places of arrays, among them one beside an argument that is not given."""
    device = mx.core.default_device()
    x = np.ones((2, 3), dtype="float32")
    where, clip = TABLE["where"], TABLE["clip"]
    with recording("numbers", device) as rec:
        a = rec.placeholder(x._value().aval, "a")
        c = mx.core.record(
            TABLE["greater_scalar"].bind(varying=("scalar",)), (a, mx.core.Dynamic(0.5))
        )[0]
        b = mx.core.record(where.bind((), (), (1,)), (c, a, mx.core.Dynamic(2.5)))[0]
        d = mx.core.record(
            clip.bind((("a_min", None),), (), ("a_max",)), (b, mx.core.Dynamic(2.0))
        )[0]
        e = mx.core.record(where.bind((), ((2, 7.0),), (1,)), (c, mx.core.Dynamic(1.5)))[0]
        graph = rec.finish([d, e])
    text = repr(graph)
    assert "where(%0, 1=$1, a)" in text and "a_max=$2" in text and "where(%0, 1=$3, 7.0)" in text
    again = Graph.read(text)
    assert repr(again) == text
    first, second = [onp.asarray(mx.core.read(v)).tolist() for v in again.onto([x._value()])]
    assert first == [[2.0] * 3] * 2 and second == [[1.5] * 3] * 2


# -------------------------------------------------------------------------- hybridized blocks


class Mixed(gluon.HybridBlock):
    """A number handed to the block: used by operators, and, if asked for, by Python."""

    def forward(self, x, s, how="operators"):
        y = x * s + (1 - s) * 2
        if how == "python":
            y = y * math.exp(s)
        if how == "branch" and s > 0.4:
            y = y + 1
        if how == "argument":
            y = np.clip(y, -s, s)
        if how == "random":
            y = y + np.random.normal(0, s, size=(3,)) * 0
        return y


@pytest.mark.parametrize("how", ["operators", "python", "branch", "argument", "random"])
def test_a_number_handed_to_a_hybridized_block(how):
    net, x = Mixed(), np.array([1.0, 2.0, 3.0])
    plain = Mixed()
    net.hybridize()
    counts = []
    for k in range(6):
        s = 0.1 + 0.15 * k
        want = plain(x, s, how).asnumpy()
        before = mx.engine.stats()["compiled"]
        got = net(x, s, how).asnumpy()
        counts.append(mx.engine.stats()["compiled"] - before)
        onp.testing.assert_allclose(got, want, rtol=1e-6)
    if how in ("operators", "argument", "random"):
        assert counts[2:] == [0] * 4


def test_it_is_an_input_of_the_backward_pass_and_checked():
    net, x = Mixed(), np.ones((3,))
    net.hybridize()
    x.attach_grad()
    for k in range(1, 5):
        with autograd.record():
            y = net(x, 0.25 * k).sum()
        y.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), 0.25 * k, rtol=1e-6)
    for s in (0.5, 0.75, 1.0):
        net(x, s, "random").asnumpy()
    with pytest.raises(ValueError, match="scale < 0"):
        net(x, -1.0, "random").asnumpy()


def test_python_sees_a_number():
    seen = []

    class Looks(gluon.HybridBlock):
        def forward(self, x, s):
            seen.append((isinstance(s, float), f"{s:.2f}", max(s, 0.0), int(s * 10)))
            return x * s

    net = Looks()
    net.hybridize()
    for s in (0.25, 0.5, 0.75):
        assert net(np.ones(1), s).item() == s
    assert (True, "0.75", 0.75, 7) in seen
