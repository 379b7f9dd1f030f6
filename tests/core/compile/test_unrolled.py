"""Loops that Python unrolled, as loops of a program again: the same results of fewer equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core.compile import unrolled
from mxjax.core.graph.jaxprs import bodies


def length(jaxpr):
    return sum(1 + sum(map(length, bodies(e.params))) for e in jaxpr.eqns)


def both(fn, *args):
    """The lengths of a function and of it with loops (None where there are none); its results are the same."""
    plain = jax.jit(fn).trace(*args)
    made = unrolled.rolled(plain.jaxpr)
    before = length(plain.jaxpr.jaxpr)
    if made is None:
        return before, None
    short = jax.jit(made).trace(*args)
    wanted = jax.tree.leaves(plain.lower().compile()(*args))
    found = short.lower().compile()(*args)
    assert len(wanted) == len(found)
    for a, b in zip(wanted, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return before, length(short.jaxpr.jaxpr)


def numbers(*shape, seed=0):
    return (np.random.RandomState(seed).randn(*shape) * 0.3).astype("float32")


T, N, H = 8, 3, 4


def cell(x, state, w):
    h, c = state
    i, f, g, o = jnp.split(x @ w[0] + h @ w[1] + w[2], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def network(w, xs, layers=2):
    states = [(jnp.zeros((N, H)), jnp.zeros((N, H)))] * layers
    outs = []
    for t in range(T):
        x = xs[t]
        for k in range(layers):
            states[k] = cell(x, states[k], w)
            x = states[k][0]
        outs.append(x)
    return outs, states


WEIGHTS = numbers(H, 4 * H), numbers(H, 4 * H, seed=1), numbers(4 * H, seed=2)


def test_cells_and_their_gradient():
    def step(xs, *w):
        def loss(w, xs):
            outs, states = network(w, xs)
            return (jnp.stack(outs) ** 2).sum() + states[0][1].sum()

        return jax.value_and_grad(loss)(w, xs)

    before, after = both(step, numbers(T, N, H), *WEIGHTS)
    assert after < before / 2


def test_results_of_each_turn():
    before, after = both(lambda xs, *w: network(w, xs), numbers(T, N, H), *WEIGHTS)
    assert after < before / 2


def heavy(x):
    """Thirty equations, some of which multiply matrices."""
    for _ in range(5):
        x = jnp.sin(0.2 * (x @ x) - x * 0.3 + jnp.abs(x) * jnp.cos(x) * 0.2)
    return x


def of_two_turns_ago(x, y):
    for _ in range(9):
        x, y = heavy(x) + y.T, x
    return x, y


def with_numbers_of_their_own(x, y):
    seen = []
    for t in range(9):
        x = heavy(x) + y[t]
        seen.append(x.sum())
    return x, jnp.stack(seen[::-1]), seen[3]


def begun_in_another_way(x, y):
    z = x * 2
    for t in range(9):
        x, z = heavy(x) + z, (x.T if t > 2 else z)
    return x + z


def backwards(x, y):
    seen = []
    for _ in range(9):
        x = heavy(x)
        seen.append(x)
    for each in reversed(seen):
        y = heavy(y * 0.5 + each)
    return y, seen[4]


def with_whole_numbers(x, y):
    n = jnp.int32(3)
    for _ in range(9):
        x, n = heavy(x + n.astype("float32") / 7), n * 3 % 7 - 1
    return x, n


def with_keys(x, y):
    key = jax.random.key(3)
    for _ in range(9):
        key, now = jax.random.split(key)
        x = heavy(x) + jax.random.normal(now, x.shape)
    return x, jax.random.key_data(key)


@pytest.mark.parametrize(
    "fn",
    [
        of_two_turns_ago,
        with_numbers_of_their_own,
        begun_in_another_way,
        backwards,
        with_whole_numbers,
        with_keys,
    ],
)
def test_turns_of_every_kind(fn):
    rows = (9,) if fn is with_numbers_of_their_own else ()
    before, after = both(fn, numbers(4, 4), numbers(*rows, 4, 4, seed=1))
    assert after < before * 0.7


@pytest.mark.parametrize("seed", range(6))
def test_random_turns(seed):
    """Turns of random products and sums of what was there up to three turns before and of arrays from outside."""
    rng = np.random.RandomState(seed)
    width = 12
    plan = [
        (rng.randint(4), rng.randint(width), rng.randint(4), rng.randint(width))
        for _ in range(width)
    ]
    skips = rng.rand(width) < 0.3

    def fn(x, rows):
        made = []

        def value(t, back, k):
            at = (t - back) * width + k
            return made[at] if 0 <= at < len(made) else x if k % 2 else rows[t % 3]

        for t in range(20):
            for k, (back, i, again, j) in enumerate(plan):
                a, b = value(t, back, i), value(t, again, j)
                a = rows[t] if skips[k] else a
                made.append(jnp.sin(a @ b if k % 3 == 0 else a * 0.5 - b))
        return made[-1], made[-5], made[width * 7 + 3], made[-width * 2]

    both(fn, numbers(3, 3), numbers(20, 3, 3, seed=1))


def layers(x, y):
    for k in range(40):
        x = jnp.tanh(x @ y[k] + x) * 0.5
    return x


def test_what_stays_unrolled():
    """What is one loop over numbers, few turns, and layers with weights of their own."""
    x = numbers(4, 4)

    def numbers_alone(x, y):
        for _ in range(40):
            x = jnp.tanh(x * y) - jnp.cos(x) * 0.5
        return x

    def few(x, y):
        for _ in range(3):
            for m in range(25):
                x = jnp.sin(x @ x - x * (m + 0.5))
        return x

    assert both(numbers_alone, x, x)[1] is None
    assert both(few, x, x)[1] is None
    weights = [numbers(40, 40, seed=k) for k in range(40)]
    assert both(lambda x, *y: layers(x, y), numbers(4, 40), *weights)[1] is None


def test_what_prints_stays_unrolled():
    def fn(x):
        for _ in range(9):
            x = heavy(x)
            jax.debug.callback(lambda: None)
        return x

    assert both(fn, numbers(4, 4))[1] is None


def test_a_cell_unrolled_by_gluon_is_the_loop_of_its_steps():
    """In programs, and operator by operator."""

    def trained(cold):
        with mx.config.scope(engine_cold=cold):
            mx.random.seed(3)
            net = mx.gluon.rnn.LSTMCell(5)
            net.initialize(mx.init.Uniform(0.3))
            x = mx.np.array(numbers(2, 8, 5))
            with mx.autograd.record():
                outs, _ = net.unroll(8, x, merge_outputs=True)
                loss = (outs**2).sum()
            loss.backward()
            return loss.item(), [p.grad().asnumpy() for p in net.collect_params().values()]

    one, other = trained("compile"), trained("interpret")
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
