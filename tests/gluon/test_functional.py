"""Blocks as pure functions: `gluon.functional`."""

import functools

import jax
import jax.numpy as jnp
import numpy as onp
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import mxjax as mx
from mxjax import autograd, gluon, np
from mxjax.gluon import functional, nn
from mxjax.gluon.model_zoo import vision

X = onp.random.RandomState(0).standard_normal((4, 3)).astype("float32")


def made(*layers, hybrid=False, shape=(1, 3)):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    return net, *functional.split(net, shape)


def batch_norm(x, gamma, beta, mean, var, train, epsilon=1e-5, momentum=0.9):
    """Batch normalization over axis 0, and the new statistics, written in NumPy."""
    if train:
        mean_now, var_now = x.mean(0), x.var(0)
        return (
            gamma * (x - mean_now) / onp.sqrt(var_now + epsilon) + beta,
            momentum * mean + (1 - momentum) * mean_now,
            momentum * var + (1 - momentum) * var_now,
        )
    return gamma * (x - mean) / onp.sqrt(var + epsilon) + beta, mean, var


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_results_and_state_are_what_numpy_computes(hybrid, jit, train):
    net, params, state = made(
        nn.Dense(4), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(2), hybrid=hybrid
    )
    assert sorted(state) == ["1.running_mean", "1.running_var"]
    state = {"1.running_mean": jnp.arange(4.0), "1.running_var": jnp.arange(1.0, 5.0)}
    run = functools.partial(functional.call, net, train=train)
    out, after = (jax.jit(run) if jit else run)(params, state, jnp.asarray(X))
    p = {k: onp.asarray(v) for k, v in params.items()}
    hidden = X @ p["0.weight"].T + p["0.bias"]
    normed, mean, var = batch_norm(
        hidden,
        p["1.gamma"],
        p["1.beta"],
        onp.arange(4.0, dtype="f"),
        onp.arange(1.0, 5.0, dtype="f"),
        train,
    )
    want = onp.maximum(normed, 0) @ p["3.weight"].T + p["3.bias"]
    assert isinstance(out, jax.Array) and all(isinstance(a, jax.Array) for a in after.values())
    onp.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-6)
    onp.testing.assert_allclose(after["1.running_mean"], mean, rtol=1e-5)
    onp.testing.assert_allclose(after["1.running_var"], var, rtol=1e-5)
    # The network itself has seen nothing of it.
    onp.testing.assert_array_equal(net[1].running_mean.data().asnumpy(), onp.zeros(4))
    assert net[0].weight.data()._value().seg is None


def test_grad_is_what_autograd_computes():
    net, params, state = made(nn.Dense(5, activation="tanh"), nn.LayerNorm(), nn.Dense(2))

    def loss(params, x):
        return jnp.sum(functional.call(net, params, state, x)[0] ** 2)

    found = jax.jit(jax.grad(loss))(params, X)
    with autograd.record():
        ours = (net(np.array(X)) ** 2).sum()
    ours.backward()
    for name, p in net.collect_params().items():
        onp.testing.assert_allclose(found[name], p.grad().asnumpy(), rtol=1e-4, atol=1e-6)


def test_dropout_draws_from_rng():
    net, params, state = made(nn.Dropout(0.5), hybrid=True)
    ones = jnp.ones((64, 3))
    run = jax.jit(lambda key: functional.call(net, params, state, ones, train=True, rng=key)[0])
    one, again, other = (onp.asarray(run(jax.random.key(k))) for k in (1, 1, 2))
    assert set(onp.unique(one)) == {0.0, 2.0} and 0.3 < (one == 0).mean() < 0.7
    onp.testing.assert_array_equal(one, again)
    assert (one != other).any()
    mx.random.seed(1)  # the same numbers as those of the seed
    with autograd.train_mode():
        onp.testing.assert_array_equal(one, net(np.array(ones)).asnumpy())
    keys = jax.random.split(jax.random.key(0), 3)  # one each
    each = jax.vmap(run)(keys)
    onp.testing.assert_array_equal(each[1], run(keys[1]))
    assert (each[0] != each[1]).any()


