"""Pickles and deep copies of everything: made here, and by MXNet 1.9.1 and 2.0.0b1."""

from __future__ import annotations

import base64
import copy
import importlib
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, settings
from mxjax.errors import FormatError, MXNetTypeError

RECORDED = json.loads((Path(__file__).parent / "data" / "pickles.json").read_text())
X = np.random.RandomState(3).normal(size=(4, 3)).astype("float32")

WAYS = {
    "pickle": lambda o: pickle.loads(pickle.dumps(o)),
    "oldest pickle": lambda o: pickle.loads(pickle.dumps(o, 2)),
    "deepcopy": copy.deepcopy,
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class OfMXNet(pickle.Unpickler):
    """Reads a pickle as a program does for which `mxnet` is mxjax."""

    def find_class(self, module, name):
        if module.split(".")[0] != "mxnet":
            return super().find_class(module, name)
        found = importlib.import_module(module.replace("mxnet", "mxjax", 1))
        return getattr(found if hasattr(found, name) else mx.optimizer, name)


def network(**options):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, activation="tanh"), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    return net


def step(net, trainer):
    with autograd.record():
        loss = (net(mx.np.array(X)) ** 2).mean()
    loss.backward()
    trainer.step(4)
    return loss.item()


def numbers(net):
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


@ways
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("steps", [0, 2])
def test_a_copy_of_a_network_trains_by_itself(way, hybrid, steps):
    net = network()
    if hybrid:
        net.hybridize()
    net(mx.np.array(X))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    for _ in range(steps):
        step(net, trainer)
    copied, before = way(net), numbers(net)
    equal(numbers(copied), before)
    own = gluon.Trainer(copied.collect_params(), "sgd", {"learning_rate": 0.1})
    step(copied, own)
    equal(numbers(net), before)
    assert np.abs(copied[0].weight.data().asnumpy() - before["0.weight"]).max() > 1e-4


@ways
@pytest.mark.parametrize("devices", [1, 2])
def test_a_training_goes_on_in_its_copy(way, devices):
    """Network and trainer in one pickle: momenta and counts come along, whoever holds them."""
    where = [mx.cpu(k) for k in range(devices)]
    net = network()
    net.initialize(mx.init.Xavier(), device=where, force_reinit=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})

    def steps(net, trainer):
        for _ in range(2):
            with autograd.record():
                losses = [(net(mx.np.array(X, device=d)) ** 2).mean() for d in where]
            for loss in losses:
                loss.backward()
            trainer.step(4)

    steps(net, trainer)
    other, its = way([net, trainer])
    assert any(p is other[0].weight for p in its._params) and other[0].weight._trainer() is its
    steps(net, trainer)
    steps(other, its)
    for name, p in net.collect_params().items():
        ours, theirs = p._reduce().asnumpy(), other.collect_params()[name]._reduce().asnumpy()
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-7, err_msg=name)


@ways
def test_parameters(way):
    net = network()
    net(mx.np.array(X))
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    step(net, trainer)
    weight = way(net[0].weight)
    np.testing.assert_array_equal(weight.data().asnumpy(), net[0].weight.data().asnumpy())
    np.testing.assert_array_equal(weight.grad().asnumpy(), net[0].weight.grad().asnumpy())
    assert weight.grad() is not net[0].weight.grad() and weight._trainer is None
    assert way(net[1].running_mean).grad_req == "null"
    deferred = way(gluon.nn.Dense(3).weight)
    assert deferred.shape == (3, -1) and deferred.allow_deferred_init
    shared = way(net.collect_params())
    assert list(shared) == list(net.collect_params())


def test_a_shallow_copy_shares_the_arrays():
    weight = gluon.Parameter("weight", shape=(2,))
    weight.initialize()
    other = copy.copy(weight)
    assert other.data() is weight.data() and other.grad() is weight.grad()


@ways
def test_networks_of_symbols(way):
    x = mx.sym.var("data")
    net = gluon.SymbolBlock(mx.sym.FullyConnected(x, num_hidden=2, name="fc"), x)
    net.initialize()
    expected = net(mx.np.array(X)).asnumpy()
    np.testing.assert_array_equal(way(net)(mx.np.array(X)).asnumpy(), expected)


def test_a_trainer_of_many_processes_says_what_to_do():
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=mx.kv.create("local"))
    with pytest.raises(MXNetTypeError, match="save_states"):
        pickle.dumps(trainer)


