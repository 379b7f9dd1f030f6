"""The layers, against what MXNet's own compute and print (tests/record/layers.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn

DATA = json.loads((Path(__file__).parents[2] / "data" / "layers.json").read_text())
# Recorded results that are mistakes of MXNet's.
MISTAKES = {"SELU": "its gradient multiplies the output by lambda once more"}
CLOSE = {"rtol": 2e-5, "atol": 5e-6}


def fill(shape, number):
    """The parameter, input or head of a number, as the recorder made it."""
    n = int(np.prod(shape))
    return np.cos(np.arange(n) * 1.3 + number).reshape(shape).astype("float32")


def value(name, shape, number):
    v = fill(shape, number)
    return v * 0.25 + 1 if name.endswith("var") else v


def batch(case, number):
    shape = tuple(case["shape"])
    if case["layer"] == "Embedding":
        n = int(np.prod(shape))
        return ((np.arange(n) * 3 + number) % case["args"][0]).reshape(shape).astype("float32")
    return fill(shape, number)


def make(case):
    tuples = [tuple(a) if isinstance(a, list) else a for a in case["args"]]
    named = {k: tuple(v) if isinstance(v, list) else v for k, v in case["kwargs"].items()}
    return getattr(nn, case["layer"])(*tuples, **named)


def array(a):
    return np.array(a["data"], a["dtype"]).reshape(a["shape"])


def cases():
    for k, case in enumerate(DATA["layers"]):
        yield pytest.param(case, id=f"{k}-{case['layer']}")


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("case", cases())
def test_a_layer_computes_what_mxnet_computes(case, hybridized):
    net = make(case)
    assert repr(net) == case["fresh"]
    if hybridized:
        net.hybridize()
    net.initialize()
    net(mx.np.array(batch(case, 1)))  # finds the deferred shapes
    assert repr(net) == case["repr"]
    params = net.collect_params()
    assert {name: list(p.shape) for name, p in params.items()} == case["params"]
    for k, (name, p) in enumerate(params.items()):
        p.set_data(mx.np.array(value(name, p.shape, k)))
    for number in range(1, 4):
        x = mx.np.array(batch(case, number))
        if case["grad"] is not None:
            x.attach_grad()
        with autograd.record():
            y = net(x)
        if y._value().tape is not None:
            y.backward(mx.np.array(fill(y.shape, 7)))
        if number > 1:
            continue
        np.testing.assert_allclose(y.asnumpy(), array(case["out"]), **CLOSE)
        if case["layer"] in MISTAKES:
            continue
        if case["grad"] is not None:
            np.testing.assert_allclose(x.grad.asnumpy(), array(case["grad"]), **CLOSE)
        trained = {name: p for name, p in params.items() if p.grad_req != "null"}
        assert set(trained) == set(case["grads"])
        for name, want in case["grads"].items():
            got = params[name].grad().asnumpy()
            np.testing.assert_allclose(got, array(want), err_msg=name, **CLOSE)
    for name, want in case["states"].items():
        got = params[name].data().asnumpy()
        np.testing.assert_allclose(got, array(want), err_msg=name, **CLOSE)
    np.testing.assert_allclose(net(x).asnumpy(), array(case["eval"]), **CLOSE)


@pytest.mark.parametrize("case", cases())
def test_a_layer_computes_the_same_on_arrays_of_mx_nd(case):
    """Where `is_np_array` is False: arrays, parameters and gradients are mx.nd's."""
    with mx.np_array(False):
        net = make(case)
        net.initialize()
        x = mx.nd.array(batch(case, 1))
        net(x)
        for k, (name, p) in enumerate(net.collect_params().items()):
            p.set_data(mx.nd.array(value(name, p.shape, k)))
            assert type(p.data()) is mx.nd.NDArray
        if case["grad"] is not None:
            x.attach_grad()
        with autograd.record():
            y = net(x)
        if y._value().tape is not None:
            y.backward(mx.nd.array(fill(y.shape, 7)))
    assert type(y) is mx.nd.NDArray
    np.testing.assert_allclose(y.asnumpy(), array(case["out"]), **CLOSE)
    if case["layer"] not in MISTAKES:
        if case["grad"] is not None:
            np.testing.assert_allclose(x.grad.asnumpy(), array(case["grad"]), **CLOSE)
        for name, want in case["grads"].items():
            got = net.collect_params()[name].grad()
            assert type(got) is mx.nd.NDArray
            np.testing.assert_allclose(got.asnumpy(), array(want), err_msg=name, **CLOSE)


def lenet():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(2, 2),
        nn.Conv2D(50, 5),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.MaxPool2D(2, 2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dropout(0.5),
        nn.Dense(10),
    )
    return net


def sharing():
    net = nn.HybridSequential()
    one = nn.Dense(4, in_units=4)
    net.add(nn.Dense(4), one, one, nn.Dense(4).share_parameters(one.params))
    return net


def nested():
    net = nn.Sequential()
    inner = nn.HybridSequential()
    inner.add(nn.Dense(3, in_units=2), nn.Dropout(0.5))
    both = nn.HybridConcatenate(axis=1)
    both.add(nn.Identity(), nn.Dense(2))
    net.add(inner, both, nn.Lambda(lambda x: x), nn.LeakyReLU(0.1))
    return net