@pytest.mark.parametrize("jit", [False, True])
def test_without_rng_nothing_is_drawn(jit):
    wrap = jax.jit if jit else lambda f: f
    net, params, state = made(nn.Dropout(0.5), nn.Dropout(0.0))
    run = wrap(functools.partial(functional.call, net), static_argnames="train") if jit else functools.partial(
        functional.call, net
    )  # fmt: skip
    onp.testing.assert_array_equal(run(params, state, X)[0], X)
    with pytest.raises(mx.errors.MXNetValueError, match="give a key.*rng=jax.random.key"):
        run(params, state, X, train=True)


def test_a_key_is_asked_of_a_sampler_in_prediction():
    class Noise(gluon.HybridBlock):
        def forward(self, x):
            return x + np.random.normal(size=x.shape)

    net = Noise()
    with pytest.raises(ValueError, match="draws random numbers"):
        functional.call(net, {}, {}, jnp.zeros(3))
    out, _ = functional.call(net, {}, {}, jnp.zeros(3), rng=jax.random.PRNGKey(4))
    mx.random.seed(4)
    onp.testing.assert_array_equal(out, np.random.normal(size=3).asnumpy())


# ---- transformations ------------------------------------------------------------------------------------


def test_vmap_over_networks():
    net, params, state = made(nn.Dense(2))
    several = [jax.tree.map(lambda a, k=k: a + k, params) for k in range(3)]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *several)
    out = jax.vmap(lambda p: functional.call(net, p, state, X)[0])(stacked)
    for k, p in enumerate(several):
        want = X @ onp.asarray(p["0.weight"]).T + onp.asarray(p["0.bias"])
        onp.testing.assert_allclose(out[k], want, rtol=1e-5, atol=1e-6)


def test_scan_over_steps_with_state():
    net, params, state = made(nn.BatchNorm(), hybrid=True)
    batches = onp.random.RandomState(1).standard_normal((5, 8, 3)).astype("float32")

    def step(state, x):
        out, state = functional.call(net, params, state, x, train=True)
        return state, out.mean()

    after, _ = jax.jit(lambda s: jax.lax.scan(step, s, batches))(state)
    mean, var = onp.zeros(3, "f"), onp.ones(3, "f")
    for x in batches:
        _, mean, var = batch_norm(x, 1, 0, mean, var, True)
    onp.testing.assert_allclose(after["0.running_mean"], mean, rtol=1e-4, atol=1e-6)
    onp.testing.assert_allclose(after["0.running_var"], var, rtol=1e-4)


def test_shard_map_and_sharded_parameters():
    net, params, state = made(nn.Dense(4, use_bias=False))
    mesh = Mesh(onp.array(jax.devices()[:1]), ("data",))
    P = PartitionSpec

    def part(params, x):
        return jax.lax.psum(functional.call(net, params, state, x)[0].sum(), "data")

    total = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(P(), P("data")), out_specs=P()))(
        params, X
    )
    onp.testing.assert_allclose(total, (X @ onp.asarray(params["0.weight"]).T).sum(), rtol=1e-4)
    laid = jax.device_put(params, NamedSharding(mesh, P()))
    out = jax.jit(lambda p: functional.call(net, p, state, X)[0])(laid)
    onp.testing.assert_allclose(out, X @ onp.asarray(params["0.weight"]).T, rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_shard_map_of_a_network_with_dropout(jit):
    """Outside of jax.jit nothing may be put on a device there, the key of what draws nothing neither."""
    net, params, state = made(nn.Dense(4), nn.BatchNorm(), nn.Dropout(0.5), hybrid=True)
    mesh = Mesh(onp.array(jax.devices()[:1]), ("data",))
    P = PartitionSpec
    f = jax.shard_map(
        lambda p, s, x: functional.call(net, p, s, x)[0],
        mesh=mesh, in_specs=(P(), P(), P("data")), out_specs=P("data"),
    )  # fmt: skip
    out = (jax.jit(f) if jit else f)(params, state, X)
    expected = batch_norm(X @ onp.asarray(params["0.weight"]).T, 1.0, 0.0, 0.0, 1.0, False)[0]
    onp.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-6)


