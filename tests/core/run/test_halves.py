"""Segments that are a large program there is, after something that has nothing to do with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import mxjax as mx
from mxjax import np as mnp
from mxjax.core.run import scheduler

SHAPE = 1000, 1000


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with mx.config.scope({"engine.cold": "compile", "cache.mode": "off"}):
        scheduler.forget()
        mx.engine.reset()
        yield


def step(w, x):
    """A step that takes the place of the weights."""
    g = mnp.tanh(w * x) - 0.5
    w[:] = w - 0.01 * g
    return mnp.abs(g)


def step_of_numpy(w, x):
    g = np.tanh(w * x) - np.float32(0.5)
    return w - np.float32(0.01) * g, np.abs(g)


@pytest.mark.parametrize("reads", ["results", "weights", "neither"])
def test_what_comes_between_two_steps_makes_no_second_program_of_the_step(reads):
    rng = np.random.RandomState(0)
    w0, x0 = rng.rand(*SHAPE).astype("f"), rng.rand(*SHAPE).astype("f")
    w, x, seen = mnp.array(w0), mnp.array(x0), mnp.zeros(())
    mx.npx.waitall()
    sums, expected = [], []
    for k in range(4):
        out = step(w, x)
        out.wait_to_read()
        w0, out0 = step_of_numpy(w0, x0)
        # Pending until the next step runs; that one overwrites the weights.
        read, read0 = {"results": (out, out0), "weights": (w, w0), "neither": (x, x0)}[reads]
        sums.append(read.mean(axis=0) + seen)
        seen = seen + 1.0
        expected.append(read0.mean(axis=0) + k)
        if k == 0:
            first = mx.engine.stats()["compiled"]
        if k == 1:
            known = mx.engine.stats()["compiled"]
    # The three calls between, each by itself, and the second time as a segment; then nothing is new.
    assert known - first == 4
    assert mx.engine.stats()["compiled"] == known
    for a, b in zip(sums, expected, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-5)
    np.testing.assert_allclose(w.asnumpy(), w0, rtol=1e-5)


def test_what_the_step_reads_stays_in_its_program():
    """The calls before a known step give what it reads: one program."""
    x = mnp.ones(SHAPE)
    w = mnp.ones(SHAPE)
    step(w, x).wait_to_read()
    before = mx.engine.stats()["segments"]
    step(w, x * 2.0).wait_to_read()
    assert mx.engine.stats()["segments"] == before + 1
    first = 1 - 0.01 * (np.tanh(1) - 0.5)
    second = first - 0.01 * (np.tanh(first * 2) - 0.5)
    np.testing.assert_allclose(w.asnumpy(), second, rtol=1e-5)


def test_small_steps_are_not_taken_apart():
    w, x = mnp.ones((10, 10)), mnp.ones((10, 10))
    step(w, x).wait_to_read()
    for _ in range(3):
        kept = x.mean()
        before = mx.engine.stats()["segments"]
        step(w, x).wait_to_read()
        assert mx.engine.stats()["segments"] == before + 1
        assert float(kept) == 1


def test_numbers_that_change_go_with_their_half():
    """Numbers that are operands of either half."""
    w0, x0 = np.full(SHAPE, 0.5, "f"), np.full(SHAPE, 0.25, "f")
    w, x = mnp.array(w0), mnp.array(x0)
    found, expected = [], []
    for k in range(6):
        found.append(x.sum() * (0.1 * k + 0.7))
        expected.append(x0.sum(dtype="d") * (0.1 * k + 0.7))
        g = mnp.tanh(w * x) * (0.3 + 0.05 * k)
        w[:] = w - g
        g.wait_to_read()
        w0 = w0 - np.tanh(w0 * x0) * np.float32(0.3 + 0.05 * k)
    np.testing.assert_allclose([float(f) for f in found], expected, rtol=1e-5)
    np.testing.assert_allclose(w.asnumpy(), w0, rtol=1e-5)