@pytest.mark.parametrize("build", [lenet, sharing, nested])
def test_networks_print_as_in_mxnet(build):
    assert repr(build()) == DATA["containers"][build.__name__]


@pytest.mark.parametrize("build, shape", [(lenet, (1, 1, 28, 28)), (sharing, (2, 4))])
def test_summary_prints_mxnets_table(build, shape, capsys):
    net = build()
    net.initialize()
    net.summary(mx.np.zeros(shape))
    assert capsys.readouterr().out == DATA["summary"][build.__name__]


def test_the_tanh_form_of_gelu():
    x = np.linspace(-3, 3, 7).astype("float32")
    want = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    got = nn.GELU(approximation="tanh")(mx.np.array(x)).asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="'erf' and 'tanh'"):
        nn.GELU(approximation="relu")


def test_sequential_is_a_container():
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.Dense(3), nn.Dense(4))
    assert len(net) == 3 and net[-1]._units == 4 and [b._units for b in net] == [2, 3, 4]
    assert [b._units for b in net[1:]] == [3, 4]


def test_concatenate_joins_its_branches():
    x = mx.np.array(fill((2, 3), 1))
    for cls in (nn.Concatenate, nn.HybridConcatenate):
        net = cls(axis=1)
        net.add(nn.Identity(), nn.Activation("relu"))
        want = np.concatenate([x.asnumpy(), np.maximum(x.asnumpy(), 0)], axis=1)
        np.testing.assert_array_equal(net(x).asnumpy(), want)


def test_sequential_passes_further_inputs_to_its_first_layer():
    class Both(mx.gluon.HybridBlock):
        def forward(self, x, y):
            return x + y, x * y

    net = nn.HybridSequential()
    net.add(Both(), Both())
    x, y = mx.np.array([2.0]), mx.np.array([3.0])
    for _ in range(2):
        a, b = net(x, y)
        assert (a.item(), b.item()) == (11.0, 30.0)
        net.hybridize()


def test_dropout_drops_at_its_rate_and_scales():
    net = nn.Dropout(0.25)
    x = mx.np.ones((100, 100))
    assert (net(x).asnumpy() == 1).all()
    with autograd.train_mode():
        y = net(x).asnumpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02


def test_dropout_shares_its_decision_along_axes():
    with autograd.train_mode():
        y = nn.Dropout(0.5, axes=(1,))(mx.np.ones((50, 8))).asnumpy()
    assert (y == y[:, :1]).all() and 0 < (y[:, 0] == 0).sum() < 50


def test_layers_without_a_batch():
    dense, conv = nn.Dense(3), nn.Conv2D(2, 3, in_channels=1)
    for net, shape, want in ((dense, (0, 4), (0, 3)), (conv, (0, 1, 5, 5), (0, 2, 3, 3))):
        net.initialize()
        for _ in range(2):
            assert net(mx.np.zeros(shape)).shape == want
            net.hybridize()


def test_channels_last_convolution_equals_channels_first():
    x = fill((2, 5, 6, 3), 1)
    last, first = nn.Conv2D(4, 3, layout="NHWC"), nn.Conv2D(4, 3)
    for net, given in ((last, x), (first, x.transpose(0, 3, 1, 2))):
        net.initialize()
        net(mx.np.array(given))
    assert last.weight.shape == (4, 3, 3, 3)
    first.weight.set_data(last.weight.data().transpose(0, 3, 1, 2))
    a, b = last(mx.np.array(x)), first(mx.np.array(x.transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(a.asnumpy().transpose(0, 3, 1, 2), b.asnumpy(), **CLOSE)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.Conv2D(1, (3, 3, 3)), "kernel_size"),
        (lambda: nn.MaxPool1D((2, 2)), "pool_size"),
        (lambda: nn.LeakyReLU(-1.0), "Slope"),
        (lambda: nn.Lambda("no_such_operator"), "no_such_operator"),
        (lambda: nn.HybridLambda(3), "Unrecognized function"),
        (lambda: nn.ReflectionPad2D((1, 2)), "padding"),
        (lambda: nn.SyncBatchNorm(num_devices=0), "num_devices"),
    ],
)
def test_wrong_arguments_are_named(make, text):
    with pytest.raises((AssertionError, ValueError, NotImplementedError), match=text):
        make()


def test_sync_batch_norm_on_one_device_is_batch_norm():
    x = mx.np.array(fill((4, 3), 1))
    nets = [nn.SyncBatchNorm(), nn.BatchNorm()]
    outs = []
    for net in nets:
        net.initialize()
        with autograd.record():
            outs.append(net(x).asnumpy())
    np.testing.assert_array_equal(*outs)


def test_batch_norm_stays_in_float32_when_cast_to_float16():
    net = nn.BatchNorm(in_channels=3)
    net.initialize()
    net.cast("float16")
    assert net.running_mean.data().dtype == "float32"
    assert net(mx.np.ones((2, 3), dtype="float16")).dtype == "float16"
