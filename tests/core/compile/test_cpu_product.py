"""Products over rows, which programs of a CPU make turned where XLA is faster so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.core.compile import cpu_code, cpu_product

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
        (300, 64, 147, True),  # columns of the second fill no vectors: a first layer's patches
        (2048, 32, 27, True),
        (2048, 32, 49, False),
        (500, 32, 27, False),  # too few rows for that
        (300, 64, 160, False),
        (300, 64, 170, False),
        (300, 96, 147, False),
        (300, 147, 64, False),  # as it is turned to
        (300, 128, 32, True),
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


AVX2, AVX512 = frozenset({"avx2"}), frozenset({"avx2", "avx512f"})


@pytest.mark.parametrize(
    "rows, m, n, features, before",
    [
        (128, 128, 128, AVX2, True),
        (131, 256, 384, AVX2, True),
        (131, 512, 128, AVX2, True),  # elsewhere turned afterwards
        (127, 256, 256, AVX2, False),
        (131, 256, 200, AVX2, False),
        (131, 200, 256, AVX2, False),
        (131, 256, 64, AVX2, False),
        (131, 256, 256, AVX512, False),
        (131, 256, 256, frozenset(), False),
    ],
)
def test_which_products_have_their_first_matrix_turned_before(
    rows, m, n, features, before, monkeypatch
):
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: features)
    a, b = drawn(rows, m), drawn(rows, n, seed=1)
    made = program(a, b)
    assert (f"tensor<{m}x{rows}xf32>" in made.as_text()) is before
    want = a.T.astype("float64") @ b.astype("float64")
    np.testing.assert_allclose(
        made.compile()(a, b), want, rtol=1e-5, atol=1e-5 * np.abs(want).max()
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("features, columns", [(frozenset(), (64, 16)), (AVX2, (256, 128))])
def test_other_dtypes_are_as_jax_has_them(dtype, features, columns, monkeypatch):
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: features)
    with jax.enable_x64(True):
        a, b = (jnp.asarray(drawn(128, n)).astype(dtype) for n in columns)
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


PLAIN, BY_BOTH = (((1,), (0,)), ((), ())), (((1,), (1,)), ((), ()))
BATCHED = (((1,), (1,)), ((0,), (0,)))


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize(
    "a, b, dims, when",
    [
        ((64, 48), (48, 40), PLAIN, "widened"),
        ((64, 48), (40, 48), BY_BOTH, "widened"),
        ((8, 35, 64), (64, 20), (((2,), (0,)), ((), ())), "widened"),
        ((48, 64), (48, 40), BY_ROWS, "always"),
        ((4, 48, 32), (4, 48, 40), BATCHED, "always"),
        ((48, 64), (48, 15), BY_ROWS, "never"),  # too few columns for what laying it out costs
        ((8, 8), (8, 8), PLAIN, "never"),
        ((0, 64), (64, 5), PLAIN, "never"),
        ((64, 0), (0, 48), PLAIN, "never"),
    ],
)
def test_products_of_bfloat16_sum_in_float32_where_the_processor_has_them(
    a, b, dims, when, has, monkeypatch
):
    features = {"avx512_bf16"} if has else {"avx512f"}
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: frozenset(features))
    x, y = (jnp.asarray(drawn(*shape, seed=k)).astype("bfloat16") for k, shape in enumerate((a, b)))
    made = (
        jax.jit(lambda x, y: lax.dot_general(x, y, dims)).trace(x, y).lower(**cpu_code.lowering())
    )
    wide = has and (when == "always" or (when == "widened" and cpu_product._widens()))
    assert ("-> tensor<" in made.as_text() and "xf32>" in made.as_text()) is wide
    found = made.compile()(x, y)
    assert found.dtype == jnp.bfloat16
    want = np.asarray(
        lax.dot_general(x.astype("float32"), y.astype("float32"), dims, precision="highest")
    )
    # Half of the last of eight bits, and a little for the order of sums.
    np.testing.assert_allclose(
        found.astype("float32"), want, rtol=2**-8, atol=1e-5 * np.abs(want).max(initial=0)
    )


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_products_of_bfloat16_pass_on_what_is_no_number(number, monkeypatch):
    monkeypatch.setattr(cpu_product, "cpu_features", lambda: frozenset({"avx512_bf16"}))
    a, b = drawn(48, 64), drawn(48, 40, seed=1)
    a[3, 5] = number
    x, y = (jnp.asarray(k).astype("bfloat16") for k in (a, b))
    traced = jax.jit(lambda x, y: lax.dot_general(x, y, BY_ROWS)).trace(x, y)
    found = np.asarray(traced.lower(**cpu_code.lowering()).compile()(x, y).astype("float32"))
    with np.errstate(invalid="ignore"):
        want = np.asarray(x.astype("float32")).T @ np.asarray(y.astype("float32"))
    assert np.array_equal(np.isnan(found), np.isnan(want))
    assert np.array_equal(found[5][~np.isnan(want[5])], want[5][~np.isnan(want[5])])
    assert np.isfinite(np.delete(found, 5, 0)).all()
