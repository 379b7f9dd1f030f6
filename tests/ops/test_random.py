"""What random operators promise beyond their distributions."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.ops.random import permuted


def test_the_gradient_of_categorical_is_of_what_was_drawn():
    """d log p / d p is 1 / p for each time that an outcome came; one that cannot come gets 0."""
    p = mx.nd.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
    p.attach_grad()
    with mx.autograd.record():
        drawn, log_prob = mx.nd.random.categorical(p, shape=50, get_prob=True)
    log_prob.backward()
    drawn, probabilities = drawn.asnumpy(), p.asnumpy()
    want = np.zeros_like(probabilities)
    for row in range(2):
        np.testing.assert_allclose(
            log_prob.asnumpy()[row], np.log(probabilities[row][drawn[row]]), rtol=1e-6
        )
        for outcome in drawn[row]:
            want[row, outcome] += 1 / probabilities[row, outcome]
    np.testing.assert_allclose(p.grad.asnumpy(), want, rtol=1e-5)
    assert want[0, 0] == want[1, 2] == 0


def test_multinomial_draws_for_each_number_of_trials():
    """Shapes as in MXNet 2.0.0b1; each draw's counts add up to its number of trials."""
    n, p = np.array([5, 60]), np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    for shape, want in ((None, (2, 3)), (4, (2, 4, 3)), ((4, 2), (2, 4, 2, 3))):
        found = mx.nd.random.multinomial(mx.nd.array(n), mx.nd.array(p), shape=shape)
        assert found.shape == want and found.dtype == np.float32
        counts = found.asnumpy()
        np.testing.assert_array_equal(
            counts.sum(-1), np.broadcast_to(n.reshape(2, *[1] * (len(want) - 2)), want[:-1])
        )
        assert (counts[0, ..., 2] == 0).all() and (counts[1, ..., 2] == 60).all()
    many = mx.nd.random.multinomial(
        mx.nd.array([40000]), mx.nd.array([[0.25, 0.25, 0.5]])
    ).asnumpy()[0]
    np.testing.assert_allclose(many / 40000, [0.25, 0.25, 0.5], atol=0.02)


@pytest.mark.parametrize("n", [0, 1, 5, 1625, 1626])
def test_permutations_are_those_of_jax(n):
    key = jax.random.key(7)
    for x in map(jax.numpy.asarray, (np.arange(n), np.arange(2.0 * n).reshape(n, 2))):
        expected = jax.random.permutation(key, x)
        np.testing.assert_array_equal(permuted(key, x), expected)


@pytest.mark.parametrize("call", [
    lambda r: r.uniform(mx.np.zeros((2, 1)), mx.np.ones(3), size=3),
    lambda r: r.normal(mx.np.zeros(3), 1, size=(2, 1)),
    lambda r: r.lognormal(mx.np.zeros((2, 1)), mx.np.ones(3), size=3),
    lambda r: r.gamma(mx.np.ones((2, 3)), size=3),
])  # fmt: skip
def test_a_size_that_parameters_do_not_fit_is_refused(call):
    """NumPy refuses it; MXNet leaves out parameters without a word."""
    with pytest.raises(ValueError, match="does not hold the draws of parameters"):
        call(mx.np.random).asnumpy()


def test_an_empty_size_is_none():
    """As in MXNet 2.0.0b1, which gives the parameters' shape."""
    r = mx.np.random
    assert r.gamma(mx.np.ones(3), size=()).shape == (3,)
    assert r.f(mx.np.ones((2, 1)), mx.np.ones(3), size=()).shape == (2, 3)
    assert r.normal(size=()).shape == ()


@pytest.mark.parametrize("draw", [mx.nd.random.normal, mx.nd.random.uniform])
def test_draws_in_bfloat16(draw):
    """MXNet's own tests of mixed precision ask for them; bfloat16 is of no kind of NumPy's."""
    low = mx.nd.zeros(1, dtype="bfloat16").dtype
    drawn = draw(1, 2, shape=(4000,), dtype="bfloat16")
    assert drawn.dtype == low
    numbers = drawn.astype("float32").asnumpy()
    mean = 1 if draw is mx.nd.random.normal else 1.5
    assert abs(numbers.mean() - mean) < 5 * 2 / np.sqrt(len(numbers))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_draws_of_numpy_that_are_integers(dtype):
    """As in MXNet 2.0.0b1 they are cut off towards zero, negative ones without a sign wrap around."""
    drawn = mx.np.random.uniform(-1, 5, (2000,), dtype=dtype)
    assert drawn.dtype == dtype
    counts = np.bincount(drawn.asnumpy(), minlength=5) / 2000
    np.testing.assert_allclose(counts, [2 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6], atol=0.06)
    for draw in (mx.np.random.normal, mx.np.random.laplace):
        found = draw(0, 3, (2000,), dtype=dtype).asnumpy()
        assert found.dtype == dtype
        signed = found.astype(dtype.lstrip("u"))
        assert (signed < -2).any() and (signed > 2).any()
        assert abs(signed.mean(dtype="float64")) < 0.5
    with pytest.raises(TypeError, match="floating-point"):
        mx.nd.random.uniform(0, 5, (2,), dtype=dtype)
