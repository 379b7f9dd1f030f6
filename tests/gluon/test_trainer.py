"""The trainer against runs of MXNet 2.0, and what it promises besides."""

import json
from pathlib import Path

import numpy as onp
import optax
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.run.scheduler import forget
from mxjax.gluon.trainer import StaleGradientError

RUNS = json.loads((Path(__file__).parents[1] / "data" / "trainer.json").read_text())


def numpy(recorded):
    return onp.array(recorded["data"], recorded["dtype"]).reshape(recorded["shape"])


X, Y = numpy(RUNS["x"]), numpy(RUNS["y"])


def network(device=None):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, activation="relu", in_units=3), gluon.nn.Dense(2, in_units=4))
    net.initialize(device=device)
    for name, value in RUNS["start"].items():
        net.collect_params()[name].set_data(mx.np.array(numpy(value)))
    return net


def arguments(case):
    kwargs = dict(case["kwargs"])
    if case["schedule"]:
        name, options = case["schedule"]
        kwargs["lr_scheduler"] = getattr(mx.lr_scheduler, name)(**options)
        kwargs["learning_rate"] = None
    return kwargs


def case_id(case):
    return f"{case['optimizer']}-{case['kwargs']}-{case['schedule']}-{len(case['mults'])}"


loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()


def one_step(net, trainer, **kwargs):
    with autograd.record():
        loss = loss_fn(net(mx.np.array(X)), mx.np.array(Y, dtype="int32"))
    loss.backward()
    trainer.step(len(X), **kwargs)
    return loss


def values(net):
    return {k: p.data().asnumpy() for k, p in net.collect_params().items()}


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("case", RUNS["cases"], ids=case_id)
def test_training_equals_mxnet(case, hybridize):
    net = network()
    if hybridize:
        net.hybridize()
    params = net.collect_params()
    for name, own in case["mults"].items():
        for key, value in own.items():
            setattr(params[name], key, value)
    trainer = gluon.Trainer(params, case["optimizer"], arguments(case))
    losses = [one_step(net, trainer).mean().item() for _ in case["losses"]]
    onp.testing.assert_allclose(losses, case["losses"], rtol=1e-5, atol=1e-6)
    for name, want in case["end"].items():
        onp.testing.assert_allclose(
            params[name].data().asnumpy(), numpy(want), rtol=1e-4, atol=1e-5
        )


@pytest.mark.programs
def test_a_step_is_one_program_and_a_schedule_compiles_nothing():
    forget()
    net = network()
    schedule = mx.lr_scheduler.PolyScheduler(1000, base_lr=0.1)
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": None, "lr_scheduler": schedule}
    )
    accuracy = gluon.metric.Accuracy()
    x, y = mx.np.array(X), mx.np.array(Y, dtype="int32")
    for step in range(25):
        if step == 5:
            mx.npx.waitall()
            mx.engine.reset()
        with autograd.record():
            out = net(x)
            loss = loss_fn(out, y)
        loss.backward()
        accuracy.update(y, out)
        trainer.step(len(X))
    mx.npx.waitall()
    stats = mx.engine.stats()
    assert stats["compiled"] == 0
    assert stats["programs"] == 20
    assert stats["donated"] >= 20 * 3 * 4  # each parameter and its two averages
    assert 0 <= accuracy.get()[1] <= 1


class OwnStore:
    """A kvstore as users may bring one: one key at a time."""

    type = "own"

    def __init__(self):
        self.calls = []

    def is_capable(self, capability):
        return False

    def broadcast(self, key, value, out, priority=0):
        self.calls.append("broadcast")
        for target in out:
            target[:] = value.to_device(target.device)

    def pushpull(self, key, value, out=None, priority=0):
        self.calls.append("pushpull")
        total = sum(v.asnumpy() for v in value)
        for target in out or value:
            target[:] = mx.np.array(total, device=target.device)


