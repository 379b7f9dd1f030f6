"""Arrays among NumPy, JAX and DLPack."""

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd


def test_array_protocol():
    x = mx.np.array([1.0, 2.0])
    assert onp.asarray(x).dtype == onp.float32
    assert onp.asarray(x, dtype="float64").dtype == onp.float64
    assert onp.array(mx.nd.array([1, 2])).tolist() == [1, 2]
    assert onp.array(x, copy=False).tolist() == [1, 2]
    with pytest.raises(ValueError, match="without a copy"):
        onp.asarray(x, dtype="int32", copy=False)


def test_numpy_functions_are_ours():
    x = mx.np.array([[1.0, 2.0], [3.0, 4.0]])
    for got, want in [
        (onp.mean(x), 2.5),
        (onp.sum(x, axis=0), [4, 6]),
        (onp.concatenate([x, x]).shape, (4, 2)),
        (onp.stack([x, x]).shape, (2, 2, 2)),
        (onp.exp(x)[0, 0], onp.exp(onp.float32(1))),
        (onp.add(x, 1)[0], [2, 3]),
        (onp.add(onp.ones(2), x)[1], [4, 5]),
        (onp.dot(x, x)[0], [7, 10]),
        (onp.linalg.norm(x), onp.sqrt(onp.float32(30))),
        (onp.where(x > 2, x, 0 * x)[1], [3, 4]),
    ]:
        if not isinstance(got, tuple):
            assert type(got) is mx.np.ndarray
            got = got.asnumpy()
        onp.testing.assert_allclose(got, want, rtol=1e-6)


def test_broadcast_arrays_takes_numbers_and_lists():
    x = mx.np.array([[1.0], [2.0]])
    for function in (onp.broadcast_arrays, mx.np.broadcast_arrays):
        for others in (
            (0,),
            ([1.0, 2.0, 3.0],),
            (onp.ones(3),),
            (mx.np.ones(3), 2.5),
            ([1, 2, 3], 4),
        ):
            found = function(x, *others)
            plain = onp.broadcast_arrays(
                x.asnumpy(), *[getattr(o, "asnumpy", lambda o=o: o)() for o in others]
            )
            assert len(found) == len(plain)
            for got, want in zip(found, plain, strict=True):
                assert isinstance(got, mx.np.ndarray)
                onp.testing.assert_array_equal(got.asnumpy(), want)


def test_numpy_functions_we_do_not_have():
    x = mx.np.array([3.0, 1.0])
    assert onp.add.reduce(x) == 4
    assert isinstance(onp.fft.fft(x), onp.ndarray)
    assert onp.lexsort((x,)).tolist() == [1, 0]
    out = onp.zeros(2)
    assert onp.add(x, 1, out=out) is out and out.tolist() == [4, 2]
    out += x
    assert out.tolist() == [7, 3]
    into = mx.np.zeros(2)
    assert onp.multiply(x, 2, out=into) is into and into.asnumpy().tolist() == [6, 2]
    x.attach_grad()
    with autograd.record(), pytest.raises(mx.MXNetError, match="no gradient"):
        onp.fft.fft(x)


def test_numpy_functions_are_recorded():
    x = mx.np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = onp.sum(onp.exp(x))
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), onp.exp([1, 2]), rtol=1e-6)


def test_operators_with_numpy_arrays():
    x = mx.np.array([1.0, 2.0])
    for got in (x + onp.ones(2), onp.ones(2) + x):
        assert type(got) is mx.np.ndarray and got.dtype == "float64"
    assert (onp.float64(2) * x).dtype == "float32"
    n = mx.nd.array([1.0, 2.0])
    assert type(onp.ones(2, "float32") + n) is mx.nd.NDArray
    assert type(n + x) is mx.np.ndarray and type(x + n) is mx.np.ndarray


def test_jax_functions_take_arrays():
    x = mx.np.array([1.0, 2.0])
    assert float(jnp.sum(x.jax)) == 3
    assert isinstance(jnp.asarray(x), jax.Array)
    assert float((x.jax + 1)[0]) == 2