P = PartitionSpec
OVER = {
    "what split gave, closed over": lambda net, p, s: lambda x: functional.call(net, p, s, x)[0],
    "a network": lambda net, p, s: lambda x: net(x).jax,
    "its derivative": lambda net, p, s: jax.grad(lambda x: functional.call(net, p, s, x)[0].sum()),
    "each row": lambda net, p, s: jax.vmap(lambda row: functional.call(net, p, s, row[None])[0][0]),
    "an array": lambda net, p, s: lambda x: np.dot(x, net[0].weight.data().T).jax,
    "a result of arrays": lambda net, p, s: lambda x: np.dot(x, 1 * net[0].weight.data().T).jax,
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("what", OVER)
def test_shard_map_over_devices_of_what_is_closed_over(what, home, jit):
    """Parameters lie on one device, and JAX refuses such arrays outside of jax.jit: a call lets them move."""
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3, use_bias=False))
    net.initialize(mx.init.Xavier(), device=mx.cpu(home))
    f = OVER[what](net, *functional.split(net))
    mesh = Mesh(onp.array(jax.devices()[:4]), ("data",))
    f = jax.shard_map(f, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    weight = net[0].weight.data().asnumpy()
    expected = onp.broadcast_to(weight.sum(0), X.shape) if "derivative" in what else X @ weight.T
    onp.testing.assert_allclose((jax.jit(f) if jit else f)(X), expected, rtol=1e-5, atol=1e-6)


def test_parameters_go_to_a_mesh_and_stay_on_their_device():
    """What `split` gives moves as arrays that JAX makes do; what `merge` takes is on the network's device again."""
    net, params, state = made(nn.Dense(4), nn.BatchNorm())
    mesh = Mesh(onp.array(jax.devices()[:4]), ("data",))

    def loss(params, x):
        out, new = functional.call(net, params, state, x, train=True)
        return jax.lax.pmean((out**2).mean(), "data"), jax.lax.pmean(new, "data")

    f = jax.shard_map(
        jax.grad(loss, has_aux=True),
        mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P()),
    )  # fmt: skip
    for step in (f, jax.jit(f)):
        grads, new = step(params, onp.repeat(X, 4, 0))
        assert {k: g.shape for k, g in grads.items()} == {k: p.shape for k, p in params.items()}
        mean = (X @ onp.asarray(params["0.weight"]).T).mean(0)  # of equal parts: of all
        onp.testing.assert_allclose(new["1.running_mean"], 0.1 * mean, rtol=1e-4, atol=1e-6)
    assert not any(a.committed for a in params.values())
    functional.merge(net, params, state)
    after = net[0].weight.data().jax
    assert after.committed
    assert after.unsafe_buffer_pointer() == params["0.weight"].unsafe_buffer_pointer()


def test_checkpoint_eval_shape_and_export():
    net, params, state = made(nn.Dense(4, activation="tanh"), nn.Dense(2), hybrid=True)

    def loss(params, x):
        return functional.call(net, params, state, x)[0].sum()

    plain = jax.grad(loss)(params, X)
    again = jax.grad(jax.checkpoint(loss))(params, X)
    for name in params:
        onp.testing.assert_allclose(again[name], plain[name], rtol=1e-6)
    image = jax.ShapeDtypeStruct((7, 3), "float32")
    shapes = jax.eval_shape(functools.partial(functional.call, net), params, state, image)
    assert shapes[0].shape == (7, 2)
    run = jax.jit(lambda x: functional.call(net, params, state, x)[0])
    blob = jax.export.export(run)(jax.ShapeDtypeStruct(X.shape, X.dtype)).serialize()
    onp.testing.assert_allclose(jax.export.deserialize(blob).call(X), run(X), rtol=1e-6)


def test_a_loop_of_optax():
    layers = nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.1), nn.Dense(2)
    net, params, state = made(*layers, hybrid=True)
    data = onp.random.RandomState(2).standard_normal((64, 3)).astype("float32")
    label = (data.sum(1) > 0).astype("int32")
    optimizer = optax.adam(0.05)
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    def loss(params, state, key):
        out, state = functional.call(net, params, state, data, train=True, rng=key)
        return criterion(out, label).mean().jax, state

    @jax.jit
    def step(params, state, moments, key):
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, key)
        updates, moments = optimizer.update(grads, moments, params)
        return optax.apply_updates(params, updates), state, moments, value

    moments = optimizer.init(params)
    values = []
    for k in range(40):
        params, state, moments, value = step(params, state, moments, jax.random.key(k))
        values.append(float(value))
    assert values[-1] < 0.35 < values[0]
    functional.merge(net, params, state)
    want = functional.call(net, params, state, data)[0]
    onp.testing.assert_allclose(net(np.array(data)).asnumpy(), want, rtol=1e-5, atol=1e-6)
    assert (net(np.array(data)).argmax(axis=1) == np.array(label)).mean() > 0.9


