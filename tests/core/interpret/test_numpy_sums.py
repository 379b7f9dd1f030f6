"""NumPy's sums along any axes are as exact as along the last one: those of float64, to a few roundings."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

import mxjax as mx
from mxjax.core.interpret.numpy_reductions import added

ARRANGED = {
    "in order": lambda x: x,
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1],
    "every other": lambda x: x[..., ::2],
    "one row": lambda x: np.broadcast_to(x[:1], x.shape),
    "Fortran's order": np.asfortranarray,
}


@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize(
    "shape",
    [(4097, 300), (5000, 3), (64, 999, 8), (300, 7, 5), (5, 6, 700, 3), (1, 1000, 1), (1000,), (300, 0), (300, 0, 4)],
)  # fmt: skip
def test_sums_over_any_axes(shape, arranged):
    x = ARRANGED[arranged](np.random.RandomState(5).rand(*shape).astype("float32"))
    for axes in chain.from_iterable(combinations(range(x.ndim), n) for n in range(x.ndim + 1)):
        got, want = added(x, axes, x.dtype), x.sum(axes, "float64")
        assert got.shape == want.shape and got.dtype == x.dtype
        np.testing.assert_allclose(got, want, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float64", "complex64"])
def test_sums_of_other_dtypes(dtype):
    x = (np.random.RandomState(5).rand(1000, 3) * 9).astype(dtype)
    made = np.dtype("int32" if dtype == "bool" else dtype)
    got = added(x, (0,), made)
    assert got.dtype == made
    np.testing.assert_allclose(got, np.add.reduce(x, 0, made), rtol=1e-5)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_twenty_million_ones(tier):
    """Added up one after the other they are 16,777,216 (in both of MXNet's versions they are as many as they are)."""
    with mx.config.scope({"engine.cold": tier}):
        x = mx.nd.ones((20_000_000, 2))
        assert x.mean(axis=0).asnumpy().tolist() == [1, 1]
        assert x.T.mean(axis=1).asnumpy().tolist() == [1, 1]


def test_a_bias_has_the_exact_gradient():
    numbers = np.random.RandomState(5).rand(100_000, 3).astype("float32")
    with mx.config.scope({"engine.cold": "interpret"}):
        x, b = mx.nd.array(numbers), mx.nd.zeros((3,))
        b.attach_grad()
        with mx.autograd.record():
            loss = ((x + b) ** 2).sum() / 2
        loss.backward()
    np.testing.assert_allclose(b.grad.asnumpy(), numbers.sum(0, "float64"), rtol=1e-6)
