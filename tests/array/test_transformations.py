"""Arrays in JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn

X = onp.array([0.5, -1.0, 2.0], "float32")


def f(a):
    return np.sum(np.tanh(a) ** 2)


def df(x):
    t = onp.tanh(x)
    return 2 * t * (1 - t**2)


def d2f(x):
    t = onp.tanh(x)
    return 2 * (1 - t**2) * (1 - 3 * t**2)


@pytest.mark.parametrize("make", [np.array, jnp.asarray, mx.nd.array], ids=["np", "jax", "nd"])
def test_grad_of_a_function_that_gives_an_array(make):
    x = make(X)
    g = jax.grad(f)(x)
    assert type(g) is type(x)
    onp.testing.assert_allclose(onp.asarray(g), df(X), rtol=1e-5)
    value, g = jax.value_and_grad(f)(x)
    onp.testing.assert_allclose(onp.asarray(value), (onp.tanh(X) ** 2).sum(), rtol=1e-6)
    onp.testing.assert_allclose(onp.asarray(jax.jit(jax.grad(f))(x)), df(X), rtol=1e-5)
    twice = jax.grad(lambda a: np.sum(np.add(jax.grad(f)(a), 0)))(x)
    onp.testing.assert_allclose(onp.asarray(twice), d2f(X), rtol=1e-4)


def test_grad_of_several_with_aux_and_of_trees():
    x, w = np.array(X), np.array([1.0, 2.0, 3.0])
    gx, gw = jax.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, w)
    onp.testing.assert_array_equal(gx.asnumpy(), w.asnumpy())
    onp.testing.assert_array_equal(gw.asnumpy(), X)
    g, aux = jax.grad(lambda t: ((t["a"] ** 2).sum(), t["a"] + 1), has_aux=True)({"a": x})
    onp.testing.assert_allclose(g["a"].asnumpy(), 2 * X)
    onp.testing.assert_allclose(aux.asnumpy(), X + 1)


def test_grad_still_wants_a_number():
    with pytest.raises(TypeError, match="scalar-output functions.*shape: \\(3,\\)"):
        jax.grad(np.tanh)(np.array(X))
    with pytest.raises(TypeError, match="scalar-output"):
        jax.grad(lambda a: (np.sum(a), 1))(np.array(X))


def test_vmap_jvp_vjp_jacobians_and_hessian():
    x = np.array(X)
    both = onp.stack([X, 2 * X])
    onp.testing.assert_allclose(
        jax.vmap(f)(np.array(both)).asnumpy(), (onp.tanh(both) ** 2).sum(1), rtol=1e-5
    )
    value, tangent = jax.jvp(f, (x,), (np.array([1.0, 0.0, 0.0]),))
    onp.testing.assert_allclose(tangent.asnumpy(), df(X)[0], rtol=1e-5)
    value, back = jax.vjp(f, x)
    onp.testing.assert_allclose(back(np.array(2.0))[0].asnumpy(), 2 * df(X), rtol=1e-5)
    slope = onp.diag(1 - onp.tanh(X) ** 2)
    for jacobian in (jax.jacfwd, jax.jacrev):
        onp.testing.assert_allclose(jacobian(np.tanh)(x).asnumpy(), slope, rtol=1e-5, atol=1e-7)
    onp.testing.assert_allclose(jax.hessian(f)(x).asnumpy(), onp.diag(d2f(X)), rtol=1e-4, atol=1e-6)
    onp.testing.assert_allclose(jax.grad(jax.checkpoint(f))(x).asnumpy(), df(X), rtol=1e-5)
    onp.testing.assert_allclose(
        jax.linearize(f, x)[1](np.ones(3)).asnumpy(), df(X).sum(), rtol=1e-5
    )


def test_custom_rules():
    @jax.custom_vjp
    def clipped(a):
        return np.sin(a)

    clipped.defvjp(lambda a: (np.sin(a), a), lambda a, g: (np.clip(g * np.cos(a), -0.1, 0.1),))
    g = jax.grad(lambda a: clipped(a).sum())(np.array(X))
    onp.testing.assert_allclose(g.asnumpy(), onp.clip(onp.cos(X), -0.1, 0.1))

    @jax.custom_jvp
    def doubled(a):
        return np.sin(a)

    doubled.defjvp(lambda at, along: (doubled(*at), 2 * along[0] * np.cos(at[0])))
    onp.testing.assert_allclose(
        jax.grad(lambda a: doubled(a).sum())(np.array(X)).asnumpy(), 2 * onp.cos(X), rtol=1e-6
    )


def test_control_flow():
    x = np.array(X)
    total, seen = jax.lax.scan(lambda c, row: (c + row.sum(), c), np.array(0.0), np.ones((4, 3)))
    assert total.item() == 12 and seen.tolist() == [0, 3, 6, 9]
    onp.testing.assert_array_equal(
        jax.lax.cond(x.sum().jax > 0, lambda a: a * 2, lambda a: a, x).asnumpy(), 2 * X
    )
    onp.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda k, a: a + k, x).asnumpy(), X + 3)
    grown = jax.lax.while_loop(lambda a: (np.abs(a).max() < 10).jax, lambda a: a * 2, x)
    onp.testing.assert_array_equal(grown.asnumpy(), 8 * X)


def test_eval_shape_gives_shapes():
    out = jax.eval_shape(
        lambda a: np.dot(a, a.T).astype("float16"), jax.ShapeDtypeStruct((5, 3), "float32")
    )
    assert (out.shape, out.dtype, out.ndim, out.size) == ((5, 5), onp.float16, 2, 25)
    again = jax.eval_shape(lambda a: a.sum(axis=0), out)
    assert again.shape == (5,)
    assert jax.tree.leaves(out)[0].shape == (5, 5)
    with pytest.raises(TypeError, match="has no numbers"):
        out.asnumpy()
    with pytest.raises(TypeError, match="has no numbers"):
        float((out + 1).sum())


def test_export_of_arrays_in_and_out(tmp_path):
    exported = jax.export.export(jax.jit(lambda a: {"y": np.tanh(a)}))(np.array(X))
    back = jax.export.deserialize(exported.serialize())
    made = back.call(np.array(X))["y"]
    assert type(made) is np.ndarray
    onp.testing.assert_allclose(made.asnumpy(), onp.tanh(X), rtol=1e-6)
    old = jax.export.export(jax.jit(mx.nd.tanh))(mx.nd.array(X)).serialize()
    old = jax.export.deserialize(old).call(mx.nd.array(X))
    assert type(old) is mx.nd.NDArray


def test_losses_and_blocks_under_grad():
    p, y = onp.array([[0.5, 1.0, -1.0]], "f"), onp.array([2])
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    g = jax.grad(lambda a: loss(a, np.array(y)).mean())(np.array(p))
    soft = onp.exp(p) / onp.exp(p).sum()
    onp.testing.assert_allclose(g.asnumpy(), soft - onp.eye(3)[y], rtol=1e-5)
    g = jax.jit(jax.grad(lambda a: loss(a, jnp.asarray(y)).mean()))(jnp.asarray(p))
    onp.testing.assert_allclose(g, soft - onp.eye(3)[y], rtol=1e-5)


# ---- blocks take arrays of JAX -----------------------------------------------------------------------------


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_block_takes_arrays_of_jax(hybrid):
    net = nn.Dense(2, in_units=3)
    net.initialize()
    if hybrid:
        net.hybridize()
    x = onp.ones((4, 3), "f") * X
    want = x @ net.weight.data().asnumpy().T
    for run in (
        net,
        jax.jit(net),
        jax.jit(lambda a: net(a)),
        jax.vmap(lambda row: net(row[None])[0]),
    ):
        out = run(jnp.asarray(x))
        assert type(out) is np.ndarray
        onp.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5)
    g = jax.grad(lambda a: net(a).sum())(jnp.asarray(x))
    assert isinstance(g, jax.Array)
    onp.testing.assert_allclose(g, onp.ones((4, 2)) @ net.weight.data().asnumpy(), rtol=1e-5)
    with autograd.record():
        out = net(jnp.asarray(x)).sum()
    out.backward()
    onp.testing.assert_allclose(net.weight.grad().asnumpy(), onp.ones((2, 4)) @ x, rtol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_arrays_of_jax_beside_ours_are_operands_and_no_constants(hybrid):
    class Add(gluon.HybridBlock):
        def forward(self, x, others):
            return x + others["one"] + others["two"][0]

    net = Add()
    if hybrid:
        net.hybridize()
    x = np.zeros(3000)
    for k in (0.0, 1.0):  # jax.Arrays whose printed forms are the same
        other = jnp.zeros(3000).at[1500].set(k)
        out = net(x, {"one": other, "two": [other]})
        assert out[1500].item() == 2 * k


def test_a_layer_that_knows_no_shape_yet_takes_tracers():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(2))
    net.initialize()
    out = jax.jit(net)(jnp.ones((2, 3)))
    onp.testing.assert_allclose(out.asnumpy(), net(np.ones((2, 3))).asnumpy(), rtol=1e-5, atol=1e-7)


# ---- random numbers ----------------------------------------------------------------------------------------


def test_use_key_makes_random_numbers_pure():
    @jax.jit
    def noisy(key, a):
        with mx.random.use_key(key):
            return a + np.random.normal(size=a.shape), npx.dropout(a, 0.5, mode="always")

    ones = np.ones(64)
    one, again, other = (noisy(jax.random.key(k), ones) for k in (3, 3, 4))
    for a, b, c in zip(one, again, other, strict=True):
        onp.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
        assert (a.asnumpy() != c.asnumpy()).any()
    mx.random.seed(3)  # as documented: the numbers of the seed
    onp.testing.assert_allclose(  # near 0 the two terms cancel
        one[0].asnumpy(), 1 + np.random.normal(size=64).asnumpy(), rtol=1e-6, atol=1e-6
    )
    with mx.random.use_key(jax.random.key(3)):
        onp.testing.assert_allclose(
            one[0].asnumpy(), 1 + np.random.normal(size=64).asnumpy(), rtol=1e-6
        )


def test_use_key_leaves_the_devices_streams_alone():
    mx.random.seed(5)
    first = np.random.uniform(size=3).asnumpy()
    mx.random.seed(5)
    with mx.random.use_key(jax.random.key(9)):
        inside = np.random.uniform(size=3).asnumpy()
        with mx.random.use_key(jax.random.key(9)):
            onp.testing.assert_array_equal(np.random.uniform(size=3).asnumpy(), inside)
    onp.testing.assert_array_equal(np.random.uniform(size=3).asnumpy(), first)
    assert (first != inside).any()


@pytest.mark.parametrize("hybrid", [False, True])
def test_use_key_reaches_hybridized_blocks(hybrid):
    net = nn.Dropout(0.5)
    if hybrid:
        net.hybridize()

    def run(key):
        with mx.random.use_key(key), autograd.train_mode():
            return net(np.ones(64))

    mx.random.seed(7)
    with autograd.train_mode():
        want = net(np.ones(64)).asnumpy()
    onp.testing.assert_array_equal(run(jax.random.key(7)).asnumpy(), want)
    onp.testing.assert_array_equal(jax.jit(run)(jax.random.key(7)).asnumpy(), want)
    assert (jax.jit(run)(jax.random.key(8)).asnumpy() != want).any()


def test_keys_of_other_kinds():
    with mx.random.use_key(jax.random.PRNGKey(2)):
        old = np.random.uniform(size=3).asnumpy()
    with mx.random.use_key(jax.random.key(2)):
        onp.testing.assert_array_equal(np.random.uniform(size=3).asnumpy(), old)
    with mx.random.use_key(jax.random.key(2, impl="rbg")):
        np.random.uniform(size=3).asnumpy()
    for wrong in (0, jnp.zeros(2), jax.random.split(jax.random.key(0))):
        with pytest.raises(TypeError, match="one key of JAX"):
            mx.random.use_key(wrong)


def test_numbers_drawn_while_jax_traces_are_told_of():
    with pytest.warns(UserWarning, match="constants.*use_key"):
        jax.jit(lambda a: a + np.random.normal(size=3))(np.zeros(3))
    import warnings

    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dropout(0.5))
    net.initialize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(net)(
            jnp.ones((2, 3))
        )  # parameters that are initialized meanwhile, and Dropout in prediction
        jax.grad(lambda a: (a * np.random.normal(size=3)).sum())(
            np.zeros(3)
        )  # JAX runs it each time


def test_what_ours_compute_while_jax_traces_stays_concrete():
    def g(a):
        scale = np.arange(64) * 2 + 1  # of numbers alone
        return a * float(scale.sum()) + scale.asnumpy()[3]

    assert jax.jit(g)(jnp.ones(())) == (onp.arange(64) * 2 + 1).sum() + 7


def test_arrays_that_jax_would_move_are_moved_to_ours():
    """What JAX made on its default device is an operand of arrays elsewhere, as in JAX; what was put there is not."""
    there = mx.cpu(2)
    ours = np.ones(3, device=there)
    theirs = jnp.arange(3.0)
    assert theirs.devices() == {jax.devices("cpu")[0]} and not theirs.committed
    assert (ours + theirs).device == (np.from_jax(theirs) + ours).device == there
    assert (ours * np.from_jax(theirs)).asnumpy().tolist() == [0, 1, 2]
    ours.attach_grad()
    with mx.autograd.record():
        loss = (np.from_jax(theirs) * ours).sum()
    loss.backward()
    assert ours.grad.asnumpy().tolist() == [0, 1, 2]
    with pytest.raises(mx.MXNetError, match="different devices"):
        ours + np.from_jax(jax.device_put(theirs, jax.devices("cpu")[0]))


@pytest.mark.parametrize("hybridize", [False, True])
def test_networks_elsewhere_take_arrays_that_jax_would_move(hybridize):
    there = mx.cpu(2)
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(device=there)
    if hybridize:
        net.hybridize()
    want = net(np.ones((4, 3), device=there)).asnumpy()
    made = net(jnp.ones((4, 3)))
    assert made.device == there
    onp.testing.assert_allclose(made.asnumpy(), want, rtol=1e-6)
    params, state = mx.gluon.functional.split(net)
    out, _ = mx.gluon.functional.call(net, params, state, jnp.ones((4, 3)))
    onp.testing.assert_allclose(out, want, rtol=1e-6)
