"""All random bits of a program drawn at once: the numbers of JAX, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core import rng
from mxjax.core.compile import random_blocks
from mxjax.core.compile.cpu_code import lowering
from mxjax.core.graph.jaxprs import bodies
from mxjax.ops.table import TABLE

jr = jax.random
WORDS = np.array([3, 4], "uint32")


def rounds(jaxpr):
    """How many equations draw bits or make keys, loops' bodies included."""
    made = ("random_bits", "random_fold_in", "random_split")
    return sum((e.primitive.name in made) + sum(map(rounds, bodies(e.params))) for e in jaxpr.eqns)


def both(fn, *args):
    """What a function gives, compiled as it is and with its draws at once, and their lengths in draws."""
    with jax.enable_x64(True):
        plain = jax.jit(fn).trace(*args)
        made = random_blocks.at_once(plain.jaxpr)
        assert made is not None
        short = jax.jit(made).trace(*args)
        wanted = jax.tree.leaves(plain.lower().compile()(*args))
        found = short.lower(**lowering()).compile()(*args)
    return wanted, found, rounds(plain.jaxpr.jaxpr), rounds(short.jaxpr.jaxpr)


def of_all_kinds(words, count, x):
    """Draws of several sizes, widths and distributions, of keys that are folded and split, some in functions of JAX."""
    keys = [rng.key_of(words, count, jnp.int64(k)) for k in range(14)]
    made = [
        jr.bits(keys[k], (5, 3 + k), w)
        for k, w in enumerate(["uint8", "uint16", "uint32", "uint64"])
    ]
    made += [
        jr.uniform(keys[4], (3,)),
        jr.normal(keys[5], (17, 2)),
        jr.bernoulli(keys[6], 0.3, x.shape),
    ]
    made += [
        jr.randint(keys[7], (4,), 0, 10),
        jr.permutation(keys[8], 20),
        jr.gamma(keys[9], 2.0, (3,), "float32"),
    ]
    made += [jr.uniform(jr.fold_in(keys[k], k), x.shape) for k in (10, 11)]
    made += [
        jr.uniform(jr.split(keys[12], 3)[1], ()),
        jr.uniform(keys[13], (random_blocks.LARGE + 1,)),
    ]
    made += [
        jr.bits(keys[0], (0, 2), "uint32"),
        jr.bits(jr.wrap_key_data(words), x.shape, "uint32"),
    ]
    return made, x * jr.bernoulli(keys[6], 0.3, x.shape)


def test_the_numbers_are_the_same_bits():
    wanted, found, _, _ = both(
        of_all_kinds, WORDS, np.int64(7), np.linspace(1, 2, 40, dtype="float32")
    )
    assert len(wanted) == len(found) == 17
    for a, b in zip(wanted, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def dropouts(*shapes):
    def drop(words, count):
        return [
            jr.bernoulli(rng.key_of(words, count, jnp.int64(k)), 0.9, s)
            for k, s in enumerate(shapes)
        ]

    return drop


@pytest.mark.parametrize(
    ("shapes", "left"),
    [
        ([(16, 32)] * 12, 2),  # the keys, and the bits
        ([(7, 9), (63,), (64,), (33,)], 2),  # rows of one length
        ([(300, 300)] * 3, 4),  # large: the keys alone
        ([(5,), (5000,), (5000,), (6000,)], 4),  # of a size of its own
    ],
)
def test_draws_of_one_size_are_one(shapes, left):
    wanted, found, before, after = both(dropouts(*shapes), WORDS, np.int64(7))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert before == 2 * len(shapes)
    assert after == left


def test_what_is_drawn_twice_alike_is_drawn_once():
    def fn(words, count, x):
        keys = [rng.key_of(words, count, jnp.int64(k % 3)) for k in range(6)]
        return [jr.uniform(k, (8,)) for k in keys]

    wanted, found, _, after = both(fn, WORDS, np.int64(7), np.float32(0))
    assert after == 2
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_few_draws_stay():
    with jax.enable_x64(True):
        assert (
            random_blocks.at_once(jax.make_jaxpr(dropouts((3,), (3,)))(WORDS, np.int64(7))) is None
        )
        assert random_blocks.at_once(jax.make_jaxpr(lambda x: x + 1)(1.0)) is None


def test_draws_that_depend_on_results_stay_where_they_are():
    def fn(words, x):
        key = jr.wrap_key_data(words)
        late = [jr.fold_in(key, jnp.sum(x * k).astype("uint32")) for k in range(4)]
        return [jr.uniform(k, (4,)) for k in (*late, *[jr.fold_in(key, k) for k in range(3)])]

    x = np.arange(100, dtype="float32")
    wanted, found, _, after = both(fn, WORDS, x)
    assert after == 8 + 2
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_network_draws_the_numbers_it_draws_by_itself():
    """As a program, and operator by operator."""

    def through(cold):
        with mx.config.scope(engine_cold=cold):
            mx.random.seed(5)
            x = mx.np.ones((64, 30))
            for p in (0.1, 0.2, 0.3, 0.4, 0.5):
                with mx.autograd.train_mode():
                    x = mx.npx.dropout(x, p=p) + mx.np.random.uniform(size=(64, 30))
            return x.asnumpy()

    np.testing.assert_allclose(through("compile"), through("interpret"), rtol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "drawn"),
    [
        ({"p": 0.5, "is_train": True}, 2),
        ({"p": 0.5}, 0),
        ({"p": 0.0, "is_train": True}, 0),
        ({"mode": "always"}, 2),
    ],
)
def test_a_call_of_dropout_that_drops_nothing_makes_no_key(attrs, drawn):
    of_rnn = {"mode": "rnn_tanh", "state_size": 2, "num_layers": 2, "p": 0.0, **attrs}
    with jax.enable_x64(True):
        key = WORDS, np.int64(3), np.int64(0)
        jaxpr = jax.make_jaxpr(lambda *key: TABLE["dropout"].fn(*key, jnp.ones((3, 2)), **attrs))(
            *key
        )
        assert rounds(jaxpr.jaxpr) == drawn
        if "mode" not in attrs:
            inputs = jnp.ones((3, 1, 2)), jnp.ones(24), jnp.ones((2, 1, 2))
            jaxpr = jax.make_jaxpr(lambda *key: TABLE["rnn"].fn(*key, *inputs, **of_rnn))(*key)
            assert rounds(jaxpr.jaxpr) == (3 if drawn else 0)


def test_a_call_that_drops_nothing_counts_as_a_draw():
    def drawn(p):
        mx.random.seed(4)
        with mx.autograd.train_mode():
            mx.npx.dropout(mx.np.ones(3), p=p).wait_to_read()
        return mx.np.random.uniform(size=3).asnumpy()

    np.testing.assert_array_equal(drawn(0.0), drawn(0.5))
