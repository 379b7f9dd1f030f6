"""Pooling of images of 16 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.ops.lowering.pooling import max_pool


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("size,kernel,stride,pad", [((7, 9), 3, 2, 1), ((6, 4), 2, 2, 0)])
def test_a_maximum_s_gradient_of_16_bits_is_a_sum_rounded_once(dtype, size, kernel, stride, pad):
    """Overlapping windows add up to nine numbers for a pixel; the maxima are the image's own numbers."""
    rng = np.random.RandomState(0)
    x = rng.normal(size=(2, 3, *size)).astype(jnp.dtype(dtype))

    @jax.jit
    def run(x, g):
        out, pull = jax.vjp(lambda x: max_pool(x, kernel, stride, pad), x)
        return out, *pull(g.astype(out.dtype))

    shape = jax.eval_shape(lambda x: max_pool(x, kernel, stride, pad), x).shape
    g = rng.normal(size=shape).astype(jnp.dtype(dtype))
    out, got = run(x, g)
    want, expected = run(x.astype("float32"), g.astype("float32"))
    assert out.dtype == got.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(out, "float32"), want)
    if dtype == "bfloat16":
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected).astype(got.dtype))
    else:  # two roundings where windows overlap
        np.testing.assert_allclose(np.asarray(got, "float32"), expected, rtol=2**-9, atol=2**-10)


@pytest.mark.parametrize(
    "options", [{"kernel": (16, 16)}, {"global_pool": True}, {"kernel": (8, 8), "stride": (4, 4)}]
)
@pytest.mark.parametrize(("kind", "want"), [("avg", 400), ("lp", None)])
def test_sums_of_16_bits_have_32(kind, want, options):
    """As in MXNet 1.9.1 and 2.0.0b1, which add in 32 bits: 256 times 400 is infinite in float16."""
    x = mx.nd.full((1, 1, 16, 16), 400, dtype="float16")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Pooling(x, pool_type=kind, p_value=2, **options)
    y.backward()
    got = y.asnumpy()
    assert got.dtype == np.float16
    width = options.get("kernel", (16,))[0]
    assert (got == (want or 400 * width)).all()
    if options.get("stride") is None:
        assert (x.grad.asnumpy() == (1 / 256 if want else 1 / 16)).all()


def test_a_norm_of_16_bits_has_32():
    """Of MXNet 1.9.1 and 2.0.0b1."""
    x = mx.nd.array([300, 400], dtype="float16")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.norm(x)
    y.backward()
    assert y.asnumpy().tolist() == [500] and abs(x.grad.asnumpy() - [0.6, 0.8]).max() < 1e-3
