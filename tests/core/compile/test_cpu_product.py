"""Products over rows, which programs of a CPU make turned where XLA is faster so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.core.compile import cpu_code

BY_ROWS = (((0,), (0,)), ((), ()))


def drawn(*shape, dtype="float32", seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(dtype)


def program(a, b, **options):
    traced = jax.jit(lambda a, b: lax.dot_general(a, b, BY_ROWS, **options)).trace(a, b)
    return traced.lower(**cpu_code.lowering())


@pytest.mark.parametrize(
    "rows, m, n, turned",
    [
        (128, 64, 32, True),
        (700, 300, 20, True),
        (131, 65, 9, True),
        (127, 64, 32, False),  # too few rows for what turning costs
        (128, 63, 32, False),  # nearly square
        (128, 64, 7, False),
        (128, 600, 257, False),
        (128, 32, 64, False),
    ],
)
def test_which_products_are_turned_and_what_they_give(rows, m, n, turned):
    a, b = drawn(rows, m), drawn(rows, n, seed=1)
    made = program(a, b)
    assert ("stablehlo.transpose" in made.as_text()) is turned
    want = a.T.astype("float64") @ b.astype("float64")
    np.testing.assert_allclose(
        made.compile()(a, b), want, rtol=1e-5, atol=1e-5 * np.abs(want).max()
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
def test_other_dtypes_are_as_jax_has_them(dtype):
    with jax.enable_x64(True):
        a, b = (jnp.asarray(drawn(128, n)).astype(dtype) for n in (64, 16))
        assert "stablehlo.transpose" not in program(a, b).as_text()


def test_sums_of_another_dtype_are_as_jax_has_them():
    with jax.enable_x64(True):
        a, b = drawn(128, 64), drawn(128, 16, seed=1)
        made = program(a, b, preferred_element_type="float64")
        assert "stablehlo.transpose" not in made.as_text()
        want = a.T.astype("float64") @ b.astype("float64")
        np.testing.assert_allclose(made.compile()(a, b), want, rtol=1e-12, atol=1e-12)


def test_on_several_devices_nothing_is_gathered():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("d",))
    if mesh.size < 2:
        pytest.skip("needs two devices")
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "d"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    a, b = jax.device_put(drawn(128, 64), split), jax.device_put(drawn(128, 16, seed=1), whole)
    made = program(a, b).compile()
    assert "all-gather" not in made.as_text()
    np.testing.assert_allclose(made(a, b), np.asarray(a).T @ np.asarray(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients_of_a_wide_dense_layer(hybrid):
    x, w = drawn(130, 16), drawn(50, 16, seed=1)
    net = mx.gluon.nn.Dense(50, in_units=16)
    net.initialize()
    if hybrid:
        net.hybridize()
    net.weight.set_data(mx.np.array(w))
    data = mx.np.array(x)
    data.attach_grad()
    given = drawn(130, 50, seed=2)
    with mx.autograd.record():
        out = net(data)
    out.backward(mx.np.array(given))
    np.testing.assert_allclose(out.asnumpy(), x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(net.weight.grad().asnumpy(), given.T @ x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(data.grad.asnumpy(), given @ w, rtol=1e-4, atol=1e-4)
