"""Windows as slices, and integer convolutions of them: bit by bit what XLA's integer convolution gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core import compiler
from mxjax.ops import TABLE
from mxjax.ops.lowering.patches import patches, whole_convolution

SHAPES = [  # image, filters, kernel, stride, dilate, pad, groups
    ((2, 3, 9), 4, (3,), (2,), (2,), (1,), 1),
    ((2, 4, 7, 6), 6, (3, 2), (1, 2), (1, 1), (1, 0), 1),
    ((1, 6, 6, 6), 9, (2, 3), (2, 1), (2, 1), (1, 2), 3),
    ((1, 4, 5, 5), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((1, 4, 4, 5, 3), 2, (2, 2, 2), (1, 1, 1), (1, 2, 1), (0, 1, 1), 2),
]


def whole(shape, dtype, seed=0):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize(
    ("shape", "filters", "kernel", "stride", "dilate", "pad", "groups"), SHAPES
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_elsewhere_are_those_of_cpus(
    shape, filters, kernel, stride, dilate, pad, groups, dtype
):
    x, w = whole(shape, dtype), whole((filters, shape[1] // groups, *kernel), "int8", 1)

    @jax.jit
    def both(x, w):
        given = x, w, stride, dilate, pad, groups
        return whole_convolution(*given, "cpu"), whole_convolution(*given, "gpu")

    here, there = both(x, w)
    assert here.dtype == there.dtype == jnp.int32
    np.testing.assert_array_equal(here, there)


def test_sums_that_float32_cannot_hold():
    x = np.full((1, 2048, 3, 3), -128, "int8")
    x[0, 0, 0, 0] = -127  # an odd sum above 2 ** 24
    w = np.full((1, 2048, 3, 3), -128, "int8")
    w[0, 0, 0, 0] = 127
    made = whole_convolution(jnp.asarray(x), jnp.asarray(w), (1, 1), (1, 1), (0, 0), 1, "gpu")
    assert made.ravel().tolist() == [128 * 128 * (2048 * 9 - 1) - 127 * 127]


def test_the_row_has_no_convolution_elsewhere():
    given = [jnp.asarray(whole(s, "int8")) for s in ((1, 4, 5, 5), (2, 4, 3, 3))]
    bounds = [jnp.ones(1, "float32") * b for b in (-1, 1, -1, 1)]

    def text(platform):
        def row(*a):
            return TABLE["quantized_conv"].fn(*a, kernel=(3, 3), num_filter=2, no_bias=True)

        with compiler.for_platform(platform):
            return str(jax.make_jaxpr(lambda *a: row(*a))(*given, *bounds))

    assert "conv_general_dilated" in text("cpu")
    assert "conv_general_dilated" not in text("gpu")


def test_windows_are_numpys():
    x = np.random.default_rng(2).normal(size=(2, 3, 6, 7)).astype("float32")
    made = patches(jnp.asarray(x), (2, 3), (2, 1), (1, 2), (1, 0))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (2, 5), (2, 3))[:, :, ::2, :, :, ::2]
    np.testing.assert_array_equal(made, np.moveaxis(views, (4, 5), (2, 3)).reshape(made.shape))


@pytest.mark.parametrize("dtype", ["int32", "int8"])
@pytest.mark.parametrize("layer", ["Convolution", "Deconvolution"])
def test_layers_of_floats_refuse_integers(layer, dtype):
    x, w = mx.nd.ones((1, 2, 4, 4), dtype=dtype), mx.nd.ones((2, 2, 2, 2), dtype=dtype)
    with pytest.raises(mx.base.MXNetError, match="only support floating point"):
        getattr(mx.nd, layer)(x, w, kernel=(2, 2), num_filter=2, no_bias=True).asnumpy()