def test_one_pass_of_adam_is_the_trainers():
    net, params, state = made(nn.Dense(2))
    trainer = gluon.Trainer(
        net.collect_params(), mx.optimizer.Adam(learning_rate=0.1, epsilon=1e-8)
    )
    moments = optax.adam(0.1).init(params)
    grads = jax.grad(lambda p: jnp.sum(functional.call(net, p, state, X)[0] ** 2))(params)
    updates, _ = optax.adam(0.1).update(grads, moments, params)
    theirs = optax.apply_updates(params, updates)
    with autograd.record():
        value = (net(np.array(X)) ** 2).sum()
    value.backward()
    trainer.step(1)
    for name, p in net.collect_params().items():
        onp.testing.assert_allclose(p.data().asnumpy(), theirs[name], rtol=1e-5, atol=1e-6)


def test_beside_flax_and_orbax(tmp_path):
    linen = pytest.importorskip("flax.linen")
    checkpoint = pytest.importorskip("orbax.checkpoint")
    net, params, state = made(nn.Dense(4))
    head = linen.Dense(2)
    theirs = head.init(jax.random.key(0), jnp.ones((1, 4)))

    def loss(both):
        return jnp.sum(head.apply(both["head"], functional.call(net, both["body"], state, X)[0]))

    both = {"body": params, "head": theirs}
    grads = jax.grad(loss)(both)
    want = onp.asarray(theirs["params"]["kernel"]).sum(1)[:, None] * X.sum(
        0
    )  # d sum(W2 (W1 x)) / d W1
    onp.testing.assert_allclose(grads["body"]["0.weight"], want, rtol=1e-4, atol=1e-5)
    with checkpoint.StandardCheckpointer() as saver:
        saver.save(tmp_path / "tree", both)
        saver.wait_until_finished()
        back = saver.restore(
            tmp_path / "tree", jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), both)
        )
    onp.testing.assert_array_equal(back["body"]["0.weight"], params["0.weight"])


# ---- networks -------------------------------------------------------------------------------------------


def test_shared_parameters_are_one_and_their_gradients_one_sum():
    first = nn.Dense(3, in_units=3, use_bias=False)
    second = nn.Dense(3, in_units=3, use_bias=False).share_parameters(first.collect_params())
    net, params, state = made(first, second)
    assert list(params) == ["0.weight"]
    w = onp.asarray(params["0.weight"])
    out, _ = functional.call(net, params, state, X)
    onp.testing.assert_allclose(out, X @ w.T @ w.T, rtol=1e-4, atol=1e-6)
    grad = jax.grad(lambda p: functional.call(net, p, state, X)[0].sum())(params)["0.weight"]
    ones = onp.ones((4, 3), "f")
    onp.testing.assert_allclose(grad, ones.T @ (X @ w.T) + (ones @ w).T @ X, rtol=1e-4, atol=1e-5)


def test_nested_blocks_and_keyword_inputs():
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(3, in_units=3))
            self.scale = gluon.Parameter("scale", shape=(1,), init="ones")

        def forward(self, pair, shift=None):
            return {
                "sum": self.body(pair[0]) * self.scale.data() + pair[1]["b"],
                "shift": shift + 1,
            }

    net = Net()
    net.initialize()
    params, state = functional.split(net)
    assert list(params) == ["scale", "body.0.weight", "body.0.bias"] and state == {}
    out, _ = jax.jit(functools.partial(functional.call, net))(
        params, state, (X, {"b": 2 * X}), shift=onp.ones(2, "f")
    )
    want = X @ onp.asarray(params["body.0.weight"]).T + 2 * X
    onp.testing.assert_allclose(out["sum"], want, rtol=1e-5, atol=1e-6)
    onp.testing.assert_array_equal(out["shift"], [2, 2])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind):
    net = getattr(gluon.rnn, kind)(5, num_layers=2, dropout=0.3, bidirectional=True)
    net.initialize()
    x = onp.random.RandomState(3).standard_normal((6, 2, 4)).astype("float32")
    params, state = functional.split(net, x)
    out, _ = jax.jit(functools.partial(functional.call, net))(params, state, x)
    onp.testing.assert_allclose(out, net(np.array(x)).asnumpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="draws random numbers"):
        functional.call(net, params, state, x, train=True)
    start = net.begin_state(batch_size=2)
    (out, states), _ = functional.call(net, params, state, np.array(x), start)
    assert isinstance(out, np.ndarray) and len(states) == len(start)


