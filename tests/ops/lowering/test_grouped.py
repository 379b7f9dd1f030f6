"""Convolutions in groups, of volumes, and transposed ones: every form against XLA's own convolution."""

from __future__ import annotations

import re
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads

from mxjax.core import compiler
from mxjax.ops import nn
from mxjax.ops.lowering import convolution_plan as module
from mxjax.ops.lowering import grouped
from mxjax.ops.lowering.convolution import convolution
from mxjax.ops.lowering.convolution_plan import PLAIN, blocks_in, choose

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def normal(*shape, dtype="float64"):
    return jax.device_put(RNG.normal(size=shape).astype(jnp.dtype(dtype)))  # compiles nothing


def same(ours, theirs, *args, rtol=1e-10):
    """Values and gradients."""

    def both(fn):
        def run(head, *args):
            out, pull = jax.vjp(fn, *args)
            return out, pull(head.astype(out.dtype))

        return jax.jit(run)  # not eagerly: each primitive would be a program

    head = normal(*jax.eval_shape(theirs, *args).shape)
    found, expected = (jax.tree_util.tree_leaves(both(f)(head, *args)) for f in (ours, theirs))
    for got, want in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert got.shape == want.shape
        got, want = got.astype("f8"), want.astype("f8")
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * float(abs(want).max()))


# groups, channels, filters: one channel for each filter; two filters for each channel; blocks; several of them
GROUPS = [(6, 6, 6), (3, 3, 6), (2, 4, 6), (4, 64, 128)]
WINDOWS = [
    ((3, 3), (1, 1), (1, 1), (1, 1), (7, 9)),
    ((3, 2), (2, 3), (1, 1), (0, 1), (8, 9)),
    ((2, 3), (1, 2), (2, 1), (3, 0), (5, 6)),
    ((1, 1), (2, 2), (1, 1), (0, 0), (5, 4)),
    ((1, 1), (1, 1), (1, 1), (1, 2), (1, 1)),  # one pixel, and zeros around it
]


def every_other(*choices):
    """The combinations; those with the slow tests whose places add up to an odd number."""
    for combination in product(*map(enumerate, choices)):
        odd = sum(place for place, _ in combination) % 2
        values = [value for _, value in combination]
        yield pytest.param(*values, marks=[pytest.mark.slow] if odd else [])


