"""Convolutions of quick programs, which libraries compute: what is asked of these, and the same numbers."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

from mxjax.core.compile.outline import ToLower
from mxjax.core.run import price
from mxjax.ops.lowering import convolution_forms as forms
from mxjax.ops.lowering.convolution_plan import Plan, Shape

# batch, image, kernel, stride, pad; which of value, image's gradient and weight's gradient are products of matrices:
# XLA exchanges an image and a larger kernel, and its library refuses what is left.
CASES = [
    ((8, 8), (3, 3), (1, 1), (1, 1), "lax lax lax"),
    ((8, 8), (3, 3), (2, 2), (1, 1), "lax lax lax"),
    ((4, 4), (3, 3), (2, 2), (1, 1), "lax cols cols"),
    ((2, 2), (3, 3), (1, 1), (1, 1), "cols cols cols"),
    ((8, 8), (3, 3), (1, 1), (2, 2), "lax lax cols"),
    ((12, 9), (5, 5), (1, 1), (0, 0), "lax lax lax"),
    ((6, 6), (5, 5), (1, 1), (0, 0), "lax cols cols"),
]


@pytest.mark.parametrize(("size", "kernel", "stride", "pad", "expected"), CASES)
def test_a_library_is_asked_but_for_kernels_as_large_as_their_image(
    size, kernel, stride, pad, expected
):
    shape = Shape(size, kernel, stride, (1, 1), pad, first=True)
    plan = forms._quick(Plan("cols", "cols", "cols"), shape)
    assert " ".join(plan) == expected

    draw = np.random.RandomState(0)
    x = draw.rand(2, *size, 24).astype("f")
    w = draw.rand(20, 24, *kernel).astype("f")
    value, left, right = forms.primitives()
    plain = Plan("lax", "lax", "lax")

    def all_three(x, w, plan):
        y = value.bind(x, w, plan=plan, shape=shape)
        return y, left.bind(y, w, plan=plan, shape=shape), right.bind(x, y, plan=plan, shape=shape)

    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, w)]
    traced = jax.jit(lambda x, w: all_three(x, w, Plan("cols", "cols", "cols"))).trace(*structs)
    lowered = ToLower(traced, structs, jax.devices("cpu")[0], quick=True).whole
    assert lowered.as_text().count("stablehlo.convolution") == expected.count("lax")
    compiled = lowered.compile(price.on("cpu").options)
    assert set(re.findall(r"dim_labels=(\w+)_\w+->", compiled.as_text())) <= {
        "b01f"
    }  # of others no library is asked
    found = compiled(x, w)
    with jax.default_matmul_precision("float32"):
        for a, b in zip(found, jax.jit(lambda x, w: all_three(x, w, plain))(x, w), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5)


@pytest.mark.parametrize(
    "shape",
    [
        Shape((8, 8), (1, 1), (1, 1), (1, 1), (0, 0)),
        Shape((8, 8), (3, 3), (1, 1), (1, 1), (1, 1), groups=4),
        Shape((8, 8), (3, 3), (1, 1), (1, 1), (1, 1), lean=True),
    ],
)
def test_products_of_matrices_groups_and_little_memory_keep_their_plan(shape):
    plan = Plan("cols", "shifts", "blocks")
    assert forms._quick(plan, shape) is plan
