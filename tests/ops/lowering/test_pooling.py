"""Pooling of images of 16 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.ops.lowering.pooling import max_pool


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("size,kernel,stride,pad", [((7, 9), 3, 2, 1), ((6, 4), 2, 2, 0)])
def test_a_maximum_s_gradient_of_16_bits_is_a_sum_rounded_once(dtype, size, kernel, stride, pad):
    """Overlapping windows add up to nine numbers for a pixel; the maxima are the image's own numbers."""
    rng = np.random.RandomState(0)
    x = jnp.asarray(rng.normal(size=(2, 3, *size)), dtype)

    def run(x):
        return max_pool(x, kernel, stride, pad)

    out, pull = jax.vjp(run, x)
    g = jnp.asarray(rng.normal(size=out.shape), dtype)
    (got,) = pull(g)
    want, exact = jax.vjp(run, x.astype("float32"))
    (expected,) = exact(g.astype("float32"))
    assert out.dtype == got.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(out, "float32"), want)
    if dtype == "bfloat16":
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected.astype(dtype)))
    np.testing.assert_allclose(np.asarray(got, "float32"), expected, rtol=2e-2, atol=2e-2)
