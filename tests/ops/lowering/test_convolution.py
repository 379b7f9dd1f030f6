"""Convolutions of images of 16 bits on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core.compile import cpu_product
from mxjax.ops.lowering import convolution_forms as forms
from mxjax.ops.lowering.convolution import convolution
from mxjax.ops.lowering.convolution_plan import in_bfloat16

LAYOUTS = ["NCHW", "NHWC", "NCW", "NDHWC"]
SIZES = [(9, 3, 1), (8, 1, 2), (7, 5, 2), (1, 1, 1)]


@pytest.mark.parametrize(
    "dtype, layout, size, k, stride",
    [
        (("float16", "bfloat16")[(a + b) % 2], layout, *size)  # each pair of the three meets
        for a, layout in enumerate(LAYOUTS)
        for b, size in enumerate(SIZES)
    ],
)
def test_images_of_16_bits_are_convolved_in_float32_and_kept_as_they_are(
    dtype, layout, size, k, stride
):
    rng = np.random.RandomState(0)
    n = len(layout) - 2
    shapes = ((2, 16, *[size] * n), (8, 16, *[k] * n))
    if layout[-1] == "C":
        shapes = tuple((s[0], *s[2:], s[1]) for s in shapes)
    x, w, b = (rng.normal(size=s).astype(jnp.dtype(dtype)) for s in (*shapes, (8,)))

    def run(x, w, b):
        options = {"stride": (stride,) * n, "pad": (k // 2,) * n, "layout": layout}
        return convolution(x, w, b, **options)

    @jax.jit  # one program, instead of one for each of its primitives
    def both(*args):
        out, pull = jax.vjp(run, *args)
        return out, pull, pull(out)

    out, pull, grads = both(x, w, b)
    assert out.dtype == jnp.dtype(dtype)

    @jax.jit
    def exactly(head, *args):
        want, pull = jax.vjp(run, *args)
        return want, pull(head)

    want, want_grads = exactly(*(np.asarray(a, "float32") for a in (out, x, w, b)))
    for got, exact in zip((out, *grads), (want, *want_grads), strict=True):
        assert got.dtype == jnp.dtype(dtype)
        exact = np.asarray(exact)
        np.testing.assert_allclose(
            np.asarray(got, "float32"), exact, rtol=2**-8, atol=2**-9 * np.abs(exact).max()
        )
    kept = jax.tree_util.tree_leaves(pull)
    assert not [a for a in kept if a.dtype == jnp.float32 and a.ndim > 2]


# images, channels, size, filters, kernel, stride, padding, dilation: one pixel, odd sizes, pieces of the batch
NARROW = [
    (1, 32, (1, 1), 40, 1, 1, 0, 1),
    (3, 33, (7, 5), 35, 3, 2, 1, 1),
    (4, 32, (6, 9), 36, (3, 2), (1, 2), (2, 0), 2),
    (6, 128, (5, 4), 130, 3, 1, 1, 1),
    (2, 48, (8, 8), 32, 1, 2, 0, 1),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", NARROW)
def test_products_of_bfloat16_are_rounded_once(monkeypatch, layout, case):
    """On processors that have them: each pass is the exact numbers' sum in float32, rounded at the end."""
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: frozenset({"avx512_bf16"}))
    monkeypatch.setattr(forms, "PIECE_BYTES", 1)  # as few images at a time as the weight allows
    images, channels, size, filters, kernel, stride, pad, dilate = case
    kernel, stride, pad, dilate = (
        a if isinstance(a, tuple) else (a, a) for a in (kernel, stride, pad, dilate)
    )
    rng = np.random.RandomState(1)
    x, w = (
        rng.normal(size=s).astype(jnp.bfloat16)
        for s in ((images, channels, *size), (filters, channels, *kernel))
    )
    how = {"stride": stride, "pad": pad, "dilate": dilate}
    plan = in_bfloat16(
        x.dtype, (images, *size, channels), (filters, *kernel, channels), stride, dilate, pad
    )
    assert plan is not None and "narrow" in plan

    def turned(a):
        return a if layout == "NCHW" else jnp.moveaxis(a, 1, -1)

    def run(x, w):
        out = convolution(turned(x), turned(w), layout=layout, **how)
        return out if layout == "NCHW" else jnp.moveaxis(out, -1, 1)

    def definition(x, w):
        return jax.lax.conv_general_dilated(
            x, w, stride, [(p, p) for p in pad], rhs_dilation=dilate
        )

    def passes(fn, g, *operands):
        def all_of(g, *operands):
            out, pull = jax.vjp(fn, *operands)
            return out, *pull(g)

        return jax.jit(all_of)(g, *operands)

    g = rng.normal(size=jax.eval_shape(run, x, w).shape).astype(jnp.bfloat16)
    found = passes(run, g, x, w)
    with jax.enable_x64(True):
        wanted = passes(definition, *(np.asarray(a, "float64") for a in (g, x, w)))
    for got, expected in zip(found, map(np.asarray, wanted), strict=True):
        assert got.dtype == jnp.bfloat16 and got.shape == expected.shape
        # Half a unit in the last place, and what float32's sums differ by.
        np.testing.assert_allclose(
            np.asarray(got, "float64"), expected, rtol=2**-8, atol=1e-5 * abs(expected).max()
        )


def test_only_processors_with_such_products_take_them(monkeypatch):
    where = (2, 9, 9, 128), (128, 3, 3, 128), (2, 2), (1, 1), (1, 1)
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: frozenset({"avx512_bf16"}))
    plan = in_bfloat16(jnp.bfloat16, *where)
    assert plan is not None and set(plan) == {"narrow"}
    assert in_bfloat16(jnp.float16, *where) is None
    few = (2, 9, 9, 3), (128, 3, 3, 3)
    assert in_bfloat16(jnp.bfloat16, *few, *where[2:]) is None
    monkeypatch.setattr(cpu_product, "cpu_features", frozenset)
    assert in_bfloat16(jnp.bfloat16, *where) is None
