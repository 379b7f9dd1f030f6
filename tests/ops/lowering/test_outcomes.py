"""Outcomes of probabilities: how often each comes, that what is impossible never does, and that the tiers agree."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx

P = [0.1, 0.2, 0.3, 0.05, 0.15, 0.2]
SAMPLES = 100_000


def frequencies(p, dtype, cold="interpret"):
    with mx.config.scope({"engine.cold": cold}):
        mx.random.seed(11)
        probabilities = mx.nd.array(p).astype(dtype)
        drawn = mx.nd.random.categorical(probabilities, shape=SAMPLES).asnumpy()
    return drawn, np.bincount(drawn, minlength=len(p)) / SAMPLES


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1000.0])
def test_each_outcome_comes_as_often_as_its_probability_says(dtype, factor):
    p = mx.nd.array([factor * q for q in P]).astype(dtype).astype("float64").asnumpy()
    drawn, found = frequencies(p, dtype)
    assert drawn.dtype == np.int32
    expected = p / p.sum()
    # Five standard deviations of each frequency.
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / SAMPLES))


def test_what_is_impossible_never_comes_and_what_is_certain_always():
    _, found = frequencies([0.0, 0.5, 0.0, 0.5, 0.0], "float32")
    assert found[[0, 2, 4]].sum() == 0 and found[1] > 0
    _, found = frequencies([0.0, 1.0, 0.0], "float32")
    assert found.tolist() == [0, 1, 0]
    _, found = frequencies([1e-38, 3e-38], "float32")
    assert abs(found[0] - 0.25) < 0.01


def test_programs_draw_the_same_numbers():
    by_numpy, _ = frequencies(P, "float32")
    by_program, _ = frequencies(P, "float32", "compile")
    np.testing.assert_array_equal(by_numpy, by_program)


def test_rows_are_drawn_each_by_itself_and_shapes_are_mxnets():
    rows = np.eye(3, dtype="float32")[[2, 0]]
    with mx.config.scope({"engine.cold": "interpret"}):
        p = mx.nd.array(rows)
        assert mx.nd.random.categorical(p, shape=(2, 4)).asnumpy().tolist() == [
            [[2] * 4] * 2,
            [[0] * 4] * 2,
        ]
        assert mx.nd.random.categorical(p).asnumpy().tolist() == [2, 0]
        assert mx.nd.random.categorical(p[0], shape=0).shape == (0,)
        many = np.full(5000, 1e-4, "float32")  # more outcomes than are likely to come once
        found = mx.nd.random.categorical(mx.nd.array(many), shape=2000).asnumpy()
        assert 0 <= found.min() < 100 and 4900 < found.max() < 5000
        counts = mx.np.random.multinomial(1000, [0.25, 0.75], size=20).asnumpy()
        assert counts.sum(-1).tolist() == [1000] * 20
        assert abs(counts[:, 0].mean() - 250) < 5 * np.sqrt(1000 * 0.25 * 0.75 / 20)
