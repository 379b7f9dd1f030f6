"""Maxima and minima that keep NaN in programs of a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core.compile import cpu_code, cpu_nan
from mxjax.core.interpret.numpy_code import Code


def lost(*args):
    """The lines of `keeps_nan.py`, under the code generator that users have."""
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    root = Path(__file__).parents[3]
    env["PYTHONPATH"] = str(root)
    script = [sys.executable, str(Path(__file__).with_name("keeps_nan.py")), *args]
    return subprocess.run(
        script, env=env, cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\n")


def test_programs_keep_nan():
    assert lost() == ["done", ""]


@pytest.mark.slow  # half a minute of compiling
def test_programs_of_more_shapes_keep_nan():
    assert lost("all") == ["done", ""]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_largest_number_that_is_only_subtracted(dtype):
    """Programs and NumPy alike."""
    x = np.random.RandomState(3).uniform(-9, 9, (3, 50)).astype(dtype)
    with jax.enable_x64(True):
        traced = jax.jit(lambda x: cpu_nan.without_nan(x, (1,))).trace(x)
        np.testing.assert_array_equal(traced.lower(**cpu_code.lowering()).compile()(x), x.max(1))
    np.testing.assert_array_equal(Code(traced.jaxpr).fn((), x)[0], x.max(1))


@pytest.mark.parametrize(
    "platform", ["cpu", "cuda"]
)  # what other platforms are given works here, too
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_product_with_false_keeps_nan_infinity_and_sign(dtype, platform):
    x = np.array([np.nan, np.inf, -np.inf, -2.0, 3.0, np.nan]).astype(jnp.dtype(dtype))
    mask = np.array([False, False, False, False, True, True])
    with jax.enable_x64(True):
        traced = jax.jit(lambda mask, x: (mask.astype(dtype) * x, mask * x, (x > 1) * x)).trace(
            mask, x
        )
        got = traced.lower(**cpu_code.lowering(platform)).compile()(mask, x)
    wide = x.astype("float64")
    with np.errstate(invalid="ignore"):
        expected = mask * wide, mask * wide, (wide > 1) * wide
    for made, want in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(made, "float64"), want)
        np.testing.assert_array_equal(
            np.signbit(made)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)]
        )


def test_a_comparison_with_zeros_and_infinities():
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, np.nan], "float32")
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    traced = jax.jit(
        lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -0.5, y))
    ).trace(x, y)
    got = traced.lower(**cpu_code.lowering()).compile()(x, y)
    expected = np.maximum(x, y), np.minimum(x, y), np.minimum(np.maximum(x, np.float32(-0.5)), y)
    for g, want in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, want)