def test_a_loop_in_the_network():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = nn.Dense(3, in_units=3)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return mx.npx.foreach(
                lambda row, s: (row, self.drop(self.cell(s)) + row), x, np.zeros((1, 3))
            )[1]

    net = Net()
    net.initialize()
    params, state = functional.split(net)
    rows = X[:, None]
    out, _ = jax.jit(functools.partial(functional.call, net))(params, state, rows)
    s = onp.zeros((1, 3), "f")
    for row in rows:
        s = s @ onp.asarray(params["cell.weight"]).T + onp.asarray(params["cell.bias"]) + row
    onp.testing.assert_allclose(out, s, rtol=1e-5, atol=1e-6)
    run = jax.jit(lambda key: functional.call(net, params, state, rows, train=True, rng=key)[0])
    assert (run(jax.random.key(0)) != run(jax.random.key(1))).any()


def test_symbol_block():
    data = mx.sym.var("data")
    symbol = mx.sym.BatchNorm(
        mx.sym.FullyConnected(data, num_hidden=2, name="fc"), name="bn", fix_gamma=False
    )
    net = gluon.SymbolBlock(symbol, data)
    net.initialize()
    params, state = functional.split(net, (1, 3))
    assert set(state) == {"bn_moving_mean", "bn_moving_var"}
    out, after = jax.jit(functools.partial(functional.call, net, train=True))(params, state, X)
    hidden = X @ onp.asarray(params["fc_weight"]).T + onp.asarray(params["fc_bias"])
    gamma, beta = (onp.asarray(params[f"bn_{k}"]) for k in ("gamma", "beta"))
    before = (onp.asarray(state[f"bn_moving_{k}"]) for k in ("mean", "var"))  # drawn, as there
    want, mean, _ = batch_norm(hidden, gamma, beta, *before, True, epsilon=1e-3)
    onp.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
    onp.testing.assert_allclose(after["bn_moving_mean"], mean, rtol=1e-4, atol=1e-6)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("mobilenetv2_0.25", "densenet121")]


@pytest.mark.parametrize("name", ["resnet18_v1", "squeezenet1.1", *SLOW])
def test_networks_of_the_zoo_have_shapes(name):
    net = vision.get_model(name, classes=7)
    net.initialize()
    params, state = functional.split(net, (1, 3, 224, 224))
    run = functools.partial(functional.call, net, train=True)
    image = jax.ShapeDtypeStruct((2, 3, 224, 224), "float32")
    key = jax.eval_shape(lambda: jax.random.key(0))
    out, after = jax.eval_shape(lambda p, s, x, k: run(p, s, x, rng=k), params, state, image, key)
    assert out.shape == (2, 7)
    assert {k: v.shape for k, v in after.items()} == {k: v.shape for k, v in state.items()}
    grads = jax.eval_shape(
        jax.grad(lambda p, s, x, k: run(p, s, x, rng=k)[0].sum()), params, state, image, key
    )
    assert {k: v.shape for k, v in grads.items()} == {k: v.shape for k, v in params.items()}


def test_networks_of_mxnet_1():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.fc = nn.Dense(2, in_units=3)

        def hybrid_forward(self, F, x):  # noqa: N803
            return F.relu(self.fc(x))

    net = Net()
    net.initialize()
    params, state = functional.split(net)
    assert list(params) == ["fc.weight", "fc.bias"]
    out, _ = jax.jit(functools.partial(functional.call, net))(params, state, X)
    onp.testing.assert_allclose(
        out, onp.maximum(X @ onp.asarray(params["fc.weight"]).T, 0), rtol=1e-5, atol=1e-6
    )


# ---- the way there and back -----------------------------------------------------------------------------


