"""Element-wise calls over large arrays go by blocks of rows: the same numbers to the last bit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.interpret import numpy_blocks, numpy_code

ROWS, COLUMNS = 1000, 300


def computed(fn: Any, *arrays: Any) -> list[np.ndarray]:
    """A function of arrays by NumPy's code."""
    code = numpy_code.Code(jax.make_jaxpr(fn)(*arrays))
    return [np.asarray(a) for a in code.fn(code.layout.values(()), *arrays)]


@pytest.fixture
def blocks(monkeypatch):
    """How many rows each block had."""
    seen: list[Any] = []
    real = numpy_blocks._rows

    def rows(arrays):
        seen.append(real(arrays))
        return seen[-1]

    monkeypatch.setattr(numpy_blocks, "_rows", rows)
    return seen


def update(w, g, m, rate):
    grad = g * 0.5 + w * 1e-3
    m = m * 0.9 + grad
    return w - jnp.tanh(m) * rate, m, jnp.sqrt(m * m + 1e-8)


def drawn(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.view("uint32"), b.view("uint32"))


@pytest.mark.parametrize(
    "shape", [(ROWS, COLUMNS), (ROWS * COLUMNS,), (7, 3, 50_000), (1, 500_000), (2, 200_000)]
)
def test_blocks_have_the_numbers_of_the_whole(shape, blocks, monkeypatch):
    arrays = [drawn(*shape, seed=k) for k in range(3)] + [np.float32(0.1)]
    got = computed(update, *arrays)
    split = [rows for rows in blocks if rows is not None]
    assert len(split) == (shape[0] > 1)
    monkeypatch.setattr(numpy_code, "LARGE", 1 << 40)
    same(got, computed(update, *arrays))


def test_the_numbers_are_numpys_own(blocks):
    w, g, m = [drawn(ROWS, COLUMNS, seed=k) for k in range(3)]
    f = np.float32
    grad = g * f(0.5) + w * f(1e-3)
    new = m * f(0.9) + grad
    want = [w - np.tanh(new) * f(0.1), new, np.sqrt(new * new + f(1e-8))]
    for a, b in zip(computed(update, w, g, m, f(0.1)), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert blocks == [(ROWS, numpy_blocks.BLOCK // COLUMNS)]


def test_what_has_one_row_or_column_is_broadcast(blocks, monkeypatch):
    def scaled(x, row, column):
        return (x - row) * column + row, x * 2 - column

    arrays = drawn(ROWS, COLUMNS), drawn(1, COLUMNS, seed=1), drawn(ROWS, 1, seed=2)
    got = computed(scaled, *arrays)
    assert any(blocks)
    want = (arrays[0] - arrays[1]) * arrays[2] + arrays[1], arrays[0] * 2 - arrays[2]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(numpy_code, "LARGE", 1 << 40)
    same(got, computed(scaled, *arrays))


@pytest.mark.parametrize(
    "arrange", [lambda a: a.T.copy().T, lambda a: a[:, ::-1], lambda a: a[:100]]
)
def test_what_is_small_or_not_in_order_is_taken_whole(arrange, blocks):
    arrays = [arrange(drawn(ROWS, COLUMNS, seed=k)) for k in range(3)]
    got = computed(update, *arrays, np.float32(0.1))
    assert not any(blocks)
    for a, b in zip(got, update(*arrays, np.float32(0.1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_lies_between_element_wise_calls_has_its_place(blocks):
    """Sums, other shapes and numbers end a block or come before it; what they take is all there."""

    def mixed(x, y, scale):
        a = x * 2 + y
        total = a.sum(0, keepdims=True)
        factor = scale * 3
        b = (a - total) * factor
        small = y[:5] * factor
        return b * a, small + 1, total, (x > y) & (b > 0)

    x, y = drawn(ROWS, COLUMNS), drawn(ROWS, COLUMNS, seed=1)
    got = computed(mixed, x, y, np.float32(0.5))
    assert sum(rows is not None for rows in blocks) >= 2
    wide = mixed(x.astype("float64"), y.astype("float64"), 0.5)
    for a, b in zip(got, wide, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)  # of numbers up to 1,300


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "adagrad", "signum"])
def test_optimizers_update_large_weights_so(name, blocks, monkeypatch):
    def updated():
        p = gluon.Parameter("w", shape=(600, 500))
        p.initialize(mx.init.Constant(mx.nd.array(drawn(600, 500))))
        trainer = gluon.Trainer([p], name, {"learning_rate": 0.01, "wd": 1e-3})
        for _ in range(3):
            with autograd.record():
                loss = (p.data() * p.data()).sum()
            loss.backward()
            trainer.step(2)
        return p.data().asnumpy()

    with mx.config.scope({"engine.cold": "interpret"}):
        got = updated()
        assert sum(rows is not None for rows in blocks) >= 3
        monkeypatch.setattr(numpy_code, "LARGE", 1 << 40)
        np.testing.assert_array_equal(got, updated())
