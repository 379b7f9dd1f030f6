"""Convolutions of images of 16 bits on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.ops.lowering.convolution import convolution


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCW", "NDHWC"])
@pytest.mark.parametrize("size, k, stride", [(9, 3, 1), (8, 1, 2), (7, 5, 2), (1, 1, 1)])
def test_images_of_16_bits_are_convolved_in_float32_and_kept_as_they_are(
    dtype, layout, size, k, stride
):
    rng = np.random.RandomState(0)
    n = len(layout) - 2
    shapes = ((2, 16, *[size] * n), (8, 16, *[k] * n))
    if layout[-1] == "C":
        shapes = tuple((s[0], *s[2:], s[1]) for s in shapes)
    x, w, b = (jnp.asarray(rng.normal(size=s), dtype) for s in (*shapes, (8,)))

    def run(x, w, b):
        options = {"stride": (stride,) * n, "pad": (k // 2,) * n, "layout": layout}
        return convolution(x, w, b, **options)

    out, pull = jax.vjp(run, x, w, b)
    wide = [a.astype("float32") for a in (x, w, b)]
    want, pull_wide = jax.vjp(run, *wide)
    assert out.dtype == jnp.dtype(dtype)
    grads, want_grads = pull(out), pull_wide(out.astype("float32"))
    for got, exact in zip((out, *grads), (want, *want_grads), strict=True):
        assert got.dtype == jnp.dtype(dtype)
        exact = np.asarray(exact)
        np.testing.assert_allclose(
            np.asarray(got, "float32"), exact, rtol=2**-8, atol=2**-9 * np.abs(exact).max()
        )
    kept = jax.tree_util.tree_leaves(pull)
    assert not [a for a in kept if a.dtype == jnp.float32 and a.ndim > 2]
