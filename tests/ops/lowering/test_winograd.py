"""Winograd's algorithm for kernels of 3x3: every pass and derivative, where it is chosen, what it takes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mxjax.core.compile.compiler_options import default_options
from mxjax.ops.lowering import winograd
from mxjax.ops.lowering.convolution import convolution
from mxjax.ops.lowering.convolution_forms import primitives
from mxjax.ops.lowering.convolution_plan import PLAIN, Plan, Shape, choose

WINOGRAD = Plan("winograd", "winograd", "winograd")
RNG = np.random.default_rng(5)


def normal(*shape, dtype="float64"):
    return jax.device_put(RNG.normal(size=shape).astype(dtype))


def reference(x, w, pad):
    return lax.conv_general_dilated(x, w, (1, 1), [(p, p) for p in pad])


def turned(layout, *arrays):
    return arrays if layout == "NCHW" else tuple(jnp.moveaxis(a, 1, -1) for a in arrays)


def ours(x, w, pad, layout="NCHW", plan=WINOGRAD):
    out = convolution(*turned(layout, x, w), pad=pad, layout=layout, plan=plan)
    return out if layout == "NCHW" else jnp.moveaxis(out, -1, 1)


# images, size, padding, bytes of a piece: whole, image by image, bands of rows that do not come out even.
CASES = [
    (3, (8, 9), (1, 1), 1 << 20, "NCHW"),
    (1, (1, 1), (1, 1), 1 << 20, "NHWC"),
    (3, (5, 4), (0, 0), 1 << 11, "NHWC"),
    (2, (11, 3), (0, 2), 1, "NCHW"),
    (5, (4, 6), (2, 1), 1 << 13, "NCHW"),
    (2, (3, 3), (0, 0), 1, "NHWC"),
]


@pytest.mark.parametrize("images,size,pad,piece,layout", CASES)
def test_every_pass_and_derivative_equals_the_definition(
    monkeypatch, images, size, pad, piece, layout
):
    monkeypatch.setattr(winograd, "PIECE_BYTES", piece)
    monkeypatch.setattr(winograd, "cores", lambda: 1)
    with jax.enable_x64(True):
        x, w = normal(images, 5, *size), normal(7, 5, 3, 3)

        def passes(f):
            def loss(x, w):
                return jnp.sin(f(x, w)).sum()

            def second(x, w):
                return sum((g * g).sum() for g in jax.grad(loss, (0, 1))(x, w))

            return f(x, w), jax.grad(loss, (0, 1))(x, w), jax.grad(second, (0, 1))(x, w)

        found = jax.jit(lambda: passes(lambda x, w: ours(x, w, pad, layout)))()
        expected = jax.jit(lambda: passes(lambda x, w: reference(x, w, pad)))()
        for got, want in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
            largest = np.abs(want).max()
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11 * largest)


def test_single_precision_agrees_to_five_digits_and_small_integers_are_exact():
    """Of images that are all positive, as behind a relu, and of long sums."""
    for dtype, draw in (
        ("float32", RNG.random),
        ("integers", lambda size: RNG.integers(-3, 4, size)),
    ):
        x, w, g = (
            draw(size=s).astype("float32")
            for s in [(4, 64, 21, 22), (65, 64, 3, 3), (4, 65, 21, 22)]
        )
        out, pull = jax.vjp(lambda x, w: ours(x, w, (1, 1)), x, w)
        with jax.enable_x64(True):
            wide = (jnp.asarray(a, "float64") for a in (x, w, g))
            expected, exact = jax.vjp(
                lambda x, w: reference(x, w, (1, 1)), *(next(wide), next(wide))
            )
            expected = [np.asarray(a) for a in (expected, *exact(next(wide)))]
        for got, want in zip(map(np.asarray, (out, *pull(g))), expected, strict=True):
            most = 1e-5 * abs(want).max() if dtype == "float32" else 0
            assert (
                got.dtype == "float32" and want.dtype == "float64" and abs(got - want).max() <= most
            )


def test_it_is_chosen_where_it_is_faster(monkeypatch):
    monkeypatch.setattr("mxjax.ops.lowering.measured.times", lambda *_: None)  # by the rules alone

    def form(
        x,
        channels_and_filters=(64, 64),
        kernel=3,
        stride=1,
        dilate=1,
        pad=1,
        dtype="float32",
        **how,
    ):
        channels, filters = channels_and_filters
        where = (stride, stride), (dilate, dilate), (pad, pad)
        return tuple(
            choose("cpu", dtype, (*x, channels), (filters, kernel, kernel, channels), *where, **how)
        )

    assert form((8, 56, 56)) == WINOGRAD
    assert form((1, 14, 14), (256, 256)) == WINOGRAD
    for other in (
        form((8, 56, 56), kernel=5),
        form((8, 56, 56), stride=2),
        form((8, 56, 56), dilate=2),
        form((8, 56, 56), pad=3),
        form((8, 56, 56), (32, 32)),
        form((8, 56, 56), dtype="float64"),
        form((8, 56, 56), lean=True),  # the sums of tiles are four times the image
        form((8, 3, 3)),  # of the tiles half lies outside
        form((1, 7, 7), (512, 512)),  # the filters' sums are more than the image's
    ):
        assert "winograd" not in other
    assert (
        choose("gpu", "float32", (8, 56, 56, 64), (64, 3, 3, 64), (1, 1), (1, 1), (1, 1)) == PLAIN
    )


@pytest.mark.parametrize(("count", "most"), [(1, 3.4), (2, 4)])
def test_an_image_larger_than_a_piece_takes_little_more_than_padding_it(monkeypatch, count, most):
    monkeypatch.setattr(winograd, "cores", lambda: count)
    x, w = (
        jax.ShapeDtypeStruct((4, 96, 96, 64), "float32"),
        jax.ShapeDtypeStruct((64, 64, 3, 3), "float32"),
    )
    shape = Shape((96, 96), (3, 3), (1, 1), (1, 1), (1, 1), True)

    def passes(x, w):
        value, image, weight = primitives()
        out = value.bind(x, w, plan=WINOGRAD, shape=shape)
        return (
            out,
            image.bind(out, w, plan=WINOGRAD, shape=shape),
            weight.bind(x, out, plan=WINOGRAD, shape=shape),
        )

    memory = jax.jit(passes).lower(x, w).compile(default_options("cpu")).memory_analysis()
    image = x.size * 4
    assert memory.temp_size_in_bytes <= most * image


@pytest.mark.parametrize("images", [2, 251])
def test_programs_do_not_grow_with_the_images(images):
    x, w = (
        jax.ShapeDtypeStruct((images, 64, 28, 28), "float32"),
        jax.ShapeDtypeStruct((64, 64, 3, 3), "float32"),
    )

    def loss(x, w):
        return (ours(x, w, (1, 1)) ** 2).sum()

    text = jax.jit(jax.grad(loss, (0, 1))).lower(x, w).as_text()
    assert (
        text.count("stablehlo.dot_general") <= 3 * 2 + 1
    )  # sums, and filters; the gradient's first piece by itself
