"""Element-wise code on arrays of short rows, in programs of a CPU."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core.compile import cpu_code, cpu_narrow

OPERATORS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv")},
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "maximum": None,
    "minimum": None,
}


def of(name, module):
    return OPERATORS[name] or getattr(module, name)


def special(shape, dtype, seed):
    """Any numbers, some of them the ones that arithmetic has rules of their own for; no two arrays are alike."""
    rng = np.random.RandomState(seed)
    if np.dtype(dtype).kind == "i":
        return rng.randint(-5, 6, shape).astype(dtype)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e9, 1.0, -1.0]
    return np.where(
        rng.uniform(size=shape) < 0.3,
        rng.choice(np.array(numbers, dtype), shape),
        rng.normal(size=shape).clip(0.1, 9).astype(dtype),  # XLA makes 0 of what is denormal
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1500, 3), (32, 16, 3, 3), (700, 7)])
@pytest.mark.parametrize("name", OPERATORS)
def test_programs_give_the_same_bits(name, shape, dtype):
    a, b = special(shape, dtype, 0), special(shape, dtype, 1)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        traced = jax.jit(of(name, jnp)).trace(a, b)
        got = np.asarray(traced.lower(**cpu_code.lowering()).compile()(a, b))
        want = of(name, np)(a, b)
        if name == "truediv":
            want = want.astype(got.dtype)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        sure = ~np.isnan(want) & ~((a == b) & (a == 0))  # of 0 and -0 either is the larger one
        np.testing.assert_array_equal(np.signbit(got)[sure], np.signbit(want)[sure])


@pytest.mark.skipif(not cpu_narrow.goes_by_rows(), reason="jaxlib 0.12 has no such code generator")
@pytest.mark.parametrize(
    "shape, narrow",
    [
        ((1366, 3), True),
        ((512, 2, 3, 3), True),
        ((64, 1, 112), True),
        ((1365, 3), False),  # too small
        ((4096, 4), False),  # a vector's length
        ((4096, 1), False),
        ((64, 128), False),
        ((64, 129), False),
        ((5000,), False),
    ],
)
def test_which_arrays_are_taken_with_a_scalar(shape, narrow):
    x = np.ones(shape, "float32")
    text = jax.jit(jnp.add).trace(x, x).lower(**cpu_code.lowering()).as_text()
    assert ("optimization_barrier" in text) is narrow
    quick = jax.jit(jnp.add).trace(x, x).lower(**cpu_code.lowering(quick=True)).as_text()
    assert "optimization_barrier" not in quick


@pytest.mark.skipif(not cpu_narrow.goes_by_rows(), reason="jaxlib 0.12 has no such code generator")
def test_the_loop_that_is_compiled_reads_a_scalar():
    """Were it simplified away, XLA would take the loop by rows again."""
    x = np.ones((1500, 3), "float32")
    traced = jax.jit(lambda a, b: (a + b, a < b)).trace(x, x)
    options = mx.core.compile.compiler.options_for(jax.devices("cpu")[0], ())
    text = traced.lower(**cpu_code.lowering()).compile(options).as_text()
    assert text.count("f32[] constant(1)") >= 1
    assert text.count("multiply(") >= 1


def test_updates_of_narrow_weights_are_numpys():
    """SGD with momentum on a weight of (O, C, 3, 3), three steps."""
    rng = np.random.RandomState(4)
    w = rng.normal(size=(40, 16, 3, 3)).astype("float32")
    weight, state = mx.np.array(w), None
    rule = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.01)
    state = rule.create_state(0, weight)
    momentum = np.zeros_like(w, "float64")
    want = w.astype("float64")
    for _ in range(3):
        g = rng.normal(size=w.shape).astype("float32")
        rule.update([0], [weight], [mx.np.array(g)], [state])
        momentum = 0.9 * momentum - 0.1 * (g + 0.01 * want)
        want = want + momentum
    np.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-5, atol=1e-6)
