"""Flax modules as blocks, against flax's own apply and jax.grad."""

from __future__ import annotations

import functools

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import FlaxBlock, HybridBlock, Trainer, nn


class MLP(linen.Module):
    rate: float = 0.0

    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Dense(5)(x)
        x = linen.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = linen.Dropout(self.rate, deterministic=not train)(linen.relu(x))
        return linen.Dense(2)(x) + jnp.zeros(2)


NAMES = {
    "Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias", "BatchNorm_0.scale", "BatchNorm_0.bias",
    "batch_stats.BatchNorm_0.mean", "batch_stats.BatchNorm_0.var",
}  # fmt: skip
X = np.cos(np.arange(24.0)).reshape(6, 4).astype("float32")


def variables(net):
    """The block's parameters as flax has them."""
    tree = {"params": {}}
    for name, p in net.collect_params().items():
        path = name.split(".")
        at = tree if path[0] == "batch_stats" else tree["params"]
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = jnp.asarray(p.data().asnumpy())
    return tree


@pytest.fixture(params=["imperative", "hybridized"])
def hybridized(request):
    return request.param == "hybridized"


def make(module, *examples, hybridized=False):
    net = FlaxBlock(module, *examples)
    net.initialize()
    if hybridized:
        net.hybridize()
    return net


def test_outputs_gradients_and_statistics_equal_flax(hybridized):
    net = make(MLP(), (6, 4), hybridized=hybridized)
    assert set(net.collect_params()) == NAMES and repr(net) == "FlaxBlock(MLP)"
    before = variables(net)
    x = mx.np.array(X)
    want = jax.jit(functools.partial(MLP().apply, train=False))(before, X)
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    x.attach_grad()
    with autograd.record():
        y = net(x)
        loss = (y * y).sum()
    loss.backward()

    def loss_of(params, given):
        out, new = MLP().apply(
            {**before, "params": params}, given, train=True, mutable=["batch_stats"]
        )
        return (out * out).sum(), (out, new)

    gradients = jax.jit(jax.grad(loss_of, argnums=(0, 1), has_aux=True))
    grads, (out, new) = gradients(before["params"], X)
    np.testing.assert_allclose(y.asnumpy(), out, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), grads[1], rtol=1e-4, atol=1e-5)
    for name, p in net.collect_params().items():
        *path, last = name.split(".")
        at = new if path[0] == "batch_stats" else grads[0]
        for key in path:
            at = at[key]
        got = p.data() if p.grad_req == "null" else p.grad()
        np.testing.assert_allclose(got.asnumpy(), at[last], rtol=1e-4, atol=1e-5, err_msg=name)


def test_training_is_one_program_a_step(hybridized):
    net = make(MLP(0.1), (6, 4), hybridized=hybridized)
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss_fn = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = mx.np.array(X), mx.np.array([0, 1, 0, 1, 1, 0])
    losses = []
    for step in range(40):
        if step == 5:
            mx.engine.reset()
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(6)
        losses.append(loss)
    stats = mx.engine.stats()
    assert stats["compiled"] == 0 and stats["segments"] == 35
    losses = [float(v.mean().item()) for v in losses]
    assert losses[-1] < losses[0] / 2


def test_parameters_come_at_the_first_call_without_examples(hybridized):
    net = nn.HybridSequential()
    net.add(nn.Dense(4), FlaxBlock(MLP()), nn.Dense(1))
    net.initialize()
    if hybridized:
        net.hybridize()
    with autograd.record():
        y = net(mx.np.array(X))
    y.backward()
    params = net.collect_params()
    assert {f"1.{name}" for name in NAMES} < set(params)
    assert params["1.Dense_0.kernel"].grad().asnumpy().any()


