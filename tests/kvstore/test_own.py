"""Stores of users in a trainer: MXNet's methods of a store are all that they need to have."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon

DEVICES = [mx.cpu(0), mx.cpu(1)]
X = np.arange(12, dtype="float32").reshape(4, 3) / 10


class Methods:
    """What MXNet's interface has; the optimizer runs here. One key at a time."""

    def __init__(self):
        self.weights, self.priorities = {}, []

    @staticmethod
    def is_capable(capability):
        return capability == "optimizer"

    @property
    def type(self):
        return "theirs"

    rank, num_workers = 0, 1

    def broadcast(self, key, value, out, priority=0):
        self.weights[key] = value.copy()
        for o in out:
            o[:] = value.to_device(o.device)

    def set_optimizer(self, optimizer):
        self.optimizer = optimizer
        self.updater = mx.optimizer.get_updater(optimizer)

    def pushpull(self, key, value, out=None, priority=0):
        self.priorities.append(priority)
        total = mx.np.array(sum(v.asnumpy() for v in value), device=DEVICES[0])
        self.updater(key, total, self.weights[key])
        for o in out:
            o[:] = self.weights[key].to_device(o.device)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        with open(fname, "wb") as file:
            file.write(self.updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname):
        with open(fname, "rb") as file:
            self.updater.set_states(file.read())


class Derived(Methods, mx.kvstore.KVStoreBase):
    pass


class OneKey(mx.kvstore.KVStore):
    """A store of mxjax's whose `pushpull` was replaced by one that takes no lists of keys."""

    def __init__(self):
        super().__init__("device")

    def pushpull(self, key, value, out=None, priority=0):
        assert isinstance(key, int)
        super().pushpull(key, value, out=out, priority=priority)


@pytest.fixture
def registered():
    added = [Methods, Derived, OneKey]
    for klass in added:
        mx.kvstore.KVStoreBase.register(klass)
    yield
    for klass in added:
        del mx.kvstore.KVStoreBase.kv_registry[klass.__name__.lower()]


def network(devices):
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.Constant(0.5), device=devices)
    return net


def train(net, trainer, devices, steps=3):
    for _ in range(steps):
        with autograd.record():
            losses = [
                (net(x) ** 2).sum() for x in gluon.utils.split_and_load(mx.np.array(X), devices)
            ]
        autograd.backward(losses)
        trainer.step(len(X))
    return [p.data(d).asnumpy() for p in net.collect_params().values() for d in devices]


@pytest.mark.parametrize("name", ["methods", "derived", "onekey"])
def test_a_store_with_no_more_than_the_methods_of_mxnet(registered, name, tmp_path):
    options = "sgd", {"learning_rate": 0.1, "momentum": 0.9}
    one, two = network([DEVICES[0]]), network(DEVICES)
    alone = gluon.Trainer(one.collect_params(), *options)
    trainer = gluon.Trainer(two.collect_params(), *options, kvstore=name, update_on_kvstore=True)
    wanted = train(one, alone, DEVICES[:1])
    found = train(two, trainer, DEVICES)
    for k, want in enumerate(wanted):
        np.testing.assert_allclose(found[2 * k], want, rtol=1e-5)
        np.testing.assert_array_equal(found[2 * k + 1], found[2 * k])
    assert not trainer.saves_together
    trainer.save_states(tmp_path / "states")
    again = gluon.Trainer(two.collect_params(), *options, kvstore=name, update_on_kvstore=True)
    again.load_states(tmp_path / "states")
    wanted = train(one, alone, DEVICES[:1], 1)
    for found, want in zip(train(two, again, DEVICES, 1)[::2], wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_the_first_parameters_are_the_most_urgent():
    store, net = Methods(), network(DEVICES)
    net.bias.grad_req = "null"
    train(
        net,
        gluon.Trainer(net.collect_params(), "sgd", kvstore=store, update_on_kvstore=True),
        DEVICES,
        1,
    )
    [place] = [k for k, p in enumerate(sorted(net.collect_params())) if p == "weight"]
    assert store.priorities == [-place]


def test_what_such_a_store_cannot_do_is_said():
    net = network(DEVICES)
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=Methods(), update_on_kvstore=True)
    with pytest.raises(NotImplementedError, match="Methods does not define place"):
        trainer.place("device")
    trainer = gluon.Trainer(
        net.collect_params(),
        "sgd",
        kvstore=Derived(),
        compression_params={"type": "2bit", "threshold": 0.5},
    )
    with pytest.raises(
        NotImplementedError, match="Derived does not define set_gradient_compression"
    ):
        train(net, trainer, DEVICES, 1)
    kv = mx.kv.create("device")
    with pytest.raises(mx.MXNetError, match="Cannot place states: the kvstore runs no optimizer"):
        kv.place("device")
    assert kv.get_optimizer() is None
    optimizer = mx.optimizer.create("sgd")
    kv.set_optimizer(optimizer)
    kv.place("device")
    assert kv.get_optimizer() is optimizer
