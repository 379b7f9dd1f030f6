"""Large arrays in order by NumPy: equal elements stay as they were, to the sign of zeros."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mxjax.core.interpret.numpy_code import Code

SHAPES = [((5000,), 0), ((70, 90), 1), ((70, 90), 0), ((3, 80, 40), 1), ((5000, 1), 1)]


def by_numpy(fn, *args):
    return [np.asarray(r) for r in Code(jax.make_jaxpr(fn)(*args)).fn((), *args)]


def many_alike(dtype, shape):
    """Few numbers, so that many are equal; of floats both zeros, both infinities and NaN of either sign."""
    x = np.random.RandomState(0).randint(-30, 30, shape)
    if dtype in ("int32", "uint32"):
        return x.astype(dtype)
    x = (x / 4).astype(dtype)
    for k, odd in enumerate((-0.0, np.nan, -np.inf, np.inf, -np.nan)):
        x.flat[k :: 7 + 2 * k] = odd
    return x


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_the_order_is_stable(dtype, shape, axis):
    x = many_alike(dtype, shape)
    want = np.argsort(x, axis=axis, kind="stable")
    (order,) = by_numpy(lambda x: jnp.argsort(x, axis=axis), x)
    np.testing.assert_array_equal(order, want)
    places = np.arange(x.size, dtype="int32").reshape(shape)
    found = by_numpy(lambda *xs: lax.sort(xs, dimension=axis, num_keys=1), x, places)
    np.testing.assert_array_equal(found[1], np.take_along_axis(places, want, axis))
    values = by_numpy(lambda x: lax.sort(x, dimension=axis), x)
    for got in (found[0], values[0]):
        sorted_ = np.take_along_axis(x, want, axis)
        np.testing.assert_array_equal(got, sorted_)
        kept = sorted_ == sorted_
        np.testing.assert_array_equal(np.signbit(got)[kept], np.signbit(sorted_)[kept])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_largest_of_equals_is_the_first(dtype):
    x = many_alike(dtype, (50, 100))
    x = np.where(x == x, x, np.zeros((), dtype))
    values, places = by_numpy(lambda x: lax.top_k(x, 9), x)
    want = np.argsort(-x.astype("float64"), axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))