def test_the_seed_decides_the_first_values():
    def kernel(seed):
        mx.np.random.seed(seed)
        return make(linen.Dense(3), (1, 4)).collect_params()["kernel"].data().asnumpy()

    np.testing.assert_array_equal(kernel(1), kernel(1))
    assert (kernel(1) != kernel(2)).all()
    net = make(linen.Dense(64), (1, 64))
    assert abs(net.collect_params()["kernel"].data().asnumpy().std() - 1 / 8) < 0.01  # lecun_normal
    before = net.collect_params()["kernel"].data().asnumpy()
    net.initialize(force_reinit=True)
    assert (before != net.collect_params()["kernel"].data().asnumpy()).any()


def test_dropout_differs_call_by_call_and_repeats_with_the_seed(hybridized):
    net = make(MLP(0.5), (6, 4), hybridized=hybridized)
    x = mx.np.array(X)

    def two():
        mx.np.random.seed(3)
        with autograd.train_mode():
            return [net(x).asnumpy() for _ in range(2)]

    first, again = two(), two()
    assert (first[0] != first[1]).any()
    np.testing.assert_allclose(
        first[0], again[0], rtol=2e-5, atol=1e-6
    )  # a graph's first call is NumPy's
    np.testing.assert_array_equal(net(x).asnumpy(), net(x).asnumpy())


def test_nested_inputs_and_outputs(hybridized):
    class Both(linen.Module):
        @linen.compact
        def __call__(self, given, scale):
            return {"sum": linen.Dense(2)(given["a"]) + given["b"], "b": (given["b"] * scale,)}

    net = make(Both(), hybridized=hybridized)
    a, b = mx.np.ones((1, 3)), mx.np.array([[1.0, 2.0]])
    with pytest.raises(TypeError, match="give examples"):
        net({"a": a, "b": b}, 2)


def test_integer_inputs(hybridized):
    net = make(linen.Embed(5, 3), np.zeros((2,), "int64"), hybridized=hybridized)
    table = net.collect_params()["embedding"].data().asnumpy()
    got = net(mx.np.array([4, 1], dtype="int64"))
    assert got.dtype == "float32"
    np.testing.assert_array_equal(got.asnumpy(), table[[4, 1]])


def test_float64(hybridized):
    net = make(linen.Dense(3, dtype=None), (2, 4), hybridized=hybridized)
    net.cast("float64")
    x = mx.np.array(X[:2], dtype="float64")
    p = {k: v.data().asnumpy() for k, v in net.collect_params().items()}
    assert net(x).dtype == "float64"
    np.testing.assert_allclose(net(x).asnumpy(), x.asnumpy() @ p["kernel"] + p["bias"], rtol=1e-12)


def test_files(tmp_path):
    a, b = make(MLP(), (6, 4)), make(MLP(), (6, 4))
    a.save_parameters(tmp_path / "x.params")
    b.load_parameters(tmp_path / "x.params")
    x = mx.np.array(X)
    np.testing.assert_array_equal(a(x).asnumpy(), b(x).asnumpy())


def test_inside_a_block_of_ones_own():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = FlaxBlock(MLP(), (6, 4))
            self.head = nn.Dense(1)

        def forward(self, x):
            return self.head(self.body(x) * 2)

    net = Net()
    net.initialize()
    a = net(mx.np.array(X)).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(mx.np.array(X)).asnumpy(), a, rtol=1e-6)


def test_nnx_comes_in_as_linen():
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.hidden = nnx.Linear(4, 5, rngs=rngs)
            self.norm = nnx.BatchNorm(5, momentum=0.5, rngs=rngs)

        def __call__(self, x):
            return self.norm(self.hidden(x))

    net = make(nnx.bridge.to_linen(Net), (6, 4), hybridized=True)
    params = net.collect_params()
    with autograd.record():
        y = (net(mx.np.array(X)) ** 3).sum()
    y.backward()
    h = X @ params["hidden.kernel"].data().asnumpy() + params["hidden.bias"].data().asnumpy()
    got = params["batch_stats.norm.mean"].data().asnumpy()
    np.testing.assert_allclose(got, h.mean(0) / 2, rtol=1e-4, atol=1e-6)
    assert params["hidden.kernel"].grad().asnumpy().any()