@pytest.mark.parametrize("store", ["device", "local", "own", "teststore"])
def test_four_devices_equal_one(store):
    devices = [mx.cpu(i) for i in range(4)]
    one, many = network(), network(devices)
    kvstore = OwnStore() if store == "own" else store
    trainers = [
        gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3, "momentum": 0.9}, kv)
        for net, kv in ((one, "device"), (many, kvstore))
    ]
    for _ in range(20):
        one_step(one, trainers[0])
        parts = gluon.utils.split_and_load(mx.np.array(X), devices)
        labels = gluon.utils.split_and_load(mx.np.array(Y, dtype="int32"), devices)
        with autograd.record():
            losses = [loss_fn(many(x), y) for x, y in zip(parts, labels, strict=True)]
        for loss in losses:
            loss.backward()
        trainers[1].step(len(X))
    for name, want in values(one).items():
        for device in devices:
            got = many.collect_params()[name].data(device).asnumpy()
            onp.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if store == "own":
        assert kvstore.calls == ["broadcast"] * 4 + ["pushpull"] * 80


def test_a_kvstore_that_runs_no_optimizers_is_not_asked_to():
    trainer = gluon.Trainer(
        network().collect_params(), "sgd", kvstore=OwnStore(), update_on_kvstore=True
    )
    with pytest.raises(ValueError, match="update_on_kvstore=False"):
        trainer.step(1)


def test_optax_transformations_train():
    net = network()
    trainer = gluon.Trainer(net.collect_params(), optax.adam(0.05))
    want = next(c for c in RUNS["cases"] if c["kwargs"] == {"learning_rate": 0.05})
    losses = [one_step(net, trainer).mean().item() for _ in want["losses"]]
    # The same algorithm, with epsilon in another place.
    onp.testing.assert_allclose(losses, want["losses"], rtol=1e-3)


def test_stale_gradients_are_an_error_or_left_alone():
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with pytest.raises(UserWarning, match="has not been updated by backward since last `step`"):
        trainer.step(1)
    one_step(net, trainer)
    before = values(net)
    with pytest.raises(StaleGradientError) as caught:
        trainer.step(1)
    assert isinstance(caught.value, mx.MXNetError)
    with autograd.record():
        loss = net[0](mx.np.array(X)).sum()
    loss.backward()
    trainer.step(1, ignore_stale_grad=True)
    after = values(net)
    assert (after["1.weight"] == before["1.weight"]).all()
    assert (after["0.weight"] != before["0.weight"]).any()


def test_frozen_parameters_stay():
    net = network()
    net[0].weight.grad_req = "null"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    before = values(net)
    one_step(net, trainer)
    after = values(net)
    assert (after["0.weight"] == before["0.weight"]).all()
    assert (after["1.weight"] != before["1.weight"]).any()


def test_accumulated_gradients():
    net, half = network(), len(X) // 2
    for p in net.collect_params().values():
        p.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3})
    for part in (slice(0, half), slice(half, None)):
        with autograd.record():
            loss = loss_fn(net(mx.np.array(X[part])), mx.np.array(Y[part], dtype="int32"))
        loss.backward()
    trainer.step(len(X))
    other = network()
    one_step(other, gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.3}))
    for name, want in values(other).items():
        onp.testing.assert_allclose(values(net)[name], want, rtol=1e-5, atol=1e-6)


@pytest.mark.programs
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "nadam"])
def test_states_go_to_disk_and_back(optimizer, tmp_path):
    kwargs = {"learning_rate": 0.1, **({"momentum": 0.9} if optimizer == "sgd" else {})}
    net = network()
    trainer = gluon.Trainer(net.collect_params(), optimizer, kwargs)
    for _ in range(3):
        one_step(net, trainer)
    trainer.save_states(tmp_path / "trainer.states")
    net.save_parameters(str(tmp_path / "net.params"))
    other = network()
    other.load_parameters(str(tmp_path / "net.params"))
    resumed = gluon.Trainer(other.collect_params(), optimizer, {"learning_rate": 0.7})
    resumed.load_states(tmp_path / "trainer.states")
    assert resumed.learning_rate == 0.1
    for _ in range(3):
        one_step(net, trainer)
        one_step(other, resumed)
    for name, want in values(net).items():
        assert (values(other)[name] == want).all()


def test_learning_rate_and_optimizer():
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    assert trainer.learning_rate == 0.1
    trainer.set_learning_rate(0.2)
    assert trainer.optimizer.lr == 0.2
    opt = mx.optimizer.Adam()
    assert gluon.Trainer(net.collect_params(), opt).optimizer is opt
    with pytest.raises(AssertionError):
        gluon.Trainer(net.collect_params(), opt, {"learning_rate": 1})
    with pytest.raises(ValueError, match="Cannot find optimizer"):
        gluon.Trainer(net.collect_params(), "nothing")
    with pytest.raises(TypeError, match="optax"):
        gluon.Trainer(net.collect_params(), 3)