def test_pytrees():
    x = mx.np.array([1.0, 2.0])
    leaves, tree = jax.tree_util.tree_flatten({"a": x, "b": [mx.nd.array([3])]})
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    back = jax.tree_util.tree_unflatten(tree, leaves)
    assert type(back["a"]) is mx.np.ndarray and type(back["b"][0]) is mx.nd.NDArray
    odd = jax.tree_util.tree_unflatten(tree, [object(), None])
    assert "object" in repr(odd["a"])
    with pytest.raises(TypeError, match="no numbers"):
        odd["a"].asnumpy()
    assert jax.tree_util.tree_structure(odd["a"]) is not None
    doubled = jax.tree_util.tree_map(lambda v: v * 2, {"a": x})
    assert doubled["a"].asnumpy().tolist() == [2, 4]


def test_jit_of_functions_of_arrays():
    @jax.jit
    def f(x, y):
        assert "not computed" in repr(x)
        z = x * 2 + y
        z[0] = 7
        return {"z": z, "sum": z.sum()}

    got = f(mx.np.array([1.0, 2.0]), mx.np.array([3.0, 4.0]))
    assert type(got["z"]) is mx.np.ndarray
    assert got["z"].asnumpy().tolist() == [7, 8]
    assert got["sum"].item() == 15


def test_jit_keeps_64_bits():
    x = mx.np.array([1.0, 2.0**60], dtype="float64")
    i = mx.np.array([2**60 + 1], dtype="int64")
    got = jax.jit(lambda a, b: (a + 1, b + 1))(x, i)
    assert got[0].dtype == "float64" and got[1].dtype == "int64"
    assert got[1].item() == 2**60 + 2


def test_grad_and_vmap_of_functions_of_arrays():
    def f(x):
        return (x * x * mx.np.array([1.0, 3.0])).sum().jax

    g = jax.grad(f)(mx.np.array([1.0, 2.0]))
    assert type(g) is mx.np.ndarray and g.asnumpy().tolist() == [2, 12]
    got = jax.vmap(lambda x: x * x.sum())(mx.np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert got.asnumpy().tolist() == [[3, 6], [21, 28]]
    _, pull = jax.vjp(f, mx.np.array([1.0, 2.0]))
    assert pull(jnp.float32(1))[0].asnumpy().tolist() == [2, 12]


def test_reading_inside_of_jit_says_why_not():
    with pytest.raises(TypeError, match="inside jax.jit"):
        jax.jit(lambda x: x.asnumpy())(mx.np.ones(2))
    with pytest.raises(TypeError, match="inside jax.jit"):
        jax.jit(lambda x: x + 1 if x.sum() > 0 else x)(mx.np.ones(2))


def test_autograd_inside_of_jit():
    @jax.jit
    def f(x):
        x.attach_grad()
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        return x.grad

    assert f(mx.np.array([1.0, 3.0])).asnumpy().tolist() == [2, 6]


@pytest.mark.parametrize(
    "dtype", ["float32", "int32", "uint8", "float64", "int64", "float16", "bool"]
)
def test_dlpack_with_numpy(dtype):
    want = onp.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    x = mx.np.array(want, dtype=dtype)
    onp.testing.assert_array_equal(onp.from_dlpack(x), want)
    got = mx.np.from_dlpack(want)
    assert got.dtype == dtype
    onp.testing.assert_array_equal(got.asnumpy(), want)
    onp.testing.assert_array_equal(mx.np.from_dlpack(x).asnumpy(), want)
    onp.testing.assert_array_equal(mx.nd.from_dlpack(x.to_dlpack_for_write()).asnumpy(), want)


def test_from_numpy():
    host = onp.arange(6.0).reshape(2, 3)
    x = mx.nd.from_numpy(host)
    assert type(x) is mx.nd.NDArray and x.dtype is onp.float64
    onp.testing.assert_array_equal(x.asnumpy(), host)
    with pytest.raises(ValueError, match="c-contiguous"):
        mx.nd.from_numpy(host.T)
    assert mx.npx.from_numpy(host.T.copy(), zero_copy=False).shape == (3, 2)
    with pytest.raises(TypeError):
        mx.nd.from_numpy([1])
    host = onp.arange(3.0)
    made = mx.nd.from_numpy(host, array_cls=mx.np.ndarray)  # as MXNet 1.9.1, it shares the memory
    made[1] = 7
    assert type(made) is mx.np.ndarray and host.tolist() == [0, 7, 2]
    assert type(mx.nd.from_numpy(host, False, mx.np.ndarray)) is mx.np.ndarray


def test_torch_shares_memory():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = mx.np.array([1.0, 2.0])
    assert torch.from_dlpack(x).tolist() == [1, 2]
    assert mx.np.from_dlpack(torch.tensor([3.0])).item() == 3