def nnx_net(rate=0.0, seed=0):
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(4, 5, rngs=rngs), nnx.Linear(5, 2, rngs=rngs)])
            self.norm = nnx.BatchNorm(5, momentum=0.5, rngs=rngs)
            self.drop = nnx.Dropout(rate, rngs=rngs)
            self.again = nnx.Dropout(rate, rngs=rngs)

        def __call__(self, x):
            return {
                "y": self.layers[1](
                    self.again(self.drop(jax.nn.relu(self.norm(self.layers[0](x)))))
                )
            }

    return Net(nnx.Rngs(seed))


def test_modules_of_nnx_train_as_flax_trains_them(hybridized):
    from flax import nnx

    module = nnx_net()
    net = make(module, hybridized=hybridized)
    params = net.collect_params()
    assert set(params) == {
        "layers.0.kernel", "layers.0.bias", "layers.1.kernel", "layers.1.bias", "norm.scale", "norm.bias",
        "norm.mean", "norm.var",
    }  # fmt: skip
    assert params["norm.mean"].grad_req == "null"
    x = mx.np.array(X)
    module.eval()
    theirs = nnx.jit(lambda m: m(X)["y"])(module)
    np.testing.assert_allclose(net(x)["y"].asnumpy(), theirs, rtol=1e-5, atol=1e-6)
    module.train()
    theirs = nnx.jit(nnx.grad(lambda m: (m(X)["y"] ** 2).sum()))(module)
    with autograd.record():
        y = (net(x)["y"] ** 2).sum()
    y.backward()
    np.testing.assert_allclose(
        params["layers.0.kernel"].grad().asnumpy(),
        theirs["layers"][0]["kernel"].get_value(),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        params["norm.mean"].data().asnumpy(), module.norm.mean.get_value(), rtol=1e-4, atol=1e-6
    )
    module.eval()
    np.testing.assert_allclose(net(x)["y"].asnumpy(), module(X)["y"], rtol=1e-4, atol=1e-5)
    trainer = Trainer(params, "sgd", {"learning_rate": 0.1})
    before = module.layers[0].kernel.get_value().copy()
    trainer.step(1)
    np.testing.assert_array_equal(
        module.layers[0].kernel.get_value(), before
    )  # the object keeps its own
    assert (params["layers.0.kernel"].data().asnumpy() != np.asarray(before)).any()


def test_dropout_of_nnx_draws_from_our_seed(hybridized):
    net = make(nnx_net(0.5), hybridized=hybridized)
    x = mx.np.array(X)

    def run(seed):
        mx.random.seed(seed)
        with autograd.train_mode():
            return net(x)["y"].asnumpy(), net(x)["y"].asnumpy()

    one, two = run(1)
    np.testing.assert_array_equal(run(1)[0], one)
    assert (one != two).any() and (run(2)[0] != one).any()


def test_modules_of_nnx_are_functional_too():
    module = nnx_net()
    net = make(module)
    params, state = mx.gluon.functional.split(net)
    assert set(state) == {"norm.mean", "norm.var"}
    out, after = jax.jit(lambda p, s: mx.gluon.functional.call(net, p, s, X, train=True))(
        params, state
    )
    module.train()
    np.testing.assert_allclose(out["y"], module(X)["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after["norm.var"], module.norm.var.get_value(), rtol=1e-5)
    net = make(nnx_net(0.5))
    params, state = mx.gluon.functional.split(net)
    mx.gluon.functional.call(net, params, state, X)
    with pytest.raises(ValueError, match="draws random numbers"):
        mx.gluon.functional.call(net, params, state, X, train=True)


def test_only_modules_are_taken():
    with pytest.raises(TypeError, match=r"flax.linen or flax.nnx.*got function"):
        FlaxBlock(lambda x: x)
    with pytest.raises(TypeError, match="an object.*got Dense"):
        FlaxBlock(linen.Dense)
    with pytest.raises(TypeError, match="an example is a shape"):
        FlaxBlock(MLP(), "foo")