def test_what_is_no_parameter_is_refused():
    with pytest.raises(ValueError, match="list or dict"):
        gluon.Trainer(3, "sgd")
    with pytest.raises(ValueError, match="list of"):
        gluon.Trainer([mx.np.ones(2)], "sgd")
    net = gluon.nn.Dense(2, in_units=2)
    with pytest.raises(mx.MXNetError, match="initialize"):
        gluon.Trainer(net.collect_params(), "sgd")


def test_shared_parameters_are_updated_once():
    first = gluon.nn.Dense(3, in_units=3, use_bias=False)
    first.initialize(mx.init.One())
    second = gluon.nn.Dense(3, in_units=3, use_bias=False).share_parameters(first.params)
    params = [first.weight, second.weight]
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = (first(mx.np.ones((1, 3))) + second(mx.np.ones((1, 3)))).sum()
    loss.backward()
    trainer.step(1)
    assert first.weight.data().asnumpy().tolist() == [[-1.0] * 3] * 3


def test_reducing_and_updating_apart():
    net, other = network(), network()
    trainers = [
        gluon.Trainer(n.collect_params(), "sgd", {"learning_rate": 0.1}) for n in (net, other)
    ]
    one_step(net, trainers[0])
    with autograd.record():
        loss = loss_fn(other(mx.np.array(X)), mx.np.array(Y, dtype="int32"))
    loss.backward()
    trainers[1].allreduce_grads()
    trainers[1].update(len(X))
    for name, want in values(net).items():
        assert (values(other)[name] == want).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_networks_train_on_float32_copies(dtype, tmp_path):
    net = network()
    net.cast(dtype)
    kwargs = {"learning_rate": 0.3, "momentum": 0.9, "multi_precision": True}
    trainer = gluon.Trainer(net.collect_params(), "sgd", kwargs)
    x = mx.np.array(X).astype(dtype)
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = loss_fn(net(x), mx.np.array(Y, dtype="int32"))
        loss.backward()
        trainer.step(len(X))
        losses.append(loss.astype("float32").mean().item())
    assert losses[-1] < 0.7 * losses[0]
    assert net[0].weight.data().dtype.name == dtype
    master, momentum = trainer._updaters[0].states[0]
    assert master.dtype == momentum.dtype == onp.float32
    trainer.save_states(tmp_path / "low.states")
    trainer.load_states(tmp_path / "low.states")
    assert trainer._updaters[0].states[0][0].dtype == onp.float32


# ---- names of devices --------------------------------------------------------------------------------------------

NAMES = [mx.cpu(0), mx.cpu(4)]  # XLA's first device, twice


def train(devices, steps=4, hybrid=False, **kwargs):
    """The weights after some steps, and what the engine counted in each."""
    net = network(devices)
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, **kwargs)
    counts = []
    for _ in range(steps):
        mx.waitall()
        before = mx.engine.stats()
        xs, ys = (gluon.utils.split_and_load(a, devices, even_split=False) for a in (X, Y))
        with autograd.record():
            losses = [loss_fn(net(x), y.astype("int32")) for x, y in zip(xs, ys, strict=True)]
        for loss in losses:
            loss.backward()
        trainer.step(len(X))
        mx.waitall()
        now = mx.engine.stats()
        counts.append({k: now[k] - before[k] for k in now})
    for p in net.collect_params().values():
        assert p.list_device() == list(devices)
        assert [a.device for a in (*p.list_data(), *p.list_grad())] == [*devices, *devices]
        for a in p.list_data():
            # Where one device has a program and NumPy computes another's steps, code that is generated as users' is
            # rounds a product and a sum once, and NumPy twice.
            onp.testing.assert_allclose(
                a.asnumpy(), p.list_data()[0].asnumpy(), rtol=1e-6, atol=1e-7
            )
    return [p.list_data()[0].asnumpy() for p in net.collect_params().values()], counts


@pytest.mark.parametrize("generation", ["1.9", "2.0"])
def test_a_store_that_updates_with_an_optimizer_of_many_at_once(generation):
    """MXNet 2 refuses it, 1.9 does not."""
    weight = mx.gluon.Parameter("weight", shape=(2,))
    weight.initialize(mx.init.One())
    with mx.config.scope(compat_version=generation):
        if generation == "2.0":
            with pytest.raises(ValueError, match="aggregate_num > 1"):
                mx.gluon.Trainer([weight], "lamb", update_on_kvstore=True)
        else:
            mx.gluon.Trainer([weight], "lamb", update_on_kvstore=True)


