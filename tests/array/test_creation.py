"""Arrays from other objects: dtypes, devices, what is refused."""

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx


@pytest.mark.parametrize(
    "given", [[1, 2], (1, 2), range(1, 3), onp.array([1, 2]), onp.array([1, 2], "u1")]
)
def test_float32_by_default(given):
    for make, cls in ((mx.np.array, mx.np.ndarray), (mx.nd.array, mx.nd.NDArray)):
        x = make(given)
        assert type(x) is cls and x.dtype == onp.float32
        assert x.asnumpy().tolist() == [1, 2]
        assert make(given, dtype="int8").dtype == onp.int8


def test_dtypes_that_stay():
    assert mx.np.array(mx.np.array([1], dtype="int8")).dtype == "int8"
    assert mx.nd.array(mx.nd.array([1], dtype="int8")).dtype is onp.int8
    assert mx.np.array(onp.float64(1)).dtype == "float64"
    assert mx.np.array(jnp.array([1], "int8")).dtype == "int8"
    assert mx.np.array([1, 2], dtype=float).dtype == "float32"
    assert mx.np.array([1, 2], dtype=int).dtype == "int64"
    assert mx.np.array([1, 0], dtype=bool).dtype == "bool"
    assert mx.np.array([1.5], dtype="bfloat16").dtype.name == "bfloat16"


def test_large_integers_and_doubles_keep_their_bits():
    assert mx.np.array([2**60 + 1], dtype="int64").item() == 2**60 + 1
    assert mx.np.array(onp.array([1.1]), dtype="float64").item() == 1.1
    assert (mx.np.array([2**60], dtype="int64") + 1).item() == 2**60 + 1


def test_the_default_can_be_float64():
    mx.npx.set_np(dtype=True)
    try:
        x = mx.np.array([1, 2])
        assert x.dtype == "float64" and repr(x) == "array([1., 2.])"
        assert repr(mx.np.array([1.0], dtype="float32")) == "array([1.], dtype=float32)"
        for dtype in ("float16", "float32", "int8", "int64", "bool"):  # as in MXNet 2.0.0b1
            assert mx.np.array(onp.ones(2, dtype)).dtype == dtype
            assert mx.np.array([onp.ones(2, dtype)]).dtype == "float64"
        assert mx.np.tri(2).dtype == "float32"
    finally:
        mx.npx.reset_np()
    assert mx.np.array([1]).dtype == "float32"


def test_nested():
    x = mx.np.array([1.0, 2.0])
    assert mx.np.array([x, [3, 4]]).asnumpy().tolist() == [[1, 2], [3, 4]]
    assert mx.np.array([[x[0], 5], onp.ones(2)]).asnumpy().tolist() == [[1, 5], [1, 1]]


@pytest.mark.parametrize("wrong", ["abc", {1}, [[1], [1, 2]], [1j], object(), ["a"]])
def test_what_is_no_array(wrong):
    for make in (mx.np.array, mx.nd.array):
        with pytest.raises(TypeError) as caught:
            make(wrong)
        assert isinstance(caught.value, mx.MXNetError)


def test_unknown_dtypes():
    with pytest.raises(TypeError, match="not understood"):
        mx.np.array([1], dtype="nothing")
    with pytest.raises(TypeError, match="not understood"):
        mx.np.ones(2).astype("nothing")


def test_devices():
    there = mx.cpu(1)
    for x in (
        mx.np.array([1, 2], device=there),
        mx.np.array([1, 2], ctx=there),
        mx.np.array(mx.np.ones(2), device=there),
        mx.np.array(jnp.ones(2), device=there),
        mx.nd.array([1, 2], ctx=there),
        mx.np.empty(2, device=there),
        mx.nd.empty((2,), there),
        mx.np.ones(2).copyto(there),
        mx.np.ones(2).to_device("cpu(1)"),
        mx.np.ones(2).as_in_context(there),
        mx.nd.ones(2).as_in_context(there),
    ):
        assert x.device == there and x.ctx == there and x.context == there
    with there:
        assert mx.np.array([1]).device == there
        assert mx.np.array([1], device=mx.cpu(0)).device == mx.cpu(0)
        assert mx.np.array(mx.np.ones(2, device=mx.cpu(2))).device == mx.cpu(2)
    with pytest.raises(mx.MXNetError, match="Invalid context string"):
        mx.np.ones(2).to_device("nowhere")
    with pytest.raises(mx.MXNetError, match="different devices"):
        mx.np.ones(2) + mx.np.ones(2, device=there)


def test_the_source_stays_free():
    for dtype in ("float32", "float64", "int8"):
        source = onp.ones(1000, dtype)
        x = mx.np.array(source, dtype=dtype)
        source[:] = 5
        assert x.asnumpy().max() == 1


def test_fortran_and_strided_sources():
    source = onp.arange(12.0).reshape(3, 4)
    for part in (source.T, source[:, ::2], source[::-1], onp.asfortranarray(source)):
        onp.testing.assert_array_equal(mx.np.array(part).asnumpy(), part)
        onp.testing.assert_array_equal(mx.np.array(part, dtype="float64").asnumpy(), part)


def test_asarray():
    x = mx.np.array([1.0, 2.0])
    assert mx.np.asarray(x) is x
    assert mx.np.asarray(x, dtype="float32") is x
    assert mx.np.asarray(x, dtype="int32").dtype == "int32"
    assert mx.np.asarray(x, copy=True) is not x
    assert mx.np.asarray([1]).dtype == "float32"


def test_empty():
    assert mx.np.empty((2, 3)).shape == (2, 3) and mx.np.empty(2, dtype=int).dtype == "int64"
    assert mx.nd.empty((0, 3)).size == 0
    with pytest.raises(mx.MXNetError):
        mx.np.empty((2, -1))


def test_from_jax():
    given = jnp.arange(3.0)
    x = mx.np.from_jax(given)
    assert x.jax is given and type(mx.nd.from_jax(given)) is mx.nd.NDArray
    with pytest.raises(TypeError, match="from_jax takes a jax.Array"):
        mx.np.from_jax([1])
    assert isinstance(mx.np.ones(2).jax, jax.Array)


def test_the_constructor_takes_no_shape():
    with pytest.raises(TypeError, match="mx.np.array"):
        mx.np.ndarray((2, 3))