def test_no_array_is_copied_on_the_way_there_and_back():
    net, params, state = made(nn.Dense(64), nn.BatchNorm())
    where = {k: a.unsafe_buffer_pointer() for k, a in {**params, **state}.items()}
    assert net[0].weight.data().jax.unsafe_buffer_pointer() == where["0.weight"]
    new = {k: a + 1 for k, a in params.items()}
    functional.merge(net, new, state)
    back, _ = functional.split(net)
    assert all(back[k].unsafe_buffer_pointer() == new[k].unsafe_buffer_pointer() for k in new)
    # What goes on in the network changes nothing of the arrays outside.
    before = {k: onp.array(a) for k, a in new.items()}
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    for _ in range(2):
        with autograd.record():
            loss = net(np.array(X)).sum()
        loss.backward()
        trainer.step(1)
    assert (net[1].beta.data().asnumpy() != before["1.beta"]).any()
    for k, a in new.items():
        onp.testing.assert_array_equal(a, before[k])


def test_merge_into_a_network_without_values_and_from_numpy():
    net, params, state = made(nn.Dense(2))
    other = nn.HybridSequential()
    other.add(nn.Dense(2))
    other.initialize()
    functional.merge(other, {k: onp.asarray(v) for k, v in params.items()}, state)
    onp.testing.assert_array_equal(other(np.array(X)).asnumpy(), net(np.array(X)).asnumpy())


def test_names_move_from_params_to_state():
    net, params, state = made(nn.Dense(4), nn.Dense(2))
    state |= {k: params.pop(k) for k in ("0.weight", "0.bias")}
    grads = jax.grad(lambda p: functional.call(net, p, state, X)[0].sum())(params)
    assert sorted(grads) == ["1.bias", "1.weight"]


# ---- what is refused ------------------------------------------------------------------------------------


def test_refusals_say_what_to_do():
    net, params, state = made(nn.Dense(2), nn.BatchNorm())
    few = {k: v for k, v in params.items() if k != "0.bias"}
    with pytest.raises(ValueError, match="missing are '0.bias'"):
        functional.call(net, few, state, X)
    with pytest.raises(ValueError, match="left over are '0.bia'.*did you mean '0.bias'"):
        functional.call(net, {**params, "0.bia": 1}, state, X)
    with pytest.raises(ValueError, match="in params and in state"):
        functional.call(net, params, {**state, "0.bias": params["0.bias"]}, X)
    with pytest.raises(TypeError, match="dictionary of arrays by name"):
        functional.call(net, list(params.values()), state, X)
    with pytest.raises(TypeError, match="Block of gluon's is expected"):
        functional.split(jnp.sin)
    mean = {"1.running_mean": state["1.running_mean"]}
    var = {"1.running_var": state["1.running_var"]}
    with pytest.raises(ValueError, match=r"writes to '1.running_mean', which is in params"):
        functional.call(net, {**params, **mean}, var, X, train=True)
    with pytest.raises(AssertionError, match="'0.bias' has shape"):
        functional.merge(net, {**params, "0.bias": jnp.zeros(5)}, state)
    with pytest.raises(AssertionError, match="net.cast"):
        functional.merge(net, {**params, "0.bias": jnp.zeros(2, "bfloat16")}, state)
    with pytest.raises(gluon.DeferredInitializationError):
        fresh = nn.Dense(2)
        fresh.initialize()
        functional.split(fresh)
    with pytest.raises(TypeError, match="one key of JAX"):
        functional.call(net, params, state, X, rng=3)


def test_state_that_is_no_parameter_is_refused_and_left_alone():
    class Counts(gluon.Block):
        def __init__(self):
            super().__init__()
            self.count = np.zeros(1)

        def forward(self, x):
            self.count += 1
            return x + self.count

    net = Counts()
    for wrap in (jax.jit, lambda f: f):
        with pytest.raises(ValueError, match=r"Counts.count, an array that is no parameter"):
            wrap(lambda x: functional.call(net, {}, {}, x)[0])(X)
        assert net.count.item() == 0


def test_an_error_in_the_forward_leaves_the_network_as_it_was():
    net, params, state = made(nn.Dense(2), hybrid=True)
    with pytest.raises(ValueError):
        jax.jit(lambda p: functional.call(net, p, state, jnp.ones((2, 5)))[0])(params)
    assert net(np.array(X)).shape == (4, 2) and net._active


def test_several_devices_are_refused(monkeypatch):
    net = nn.Dense(2, in_units=3)
    net.initialize(device=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(ValueError, match="reset_device"):
        functional.split(net)


def test_a_network_without_its_inputs_is_refused():
    net = gluon.nn.Dense(3, in_units=2)
    net.initialize()
    with pytest.raises(TypeError, match="no inputs for Dense"):
        functional.call(net, *functional.split(net))