def loaded(version, name):
    with settings.scope("compat.version", "1.9" if version == "1.9.1" else "2.0"):
        data = base64.b64decode(RECORDED[version][name]["pickle"])
        return OfMXNet(io.BytesIO(data)).load(), RECORDED[version][name]["expected"]


def arrays(version):
    return [(version, name) for name in RECORDED[version] if name.split()[0] in ("nd", "np")]


@pytest.mark.parametrize(("version", "name"), [c for v in RECORDED for c in arrays(v)])
def test_arrays_of_mxnet(version, name):
    found, expected = loaded(version, name)
    assert found.asnumpy().tolist() == expected and type(found) is not np.ndarray
    kind = name.split()[-1]
    if kind in ("csr", "row_sparse"):
        assert found.stype == kind
    elif name.startswith("nd"):
        assert isinstance(found, mx.nd.NDArray) and not isinstance(found, mx.np.ndarray)
        assert np.dtype(found.dtype).name == kind
    else:
        assert isinstance(found, mx.np.ndarray)


def test_a_sparse_array_whose_length_mxnet_did_not_know_yet_when_it_was_pickled():
    """1.9.1 writes the shape of the values before they are there, and reads what it wrote."""
    raw = bytes.fromhex(
        "c9fa93f9 02000000 01000000 0000000000000000 02000000 0200000000000000 0200000000000000"
        "0100000000000000 01000000 06000000 01000000 0300000000000000 06000000 01000000 0200000000000000"
        "000000000000f03f 0000000000000040 0000000000000000 0100000000000000 0200000000000000"
        "0100000000000000 0000000000000000"
    )
    for bytes_of in (raw, raw[:12] + bytes([2]) + raw[13:]):
        found = mx.nd.sparse.CSRNDArray.__new__(mx.nd.sparse.CSRNDArray)
        found.__setstate__({"handle": bytearray(bytes_of)})
        assert found.asnumpy().tolist() == [[0, 1], [2, 0]] and found.stype == "csr"


def test_a_program_may_begin_by_reading_an_array_of_mxnet():
    """Nothing but the class has been asked for: what reads the bytes is found from there."""
    code = (
        "import base64, pickle, mxjax.as_mxnet;"
        f"print(pickle.loads(base64.b64decode({RECORDED['1.9.1']['nd float32']['pickle']!r})).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("("), done.stderr


@pytest.mark.parametrize("version", RECORDED)
def test_symbols_devices_batches_and_iterators_of_mxnet(version):
    found, names = loaded(version, "symbol")
    assert found.list_arguments() == names
    assert len(loaded(version, "group")[0].list_outputs()) == 2
    assert loaded(version, "context")[0] == mx.cpu(1)
    batch, data = loaded(version, "batch")
    assert batch.data[0].asnumpy().tolist() == data
    iterator, labels = loaded(version, "iterator")
    assert [b.label[0].asnumpy().tolist() for b in iterator] == labels
    assert loaded(version, "schedule")[0](0) == 0.01


@pytest.mark.parametrize("version", RECORDED)
def test_updaters_of_mxnet(version):
    updater, expected = loaded(version, "updater")
    w = (mx.nd if version == "1.9.1" else mx.np).array([0.5, 0.5])
    updater(0, w * 0 + 1, w)
    np.testing.assert_allclose(w.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("version", RECORDED)
def test_parameters_of_mxnet(version):
    params, expected = loaded(version, "parameters")
    assert {name: p.data().asnumpy().tolist() for name, p in params.items()} == expected
    assert all(p.grad().asnumpy().sum() == 0 for p in params.values())


def test_a_parameter_a_trainer_and_a_network_of_1_9():
    weight, (data, grad) = loaded("1.9.1", "parameter")
    assert weight.name == "net_dense0_weight"
    assert weight.data().asnumpy().tolist() == data and weight.grad().asnumpy().tolist() == grad
    trainer, expected = loaded("1.9.1", "trainer")
    assert [trainer.learning_rate, trainer.optimizer.num_update] == expected
    assert len(trainer._updaters[0].states) == 6
    with pytest.raises((FormatError, AttributeError), match="save_parameters|_BlockScope"):
        loaded("1.9.1", "network")


def test_damaged_bytes_are_refused():
    array = mx.nd.NDArray(None)
    with pytest.raises(mx.MXNetError):
        array.__setstate__({"handle": b"\xc9\xfa\x93\xf9" + b"\x7f" * 9})
