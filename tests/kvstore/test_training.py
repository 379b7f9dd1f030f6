"""Training on four devices: the same parameters as on one, and one collective program per step."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, core, gluon
from mxjax.core.run import scheduler
from mxjax.gluon import nn
from tests.kvstore.watching import Runs

BATCH = 16
DATA = np.random.RandomState(7).randn(BATCH, 3, 8, 8).astype("float32")
LABEL = np.random.RandomState(8).randint(0, 5, BATCH).astype("float32")
LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def _net(devices: list[mx.Device], hybrid: bool) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=3, activation="relu"), nn.MaxPool2D(2, 2), nn.Flatten())
    net.add(nn.Dense(8, in_units=36, activation="tanh"), nn.Dense(5, in_units=8))
    net.initialize(device=devices)
    values = np.random.RandomState(9)
    for p in net.collect_params().values():
        p.set_data(mx.np.array(values.randn(*p.shape).astype("float32") * 0.2))
    if hybrid:
        net.hybridize()
    return net


def _step(net: nn.HybridSequential, trainer: gluon.Trainer, devices: list[mx.Device]) -> None:
    data = gluon.utils.split_and_load(DATA, devices)
    label = gluon.utils.split_and_load(LABEL, devices)
    with autograd.record():
        losses = [LOSS(net(x), y) for x, y in zip(data, label, strict=True)]
    autograd.backward(losses)
    trainer.step(BATCH)


def _trained(
    n: int, hybrid: bool, optimizer: str, steps: int, **kwargs: object
) -> tuple[dict[str, list[np.ndarray]], list[dict[str, int]]]:
    scheduler.forget()  # what other tests compiled must not count
    devices = [mx.cpu(i) for i in range(n)]
    net = _net(devices, hybrid)
    arguments = {"learning_rate": 0.01}
    if optimizer == "sgd":
        arguments["momentum"] = 0.9
    trainer = gluon.Trainer(net.collect_params(), optimizer, arguments, kvstore="device", **kwargs)
    counts = []
    runs = Runs()
    core.observe(runs)
    try:
        for _ in range(steps):
            mx.engine.reset()
            runs.names.clear()
            _step(net, trainer, devices)
            mx.waitall()
            sums = runs.names.count("kvstore_allreduce")
            counts.append({**mx.engine.stats(), "sums": sums})
    finally:
        core.unobserve(runs)
    params = {k: [a.asnumpy() for a in p.list_data()] for k, p in net.collect_params().items()}
    return params, counts


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("optimizer", [pytest.param("sgd", marks=pytest.mark.slow), "adam"])
def test_four_devices_train_as_one(hybrid: bool, optimizer: str) -> None:
    alone, _ = _trained(1, hybrid, optimizer, 20)
    together, counts = _trained(4, hybrid, optimizer, 20)
    for name, (expected,) in alone.items():
        for replica in together[name]:
            np.testing.assert_allclose(replica, expected, rtol=0, atol=1e-6)
            np.testing.assert_array_equal(replica, together[name][0])
    assert all(c["sums"] == 1 for c in counts)
    assert all(c["compiled"] == 0 for c in counts[5:])
    assert len({c["programs"] for c in counts[5:]}) == 1


def test_the_store_updates_the_weights() -> None:
    alone, _ = _trained(1, False, "sgd", 5)
    together, _ = _trained(4, False, "sgd", 5, update_on_kvstore=True)
    for name, (expected,) in alone.items():
        for replica in together[name]:
            np.testing.assert_allclose(replica, expected, rtol=0, atol=1e-6)


def test_replicas_start_equal() -> None:
    devices = [mx.cpu(i) for i in range(4)]
    net = _net(devices, False)
    weight = net.collect_params()["3.weight"]
    for k, replica in enumerate(weight.list_data()):
        replica[:] = k
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0})
    _step(net, trainer, devices)
    for replica in weight.list_data():
        assert (replica.asnumpy() == 0).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("DIST_SYNC", mx.MXNetError), ("p3", mx.MXNetError), ("horovod", ModuleNotFoundError)],
)
def test_a_store_of_several_processes_is_made_for_one_device_too(
    name: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it each process would train by itself."""
    for variable in ("DMLC_PS_ROOT_URI", "DMLC_ROLE"):
        monkeypatch.delenv(variable, raising=False)
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore=name)
    with mx.autograd.record():
        loss = net(mx.np.ones((4, 2))).sum()
    loss.backward()
    with pytest.raises(kind, match=r"mxjax\.launch|horovod"):
        trainer.step(4)
