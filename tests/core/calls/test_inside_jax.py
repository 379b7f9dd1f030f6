"""mxjax functions inside JAX's transformations, JAX's inside mxjax, and JAX's flags left alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as onp

import mxjax as mx


def f(x):
    a = mx.np.from_jax(x)
    return (mx.np.exp(a) * a + a**2).jax


def test_inside_jit_grad_and_vmap():
    x = jnp.array([0.5, 1.0, 2.0])
    want = onp.exp(x) * x + x**2
    onp.testing.assert_allclose(jax.jit(f)(x), want, rtol=1e-6)
    slope = jax.grad(lambda x: f(x).sum())(x)
    onp.testing.assert_allclose(slope, onp.exp(x) * (x + 1) + 2 * x, rtol=1e-6)
    onp.testing.assert_allclose(jax.vmap(f)(jnp.stack([x, x])), onp.stack([want, want]), rtol=1e-6)


def test_values_recorded_outside_do_not_leak_into_a_trace():
    y = mx.np.array([1.0, 2.0]) * 3.0  # pending

    def g(x):
        return x + y.jax  # runs while g is traced

    onp.testing.assert_array_equal(jax.jit(g)(jnp.zeros(2)), [3.0, 6.0])
    assert isinstance(y.jax, jax.Array) and not isinstance(y.jax, jax.core.Tracer)
    onp.testing.assert_array_equal((y + 1.0).asnumpy(), [4.0, 7.0])


def test_calls_without_tracers_inside_a_trace_are_ordinary():
    made = []

    def g(x):
        z = mx.np.array([1.0, 2.0]) * 2.0
        made.append(z)
        return (mx.np.from_jax(x) * z).jax

    onp.testing.assert_array_equal(jax.jit(g)(jnp.ones(2)), [2.0, 4.0])
    onp.testing.assert_array_equal(made[0].asnumpy(), [2.0, 4.0])


def test_jax_functions_inside():
    x = mx.np.array([1.0, 2.0])
    y = mx.np.from_jax(jnp.sin(x.jax)) + 1.0
    onp.testing.assert_allclose(y.asnumpy(), onp.sin([1.0, 2.0]) + 1, rtol=1e-6)


def test_64_bit_types_without_the_global_flag():
    assert not jax.config.jax_enable_x64
    x = mx.np.array([1.0, 2.0], dtype="float64")
    y = x / 3.0
    assert y.dtype == onp.float64
    onp.testing.assert_array_equal(y.asnumpy(), onp.array([1.0, 2.0]) / 3.0)
    n = mx.np.array([2**40], dtype="int64") + 1
    assert n.item() == 2**40 + 1
    assert not jax.config.jax_enable_x64


def test_dynamic_numbers_keep_64_bits():
    x = mx.np.array([0.0], dtype="float64")
    n = mx.np.array([0], dtype="int64")
    for k in range(8):
        v = 1.0 / (k + 3)
        assert (x + v).item() == v
        assert (n + (2**40 + k)).item() == 2**40 + k


def test_buffers_of_jax_are_never_overwritten():
    a = jnp.arange(4.0)
    x = mx.np.from_jax(a)
    x += 1.0
    x.wait_to_read()
    x += 1.0
    held = x.jax
    x += 1.0
    x.wait_to_read()
    onp.testing.assert_array_equal(a, [0.0, 1.0, 2.0, 3.0])
    onp.testing.assert_array_equal(held, [2.0, 3.0, 4.0, 5.0])
    onp.testing.assert_array_equal(x.asnumpy(), [3.0, 4.0, 5.0, 6.0])
