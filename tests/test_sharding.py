"""Meshes: the losses and weights of one device, as one program per step, however parameters are cut."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, errors, gluon
from mxjax.core.run import scheduler
from mxjax.gluon import nn

BATCH = 8
DATA = np.random.RandomState(7).randn(BATCH, 6).astype("float32")
LABEL = np.random.RandomState(8).randint(0, 4, BATCH).astype("float32")
LOSS = gluon.loss.SoftmaxCrossEntropyLoss()
STEPS = 4
# Not Adam: where a gradient is nearly nothing it makes the last bits of a sum as large as the rest.
SGD = {"learning_rate": 0.1, "momentum": 0.9}


def _net(device: Any = None, hybrid: bool = True) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(
        nn.Dense(8, in_units=6, activation="relu"),
        nn.BatchNorm(in_channels=8),
        nn.Dense(4, in_units=8),
    )
    net.initialize(device=device)
    values = np.random.RandomState(9)
    for name, p in net.collect_params().items():
        if "weight" in name or "bias" in name:
            p.set_data(mx.np.array(values.randn(*p.shape).astype("float32") * 0.3))
    if hybrid:
        net.hybridize()
    return net


def _train(
    net: Any, trainer: Any, data: Any, label: Any
) -> tuple[list[float], list[dict[str, Any]]]:
    losses, counts = [], []
    for _ in range(STEPS):
        mx.engine.reset()
        with autograd.record():
            loss = LOSS(net(data), label).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asnumpy()))
        mx.waitall()
        counts.append(mx.engine.stats())
    return losses, counts


def _weights(net: Any) -> dict[str, np.ndarray]:
    return {k: p.data().asnumpy() for k, p in net.collect_params().items()}


@pytest.fixture(scope="module")
def alone() -> tuple[list[float], dict[str, np.ndarray]]:
    net = _net()
    trainer = gluon.Trainer(net.collect_params(), "sgd", SGD)
    losses, _ = _train(net, trainer, mx.np.array(DATA), mx.np.array(LABEL))
    return losses, _weights(net)


TENSOR = {"0.weight": ("model", None), "0.bias": "model", "2.weight": (None, "model")}
WAYS: dict[str, tuple[str, Any]] = {
    "data": ("data=4", None),
    "fsdp": ("data=4", "fsdp"),
    "tensor": ("model=4", TENSOR),
    "both": ("data=2,model=2", TENSOR),
}


# Imperative steps take the same path: one way of cutting shows it.
@pytest.mark.parametrize(("way", "hybrid"), [*((way, True) for way in WAYS), ("both", False)])
def test_training_on_a_mesh_is_training(
    way: str, hybrid: bool, alone: tuple[list[float], dict[str, np.ndarray]]
) -> None:
    scheduler.forget()
    axes, specs = WAYS[way]
    mesh = mx.mesh(axes)
    net = _net(hybrid=hybrid).shard(mesh, specs)
    trainer = gluon.Trainer(net.collect_params(), "sgd", SGD, kvstore=mesh)
    along = mesh.data_axis if "data" in mesh.shape else None
    data, label = mesh.put(DATA, along), mesh.put(LABEL, along)
    laid = {k: p.data().jax.sharding for k, p in net.collect_params().items()}
    losses, counts = _train(net, trainer, data, label)
    expected, weights = alone
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-5)
    for name, value in _weights(net).items():
        np.testing.assert_allclose(value, weights[name], rtol=0, atol=1e-5, err_msg=name)
    # One program per step, and nothing compiled once the first steps are over.
    assert [c["programs"] for c in counts[1:]] == [1] * (STEPS - 1)
    assert [c["compiled"] for c in counts[2:]] == [0] * (STEPS - 2)
    for name, p in net.collect_params().items():
        assert p.data().jax.sharding.is_equivalent_to(laid[name], len(p.shape)), name
        if p.grad_req != "null":
            assert p.grad().jax.sharding.is_equivalent_to(laid[name], len(p.shape)), name
    for name, state in zip(net.collect_params(), _states(trainer, net), strict=True):
        for leaf in state:
            assert leaf.jax.sharding.is_equivalent_to(laid[name], len(leaf.shape)), name
    if way == "fsdp":
        assert laid["0.weight"].shard_shape((8, 6)) == (2, 6)
        assert laid["2.weight"].shard_shape((4, 8)) == (4, 2)


def _states(trainer: Any, net: Any) -> list[Any]:
    index = {id(p): i for i, p in enumerate(trainer._params)}
    states = trainer._updaters[0].states
    found = [states.get(index[id(p)]) for p in net.collect_params().values()]
    return [() if s is None else (s,) for s in found]


def test_lists_of_devices_and_a_mesh_give_the_same_losses() -> None:
    devices = [mx.cpu(i) for i in range(2)]
    found = []
    for where in (devices, mx.mesh(data=2)):
        net = nn.Dense(4, in_units=6, activation="tanh")
        net.initialize(device=where)
        net.weight.set_data(mx.np.array(np.random.RandomState(9).randn(4, 6).astype("float32")))
        net.hybridize()
        trainer = gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}
        )
        losses = []
        for _ in range(3):
            data = gluon.utils.split_and_load(DATA, where)
            label = gluon.utils.split_and_load(LABEL, where)
            with autograd.record():
                parts = [LOSS(net(x), y) for x, y in zip(data, label, strict=True)]
            autograd.backward(parts)
            trainer.step(BATCH)
            losses.append(np.concatenate([part.asnumpy() for part in parts]))
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-5)


def test_communication_is_what_the_way_of_cutting_needs() -> None:
    seen: dict[str, str] = {}
    for way in ("data", "fsdp"):
        scheduler.forget()
        axes, specs = WAYS[way]
        mesh = mx.mesh(axes)
        net = nn.Dense(8, in_units=8, use_bias=False)
        net.initialize()
        net.shard(mesh, specs)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=mesh)
        with autograd.record():
            loss = (net(mesh.split(np.ones((8, 8), "float32"))) ** 2).mean()
        loss.backward()
        trainer.step(1)
        mx.waitall()
        texts = [
            program.compiled.as_text()
            for step in _steps(scheduler.Tree.roots[mesh.jax_device])
            for program in step.programs.values()
        ]
        seen[way] = "\n".join(texts)
    assert "all-reduce" in seen["data"] and "all-gather" not in seen["data"]
    assert "all-gather" in seen["fsdp"]


def _steps(root: Any) -> list[Any]:
    found = [root]
    for step in found:
        found.extend(step.next.values())
    return found


# ---- arrays on a mesh --------------------------------------------------------------------------------------


def test_arrays() -> None:
    mesh = mx.mesh(data=2, model=2)
    assert (mesh.shape, mesh.size, repr(mesh)) == (
        {"data": 2, "model": 2},
        4,
        "mesh(data=2, model=2)",
    )
    x = mesh.put(np.arange(24).reshape(4, 6), ("data", "model"))
    assert x.device is mesh and x.jax.sharding.shard_shape((4, 6)) == (2, 3)
    y = mx.np.ones((4, 6), device=mesh)
    z = (x + y).sum(axis=0)
    np.testing.assert_array_equal(z.asnumpy(), (np.arange(24).reshape(4, 6) + 1).sum(0))
    assert z.device is mesh
    assert x.to_device(mx.cpu(1)).device == mx.cpu(1)
    back = mx.np.ones(3).to_device(mesh)
    assert back.device is mesh and back.jax.sharding.is_fully_replicated
    with mesh:
        assert mx.np.zeros(2).device is mesh and mx.current_device() is mesh
        drawn = mx.np.random.uniform(size=(3,))
        assert drawn.device is mesh and ((drawn.asnumpy() >= 0) & (drawn.asnumpy() < 1)).all()
    x[1] = 0
    assert not x.asnumpy()[1].any() and x.asnumpy()[2].tolist() == list(range(12, 18))
    double = mesh.put(mx.np.array([0.1, 0.2], dtype="float64"), "data")
    assert double.dtype == np.float64 and double.tolist() == [0.1, 0.2]


def test_gradients_come_back_from_a_mesh() -> None:
    mesh = mx.mesh(data=4)
    x = mx.np.array([1.0, 2.0, 3.0, 4.0])
    x.attach_grad()
    with autograd.record():
        y = (x.to_device(mesh) ** 2).sum()
    y.backward()
    assert x.grad.tolist() == [2, 4, 6, 8] and x.grad.device == mx.cpu(0)


def test_copies_on_a_mesh_survive_each_other() -> None:
    """A buffer may be a device's array and a part of a mesh's: neither is written over in place."""
    mesh = mx.mesh(data=4)
    first = mx.np.arange(64.0)
    mx.waitall()
    spread, whole = mesh.split(first), first.to_device(mesh)
    for x in (spread, whole):
        x += 1
    back = whole.to_device(mx.cpu(0))
    mx.waitall()
    back *= 2
    whole -= 1
    first += 3
    mx.waitall()
    k = np.arange(64.0)
    for x, expected in ((first, k + 3), (spread, k + 1), (whole, k), (back, 2 * k + 2)):
        np.testing.assert_array_equal(x.asnumpy(), expected)


def test_one_mesh_is_one_device() -> None:
    mesh = mx.mesh("data=2,model=2")
    assert mx.mesh({"data": 2, "model": 2}) is mesh
    assert mx.mesh(mesh.jax_mesh) is mesh
    assert pickle.loads(pickle.dumps(mesh)) is mesh
    assert mx.mesh().shape == {"data": len(jax.devices())}
    small = mx.mesh(data=2, devices=[mx.cpu(3), mx.cpu(1)])
    assert [d.id for d in small.jax_mesh.devices.flat] == [3, 1]
    single = mx.mesh(data=1)
    assert (mx.np.ones(2, device=single) + 1).tolist() == [2, 2]


def test_parameters_say_how_they_are_cut() -> None:
    mesh = mx.mesh(data=2, model=2)
    net = nn.Dense(4, in_units=6)
    net.weight.sharding = (None, "model")
    net.initialize()
    net.shard(mesh)
    assert net.weight.data().jax.sharding.shard_shape((4, 6)) == (4, 3)
    assert net.bias.data().jax.sharding.is_fully_replicated
    before = net.weight.data().jax.sharding
    net.weight.set_data(mx.np.ones((4, 6)))
    assert net.weight.data().jax.sharding == before and net.weight.data().asnumpy().all()
    p = gluon.Parameter("weight", shape=(4, 2), sharding=("data", "model"))
    p.initialize()
    gluon.Trainer([p], "sgd", kvstore=mesh)
    assert p.data().jax.sharding.shard_shape((4, 2)) == (2, 1)
    q, r = (gluon.Parameter("weight", shape=s) for s in ((4, 2), (3,)))
    for one in (q, r):
        one.initialize()
    sharding = jax.sharding.NamedSharding(mesh.jax_mesh, jax.sharding.PartitionSpec("data"))
    gluon.Trainer([q, r], "sgd", kvstore=sharding)
    assert q.data().jax.sharding.shard_shape((4, 2)) == (2, 2)
    assert r.data().jax.sharding.is_fully_replicated  # 3 is not divisible by 2


def test_shapes_that_are_not_known_yet() -> None:
    mesh = mx.mesh(data=2, model=2)
    net = nn.HybridSequential()
    net.add(nn.Dense(8), nn.Dense(4))
    net.initialize()
    net.shard(mesh, {"0.weight": ("model", None)})
    net.hybridize()
    assert net(mesh.split(DATA)).shape == (BATCH, 4)
    assert net[0].weight.data().jax.sharding.shard_shape((8, 6)) == (4, 6)
    assert (
        net[1].weight.data().jax.sharding.is_fully_replicated
        and net[1].weight.data().device is mesh
    )
    late = nn.Dense(4)
    late.initialize()
    trainer = gluon.Trainer(late.collect_params(), "sgd", kvstore=mesh)
    with autograd.record():
        loss = late(mesh.split(DATA)).sum()
    loss.backward()
    trainer.step(1)
    assert late.weight.data().device is mesh and late.weight.data().asnumpy().any()


def test_saved_and_loaded(tmp_path: Any) -> None:
    mesh = mx.mesh(data=4)
    net = _net().shard(mesh, "fsdp")
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=mesh)
    _train(net, trainer, mesh.split(DATA), mesh.split(LABEL))
    net.save_parameters(str(tmp_path / "p"))
    trainer.save_states(str(tmp_path / "s"))
    other = _net()
    other.load_parameters(str(tmp_path / "p"))
    for name, value in _weights(other).items():
        np.testing.assert_array_equal(value, _weights(net)[name])
    back = gluon.Trainer(other.collect_params(), "adam")
    back.load_states(str(tmp_path / "s"))
    trainer.load_states(str(tmp_path / "s"))
    first, _ = _train(net, trainer, mesh.split(DATA), mesh.split(LABEL))
    second, _ = _train(other, back, mx.np.array(DATA), mx.np.array(LABEL))
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-5)
    index = [p is net[0].weight for p in trainer._params].index(True)
    for leaf in trainer._updaters[0].states[index]:  # loaded states lie as their weight does
        assert leaf.jax.sharding.shard_shape((8, 6)) == (2, 6)


def test_states_of_whole_weights_can_be_cut() -> None:
    mesh = mx.mesh(data=4)
    net = nn.Dense(8, in_units=6)
    net.initialize()
    plain = gluon.Trainer(net.collect_params(), "adam", kvstore=mesh, update_on_kvstore=True)
    with autograd.record():
        loss = (net(mesh.split(DATA)) ** 2).mean()
    loss.backward()
    plain.step(1)
    assert net.weight.data().jax.sharding.is_fully_replicated
    cut = {
        leaf.jax.sharding.shard_shape(leaf.shape)
        for s in plain._updaters[0].states.values()
        for leaf in s
    }
    assert cut == {(2, 6), (2,)}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: mx.mesh(data=64), "needs 64 devices"),
        (lambda: mx.mesh(data=-1, model=-1), "at most one is -1"),
        (lambda: mx.mesh("data:2"), "data=2,model=4"),
        (lambda: mx.mesh(data=2).put(np.ones(4), "dta"), "no axis 'dta'.*data"),
        (lambda: mx.mesh(data=2).put(np.ones(3), "data"), "3 is not divisible by 2"),
        (lambda: mx.mesh(data=2).put(np.ones(4), ("data", None)), "2 entries"),
        (
            lambda: _net().shard(mx.mesh(data=2), {"9.weight": "data"}),
            "no parameter is called '9.weight'",
        ),
        (lambda: _net().shard(mx.mesh(data=2), "fdsp"), "'fsdp'"),
        (lambda: nn.Dense(3).shard(mx.mesh(data=2)), "not initialized"),
    ],
)
def test_mistakes(make: Any, match: str) -> None:
    with pytest.raises(errors.MXNetValueError, match=match):
        make()


def test_a_batch_that_is_not_on_the_mesh() -> None:
    mesh = mx.mesh(data=2)
    with pytest.raises(errors.DeviceError, match=r"mesh\.split"):
        mx.np.ones(2, device=mesh) + mx.np.ones(2)
