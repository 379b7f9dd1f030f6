"""Random numbers as NumPy draws them, and functions that JAX computes for it: the same bits as in programs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mxjax import settings
from mxjax.core.graph.tracing import run_inlined
from mxjax.core.interpret import numpy_code, numpy_random
from mxjax.core.interpret.numpy_random import _BLOCK, threefry
from mxjax.core.interpret.numpy_shared import exactly
from mxjax.ops.lowering.gamma import gamma

from .test_numpy_primitives import Case, check


def _keyed(fn):
    return lambda words: fn(jax.random.fold_in(jax.random.wrap_key_data(words), 3))


def test_random_numbers_are_the_same_bits():
    """Also those that functions round: they are computed by JAX wherever they are drawn."""
    jr = jax.random
    key = np.array([1, 2], "uint32")
    scale = np.array([[0.3, 1.7, 2.0]], "float32")
    cases = []
    for width in ("uint8", "uint16", "uint32", "uint64"):
        for shape in ((), (7, 5)) if width != "uint32" else ((3,), (7, 5), (3000,)):
            cases.append(
                Case(
                    f"{width} {shape}", _keyed(lambda k, s=shape, w=width: jr.bits(k, s, w)), (key,)
                )
            )
    shape = (2, 3)
    for name in ("normal", "uniform", "exponential", "gumbel", "laplace", "logistic"):
        for dtype in ("float32", "float64") if name in ("normal", "uniform") else ("float32",):
            draw = getattr(jr, name)
            cases.append(Case(name, _keyed(lambda k, d=dtype, f=draw: f(k, shape, d)), (key,)))
    cases.append(Case("split", _keyed(lambda k: jr.uniform(jr.split(k, 5)[3], shape)), (key,)))
    cases.append(Case("randint", _keyed(lambda k: jr.randint(k, shape, -3, 10)), (key,)))
    cases.append(Case("bernoulli", _keyed(lambda k: jr.bernoulli(k, 0.3, shape)), (key,)))
    cases.append(
        Case("located", _keyed(lambda k: 0.3 + 0.7 * jr.normal(k, shape, "float32")), (key,))
    )
    cases.append(Case("permutation", _keyed(lambda k: jr.permutation(k, 50)), (key,)))
    tol = (
        0 if jax.__version_info__ < (0, 12) else 2e-7
    )  # XLA may round a product of what was drawn otherwise
    cases.append(
        Case(
            "by rows",
            lambda w, s: _keyed(lambda k: s + s * jr.normal(k, (4, 3), "float32"))(w),
            (key, scale),
            tol,
        )
    )
    check(cases)


def test_many_pairs_are_computed_in_blocks():
    n = 2 * _BLOCK + 100
    counts = np.arange(n, dtype="uint32")
    found = threefry(np.uint32(3), np.uint32(4), np.zeros(1, "uint32"), counts)
    for start in (0, _BLOCK - 50, 2 * _BLOCK):
        part = threefry(
            np.uint32(3), np.uint32(4), np.zeros(1, "uint32"), counts[start : start + 100]
        )
        for a, b in zip(found, part, strict=True):
            assert a.shape == (n,) and a.dtype == b.dtype == np.uint32
            np.testing.assert_array_equal(a[start : start + 100], b)
    keys = np.arange(n, dtype="uint32").reshape(4, -1)
    many = threefry(keys, keys + 1, np.uint32(5), np.uint32(6))
    one = threefry(keys[3, -1], keys[3, -1] + 1, np.uint32(5), np.uint32(6))
    assert many[0].shape == keys.shape and (many[0][3, -1], many[1][3, -1]) == (one[0], one[1])


def test_many_bits_come_of_a_program_once_it_pays(monkeypatch):
    """They are the same ones, and nothing is compiled where that is told."""
    key, n = 3 << 32 | 4, 2 * _BLOCK + 100
    x, y = threefry(np.uint32(3), np.uint32(4), np.zeros(1, "uint32"), np.arange(n, dtype="uint32"))
    monkeypatch.setattr(numpy_random, "_drawn", [0])
    with settings.scope("engine.cold", "auto"):
        assert numpy_random._by_program(key, n) is None and numpy_random._drawn == [n]
    monkeypatch.setattr(numpy_random, "_drawn", [10**9])
    with settings.scope("engine.cold", "interpret"):
        assert numpy_random._by_program(key, n) is None
    with settings.scope("engine.cold", "auto"):
        for m in (n, _BLOCK):
            found = numpy_random._by_program(key, m)
            assert found.dtype == np.uint32
            np.testing.assert_array_equal(found, (x ^ y)[:m])
        assert numpy_random._by_program(key, _BLOCK - 1) is None


def test_a_shared_program_serves_all_shapes():
    fn = exactly("tanh", (("accuracy", None),))
    for shape in ((), (3,), (2, 40), (0, 4), (1100,)):
        x = np.linspace(-3, 3, int(np.prod(shape)), dtype="float32").reshape(shape)
        got = fn(x)
        assert got.shape == shape and got.dtype == x.dtype
        np.testing.assert_allclose(got, np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize("draw", ["gamma", "poisson of 3", "poisson of 40"])
def test_loops_that_draw_until_one_is_taken_are_reckoned_as_they_are(draw, monkeypatch):
    """They were taken for loops of a hundred rounds, in each round of another one of so many."""
    jr = jax.random
    fns = {
        "gamma": lambda key: gamma(key, np.float32(0.7), (50,), np.float32),
        "poisson of 3": lambda key: jr.poisson(key, np.float32(3), (50,)),
        "poisson of 40": lambda key: jr.poisson(key, np.float32(40), (50,)),
    }
    calls, real = [], numpy_code._step

    def counted(line, *rest):
        step = real(line, *rest)
        return lambda m, values: [calls.append(1), step(m, values)]

    monkeypatch.setattr(numpy_code, "_step", counted)
    key = np.array([1, 2], "uint32")
    code = numpy_code.Code(
        jax.make_jaxpr(lambda k: run_inlined(_keyed(fns[draw]), [k], False))(key)
    )
    values = code.layout.values(())
    code.fn(values, key)
    assert 1 / 4 < code.steps(values) / len(calls) < 4
