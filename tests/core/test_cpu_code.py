"""Primitives that programs of a CPU compute in their own way."""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.core import cpu_code

special = pytest.importorskip("scipy.special")


def test_random_bits_are_those_of_jax():
    assert cpu_code.lowering()  # this JAX takes it
    key = jax.random.key(7)
    traced = jax.jit(lambda: jax.random.bits(key, (33,))).trace()
    made = traced.lower(**cpu_code.lowering()).compile()()
    np.testing.assert_array_equal(made, jax.random.bits(key, (33,)))


def test_the_inverse_of_the_error_function():
    x = np.concatenate([np.linspace(-0.999999, 0.999999, 4001), [1e-30, -1e-7, 0, 1, -1, 1.5, np.nan]])
    x = x.astype("float32")
    want = special.erfinv(x.astype("float64"))
    found = mx.npx.erfinv(mx.np.array(x)).asnumpy()
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=1e-37)
    np.testing.assert_array_equal(np.signbit(found[np.isfinite(want)]), np.signbit(want[np.isfinite(want)]))