@pytest.mark.parametrize(("sizes", "window"), every_other(GROUPS, WINDOWS))
def test_groups_equal_lax(sizes, window):
    groups, channels, filters = sizes
    kernel, stride, dilate, pad, size = window
    # Each number of groups meets both layouts.
    layout = "NHWC" if WINDOWS.index(window) // 2 % 2 else "NCHW"
    x, w = normal(3, channels, *size), normal(filters, channels // groups, *kernel)

    def turned(a):
        return a if layout == "NCHW" else jnp.moveaxis(a, 1, -1)

    def ours(x, w):
        how = {
            "stride": stride,
            "dilate": dilate,
            "pad": pad,
            "num_group": groups,
            "layout": layout,
        }
        return convolution(turned(x), turned(w), **how)

    def theirs(x, w):
        pads = [(p, p) for p in pad]
        return turned(
            lax.conv_general_dilated(
                x, w, stride, pads, rhs_dilation=dilate, feature_group_count=groups
            )
        )

    same(ours, theirs, x, w)
    assert (
        "feature_group_count=1" in (text := str(jax.make_jaxpr(ours)(x, w)))
        or "conv_general_dilated" not in text
    )


@pytest.mark.parametrize("dtype,rtol", [("float32", 1e-5), ("float16", 2e-3), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("groups,channels,filters", [(6, 6, 6), (2, 4, 6)])
def test_groups_of_every_dtype(groups, channels, filters, dtype, rtol):
    """Sums are rounded once: the result is that of float64 but for the dtype's own precision."""
    x, w = (
        normal(*s, dtype=dtype) for s in [(2, channels, 6, 5), (filters, channels // groups, 3, 3)]
    )

    def ours(x, w):
        out = convolution(x, w, pad=(1, 1), num_group=groups)
        assert out.dtype == dtype
        return out

    def theirs(x, w):
        x, w = x.astype("float64"), w.astype("float64")
        return lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2, feature_group_count=groups)

    same(ours, theirs, x, w, rtol=rtol)


@pytest.mark.parametrize("groups", [4, 2])
def test_groups_have_derivatives_of_any_order_and_samples_of_their_own(groups):
    x, w = normal(2, 4, 4, 5), normal(4, 4 // groups, 2, 2)

    @jax.jit
    def fn(x, w):
        return jnp.sin(convolution(x, w, stride=(2, 1), num_group=groups))

    check_grads(fn, (x, w), order=2, modes=["fwd", "rev"])
    many = np.stack([x, 2 * np.asarray(x)])
    each = np.stack([fn(one, w) for one in many])
    np.testing.assert_allclose(jax.jit(jax.vmap(fn, (0, None)))(many, w), each, rtol=1e-10)


@pytest.mark.parametrize(
    "size,stride,dilate,pad", [((32, 32), 1, 1, 1), ((5, 16), 1, 1, 0), ((17, 33), 2, 2, 1)]
)
def test_blocks_of_sixteen_channels_equal_lax(monkeypatch, size, stride, dilate, pad):
    """Where there is a form for so narrow ones."""
    monkeypatch.setattr(module, "convolves_in_one_thread", lambda: False)
    monkeypatch.setattr(module, "cores", lambda: 1)
    x, w = normal(2, 32, *size, dtype="float32"), normal(32, 16, 3, 3, dtype="float32")
    how = {"stride": (stride,) * 2, "dilate": (dilate,) * 2, "pad": (pad,) * 2}

    def ours(x, w):
        return convolution(x, w, num_group=2, **how)

    def theirs(x, w):
        pads = [(pad, pad)] * 2
        return lax.conv_general_dilated(
            x, w, (stride,) * 2, pads, rhs_dilation=(dilate,) * 2, feature_group_count=2
        )

    same(ours, theirs, x, w, rtol=1e-5)
    if size == (32, 32):
        assert jax.jit(ours).lower(x, w).as_text().count("stablehlo.convolution") == 2


def test_a_group_s_nan_stays_with_its_channel():
    x, w = normal(1, 3, 5, 5).at[0, 1, 2, 2].set(jnp.nan), normal(3, 1, 3, 3)
    out = convolution(x, w, num_group=3)
    assert np.isnan(out[:, 1]).any()
    assert np.isfinite(out[:, ::2]).all()


def test_only_a_cpu_takes_groups_apart():
    shapes = (8, 14, 14, 32), (32, 3, 3, 1), (1, 1), (1, 1), (1, 1), 32
    assert choose("gpu", "float32", *shapes) == choose("tpu", "bfloat16", *shapes) == PLAIN
    assert set(choose("cpu", "float32", *shapes)) == {"shifts"}
    few = choose("cpu", "float32", (8, 14, 14, 32), (32, 3, 3, 2), *shapes[2:5], 16)
    assert all(blocks_in(form) in (1, 2, 4, 8) for form in few)
    assert blocks_in("shifts") == blocks_in("lax") == 0


VOLUMES = [
    ((3, 3, 2), (1, 1, 1), (1, 1, 1), (1, 2, 0)),
    ((2, 1, 3), (2, 1, 3), (2, 1, 1), (0, 1, 1)),
]


@pytest.mark.parametrize(
    ("layout", "window", "sizes"),
    every_other(["NCDHW", "NDHWC"], VOLUMES, [(1, 3, 4), (3, 3, 3), (2, 4, 2)]),
)
def test_volumes_equal_lax(layout, window, sizes):
    (kernel, stride, dilate, pad), (groups, channels, filters) = window, sizes
    x, w, b = (
        normal(2, channels, 7, 6, 5),
        normal(filters, channels // groups, *kernel),
        normal(filters),
    )

    def turned(a):
        return a if layout == "NCDHW" else jnp.moveaxis(a, 1, -1)

    def ours(x, w, b):
        how = {
            "stride": stride,
            "dilate": dilate,
            "pad": pad,
            "num_group": groups,
            "layout": layout,
        }
        return convolution(turned(x), turned(w), b, **how)

    def theirs(x, w, b):
        pads = [(p, p) for p in pad]
        out = lax.conv_general_dilated(
            x, w, stride, pads, rhs_dilation=dilate, feature_group_count=groups
        )
        return turned(out + b[:, None, None, None])

    same(ours, theirs, x, w, b)


def test_a_volume_s_gradient_has_no_convolution_of_three_dimensions():
    """XLA has none for the weight's gradient but loops over single numbers: minutes for a few small volumes."""
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(2, 8, 16, 32, 32), (8, 8, 3, 3, 3)])

    def step(x, w):
        return jax.grad(lambda x, w: (convolution(x, w, pad=(1, 1, 1)) ** 2).sum(), (0, 1))(x, w)

    text = jax.jit(step).lower(x, w).as_text()
    assert "stablehlo.convolution" in text
    assert not re.search(r"dim_numbers = \[b, 0, 1, 2", text)


TRANSPOSED = [
    (1, (4, 4), 2, 1, 1, 0),
    (2, (3, 2), 3, 1, 0, 1),
    (4, (3, 3), 2, 2, 2, 1),
    (1, (3,), 2, 1, 1, 1),
    (1, (2, 3, 2), 2, 1, 0, 0),
    (1, (2, 2), 1, 1, 0, 1),
]


@pytest.mark.parametrize(("layout", "case"), every_other([None, "last"], TRANSPOSED))
def test_transposed_convolutions_equal_those_of_zeros_between_pixels(layout, case):
    """The last has a row more than any convolution reaches, and stays as it is."""
    groups, kernel, stride, dilate, pad, adj = case
    n = len(kernel)
    x, w, b = normal(2, 4, *(4, 3, 3)[:n]), normal(4, 4 // groups, *kernel), normal(4)
    how = {
        k: (v,) * n for k, v in {"stride": stride, "dilate": dilate, "pad": pad, "adj": adj}.items()
    }

    def run(x, w, b):
        turn, order = (
            (lambda a: jnp.moveaxis(a, 1, -1)) if layout else (lambda a: a),
            {1: "NWC", 2: "NHWC", 3: "NDHWC"},
        )
        return nn.deconvolution(
            turn(x), turn(w), b, kernel=kernel, num_filter=4, num_group=groups, layout=order[n] if layout else None,
            no_bias=False, **how,
        )  # fmt: skip

    def theirs(x, w, b):
        with compiler.for_platform("gpu"):
            return run(x, w, b)

    def ours(x, w, b):
        with compiler.for_platform("cpu"):
            return run(x, w, b)

    same(ours, theirs, x, w, b)


@pytest.mark.parametrize(
    "kernel, stride, dilate, pad, size",
    [
        ((3, 3), (1, 1), (1, 1), (1, 1), (13, 5)),  # two bands of seven rows: one is in both
        (
            (3, 3),
            (1, 1),
            (1, 1),
            (0, 2),
            (27, 4),
        ),  # four, of which the last two overlap by three rows
        ((3, 2), (2, 3), (2, 1), (2, 0), (37, 10)),
        ((5, 5), (1, 1), (1, 1), (2, 2), (11, 6)),  # bands of four rows
        ((1, 11), (1, 1), (1, 1), (0, 5), (1, 17)),
        ((7, 7), (1, 1), (1, 1), (3, 3), (5, 4)),
    ],
)
@pytest.mark.parametrize("cores", [1, 16])
def test_depthwise_convolutions_by_bands(kernel, stride, dilate, pad, size, cores, monkeypatch):
    """Each row counts once; by NumPy, from the definition."""
    monkeypatch.setattr(grouped, "cores", lambda: cores)
    x, w = normal(2, 6, *size), normal(6, 1, *kernel)
    how = {"stride": stride, "dilate": dilate, "pad": pad, "num_group": 6}
    out, pull = jax.vjp(lambda x, w: convolution(x, w, **how), x, w)
    g = np.asarray(normal(*out.shape))
    padded, taps = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in pad))), np.asarray(w)[:, 0]
    value, image, weight = np.zeros(out.shape), np.zeros(padded.shape), np.zeros(w.shape)
    for i, j in np.ndindex(*kernel):
        down, across = (
            slice(at * d, at * d + (n - 1) * s + 1, s)
            for at, d, n, s in zip((i, j), dilate, out.shape[2:], stride, strict=True)
        )
        tap = taps[:, i, j][:, None, None]
        value += padded[:, :, down, across] * tap
        image[:, :, down, across] += g * tap
        weight[:, 0, i, j] = (padded[:, :, down, across] * g).sum((0, 2, 3))
    inner = tuple(slice(p, p + n) for p, n in zip(pad, size, strict=True))
    for got, want in zip((out, *pull(g)), (value, image[:, :, *inner], weight), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * abs(want).max())


def test_a_row_of_two_bands_is_not_multiplied_by_zero_where_it_is_infinite():
    x = np.zeros((1, 1, 13, 3))
    x[0, 0, 6, 1] = np.inf  # the row that both bands have
    w = normal(1, 1, 1, 1)
    x = jnp.tile(jnp.asarray(x), (1, 4, 1, 1))
    _, pull = jax.vjp(lambda w: convolution(x, w, num_group=4), jnp.tile(w, (4, 1, 1, 1)))
    g = np.ones((1, 4, 13, 3))
    g[:, :, :, [0, 2]] = 0  # their pixels are finite
    np.testing.assert_array_equal(pull(jnp.asarray(g))[0].ravel(), np.full(4, np.inf))
