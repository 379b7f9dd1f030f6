"""Primitives that programs of a CPU compute in their own way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core.compile import compiler_options, cpu_code
from mxjax.core.compile.compiler_options import default_options

from ...codegen import of_users

special = pytest.importorskip("scipy.special")


def test_random_bits_are_those_of_jax():
    assert cpu_code.lowering()  # this JAX takes it
    key = jax.random.key(7)
    traced = jax.jit(lambda: jax.random.bits(key, (33,))).trace()
    made = traced.lower(**cpu_code.lowering()).compile()()
    np.testing.assert_array_equal(made, jax.random.bits(key, (33,)))


def test_the_inverse_of_the_error_function():
    x = np.concatenate(
        [np.linspace(-0.999999, 0.999999, 4001), [1e-30, -1e-7, 0, 1, -1, 1.5, np.nan]]
    )
    x = x.astype("float32")
    want = special.erfinv(x.astype("float64"))
    found = mx.npx.erfinv(mx.np.array(x)).asnumpy()
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=1e-37)
    np.testing.assert_array_equal(
        np.signbit(found[np.isfinite(want)]), np.signbit(want[np.isfinite(want)])
    )


EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0, -3.0]
ANGLES = {
    "float16": 2**-11,
    "bfloat16": 2**-8,
    "float32": 2**-22.5,
    "float64": 2**-51.5,
}  # relative errors


def points(n, dtype, seed=0):
    """Numbers of all sizes: a third each from the middle, up to 1, and of any exponent."""
    rng, info = np.random.RandomState(seed + n), jnp.finfo(dtype)
    most = min(np.log10(float(info.max)), 300)
    exponents = rng.uniform(np.log10(float(info.tiny)) / 2, most, n)
    drawn = np.stack(
        [rng.uniform(-4, 4, n), rng.uniform(-1, 1, n), rng.choice([-1, 1], n) * 10**exponents]
    )
    return drawn[np.arange(n) % 3, np.arange(n)].astype(dtype)


@pytest.mark.parametrize("dtype", ANGLES)
def test_arc_tangents_in_vectors_of_every_width(dtype):
    """Where XLA calls its own in 512 bits, every number from the 64th on is wrong (jaxlib 0.10.2 to 0.11)."""
    kind = jnp.dtype(dtype)
    xs = [points(n, kind) for n in (1, 7, 64, 67, 1003)]
    a, b = (v.ravel() for v in np.meshgrid(np.array(EDGES, kind), np.array(EDGES, kind)))
    pairs = [(x, points(x.size, kind, 5)) for x in xs] + [(a, b), (xs[3], np.ones_like(xs[3]))]

    def angles(xs, pairs):
        fixed = jnp.arctan2(
            pairs[3][0], jnp.ones(67, kind)
        )  # one operand is known to be 1: XLA's atan
        return [jnp.arctan(x) for x in xs], [jnp.arctan2(y, x) for y, x in pairs], fixed

    with jax.enable_x64(True):
        lowered = jax.jit(angles).trace(xs, pairs).lower(**cpu_code.lowering())
        options = of_users(default_options("cpu", features=frozenset({"avx512f"})))
        one, two, fixed = lowered.compile(compiler_options=options)(xs, pairs)
    wanted = [np.arctan(x.astype("float64")) for x in xs]
    wanted += [
        np.arctan2(y.astype("float64"), x.astype("float64"))
        for y, x in (*pairs, (pairs[3][0], np.ones(67)))
    ]
    for got, want in zip((*one, *two, fixed), wanted, strict=True):
        assert got.dtype == kind
        got, tiny = np.asarray(got).astype("float64"), float(jnp.finfo(kind).tiny)
        np.testing.assert_allclose(got, want, rtol=ANGLES[dtype], atol=2 * tiny)
        kept = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[kept]), np.signbit(want[kept]))


def test_logarithms_of_complex_numbers_keep_xlas_width():
    """XLA makes `atan2(y, 1)` of the logarithm of 1 + iy."""
    y = np.linspace(-3, 3, 67, dtype="float32")
    traced = jax.jit(lambda y: jnp.imag(jnp.log(jax.lax.complex(jnp.ones_like(y), y)))).trace(y)
    options = of_users(default_options("cpu", features=frozenset({"avx512f"})))
    compiler_options.leave_width(options, traced.jaxpr.jaxpr)
    found = traced.lower(**cpu_code.lowering()).compile(compiler_options=options)(y)
    np.testing.assert_allclose(found, np.arctan(y), rtol=1e-6)