@pytest.mark.programs
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("kvstore", ["local", "device"])
@pytest.mark.parametrize("update_on_kvstore", [False, True])
def test_two_names_train_as_one_device(hybrid, kvstore, update_on_kvstore):
    want, _ = train([mx.cpu(0)])
    got, counts = train(NAMES, hybrid=hybrid, kvstore=kvstore, update_on_kvstore=update_on_kvstore)
    for a, b in zip(got, want, strict=True):
        onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert [c["compiled"] for c in counts[2:]] == [0, 0]


@pytest.mark.programs
@pytest.mark.parametrize(  # each number of names, and both ways with one of them
    ("hybrid", "names"),
    [
        (False, NAMES),
        (True, NAMES),
        (False, [mx.cpu(4), mx.cpu(8)]),
        (True, [mx.cpu(0), mx.cpu(4), mx.cpu(8), mx.cpu(12)]),
    ],
)
def test_names_of_one_device_compile_once(hybrid, names):
    """A step is a program for each part of the batch, one for the sums and one for each update: three are compiled."""
    forget()
    _, counts = train(names, hybrid=hybrid, update_on_kvstore=False)
    assert [c["programs"] for c in counts[1:]] == [2 * len(names) + 1] * 3
    # The first step also initializes. The second has gradients to overwrite: one program for all parts.
    assert [c["compiled"] for c in counts[1:]] == [1, 0, 0]


def test_physical_devices_and_their_names_train_together():
    want, _ = train([mx.cpu(0)])
    for on_kvstore in (False, True):
        got, _ = train([mx.cpu(0), mx.cpu(1), mx.cpu(4)], update_on_kvstore=on_kvstore)
        for a, b in zip(got, want, strict=True):
            onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_value_that_is_set_reaches_the_store():
    """MXNet makes the store anew: the next step starts from the new value, without momentum."""
    x = gluon.Parameter("x", shape=(3,))
    x.initialize(init="zeros", device=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer(
        [x], "sgd", {"learning_rate": 0.5, "momentum": 0.5}, update_on_kvstore=True
    )
    for start in (0, 10):
        x.set_data(mx.np.full(3, start))
        for _ in range(2):
            with mx.autograd.record():
                losses = [w.sum() for w in x.list_data()]
            mx.autograd.backward(losses)
            trainer.step(1)
        # The gradient is 2 for two devices: steps of 1 and 1.5.
        onp.testing.assert_allclose(x.data(mx.cpu(1)).asnumpy(), start - 2.5)


class _TwoHeads(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.a, self.b = gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=3)

    def forward(self, x):
        return self.a(x), self.b(x)


@pytest.mark.parametrize("req", ["write", "add"])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("cold", ["auto", "compile"])
def test_static_alloc_has_zeros_where_the_loss_depends_on_no_weight(cold, static, req):
    """Recorded of MXNet 1.9.1 and 2.0.0b1: zeros (for `add` what there is); refused without static_alloc."""
    mx.config.set({"engine.cold": cold})
    net = _TwoHeads()
    net.initialize(mx.init.One())
    net.setattr("grad_req", req)
    net.hybridize(static_alloc=static)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "wd": 0.5})
    x = mx.np.ones((1, 3))
    net(x)
    net.b.weight.grad()[:] = 1
    with autograd.record():
        loss = net(x)[0].sum()
    loss.backward()
    if not static:
        with pytest.raises(UserWarning, match="has not been updated"):
            trainer.step(1)
        return
    trainer.step(1)
    kept = 0 if req == "write" else 1
    onp.testing.assert_array_equal(net.b.weight.grad().asnumpy(), onp.full((2, 3), kept))
    onp.testing.assert_allclose(
        net.b.weight.data().asnumpy(), onp.full((2, 3), 1 - 0.5 * (kept + 0.5)), rtol=1e-6
    )
    onp.testing.assert_allclose(net.a.weight.data().asnumpy(), onp.full((2, 3), 0.25), rtol=1e-6)
    with pytest.raises(UserWarning, match="has not been updated"):
        trainer.step(1)  # no backward pass since
