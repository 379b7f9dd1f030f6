"""SyncBatchNorm over several devices: what BatchNorm gives for the whole batch on one."""

import copy

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn

X = np.random.RandomState(0).randn(8, 3).astype("float32")


def build(norm, devices):
    """Two normalizations, so that the second needs the first one's whole batch."""
    net = nn.HybridSequential()
    net.add(
        nn.Dense(4, in_units=3),
        norm(in_channels=4),
        nn.Dense(2, in_units=4),
        norm(in_channels=2, epsilon=1e-2),
    )
    net.initialize(device=devices)
    numbers = np.random.RandomState(1)
    for p in net.collect_params().values():
        if p.grad_req != "null":
            p.set_data(mx.np.array(numbers.randn(*p.shape).astype("float32")))
    return net


def trained(norm, devices, one_by_one=False, hybrid=False):
    net = build(norm, devices)
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    losses, gradients = [], []
    for _ in range(2):
        parts = gluon.utils.split_and_load(X, devices)
        for x in parts:
            x.attach_grad()
        with autograd.record():
            found = [(net(x) ** 3).sum() for x in parts]
        if one_by_one:
            for loss in found:
                loss.backward()
        else:
            autograd.backward(found)
        trainer.step(8)
        losses.append(sum(float(loss) for loss in found))
        gradients.append(np.concatenate([x.grad.asnumpy() for x in parts]))
    parameters = [[p.data(d).asnumpy() for p in net.collect_params().values()] for d in devices]
    return losses, gradients, parameters


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def check(found):
    losses, gradients, (parameters,) = trained(nn.BatchNorm, [mx.cpu(0)])
    same(losses, found[0])
    same(gradients, found[1])
    for on_device in found[2]:  # weights, moving means and variances
        same(parameters, on_device)


@pytest.mark.parametrize(
    "numbers, one_by_one",
    [((0, 1), True), ((0, 1, 2, 3), False), ((0, 9), True)],
    ids=["two", "four", "a name"],
)
def test_several_devices_are_one_batch(numbers, one_by_one):
    check(trained(nn.SyncBatchNorm, [mx.cpu(k) for k in numbers], one_by_one))


def test_it_takes_the_words_of_every_block():
    first = nn.SyncBatchNorm(prefix="norm_", in_channels=2)
    assert list(first.collect_params()) == [  # MXNet 1.9.1
        "norm_gamma", "norm_beta", "norm_running_mean", "norm_running_var",
    ]  # fmt: skip
    assert nn.SyncBatchNorm(params=first.params).gamma is first.gamma


def test_hybridized_it_runs_imperatively():
    with pytest.warns(UserWarning, match="SyncBatchNorm"):
        check(trained(nn.SyncBatchNorm, [mx.cpu(0), mx.cpu(1)], hybrid=True))


def test_on_a_mesh_a_batch_is_one():
    mesh = mx.mesh("data=2")
    net, whole = build(nn.SyncBatchNorm, mesh), build(nn.BatchNorm, mx.cpu(0))
    net[1]._num_devices = net[3]._num_devices = 2
    with autograd.train_mode():
        same(net(mesh.split(mx.np.array(X))).asnumpy(), whole(mx.np.array(X)).asnumpy())


def test_statistics_of_data_far_from_zero():
    net = nn.SyncBatchNorm(in_channels=1)
    devices = [mx.cpu(0), mx.cpu(1)]
    net.initialize(device=devices)
    far = np.float32([[1e4], [1e4 + 1], [1e4 + 3], [1e4 + 4]])
    with autograd.train_mode():
        outs = [net(x) for x in gluon.utils.split_and_load(far, devices)]
    expected = (far - far.mean()) / np.sqrt(far.astype("float64").var() + 1e-5)
    same(np.concatenate([o.asnumpy() for o in outs]), expected)


def test_a_second_derivative_is_refused():
    devices = [mx.cpu(0), mx.cpu(1)]
    net = build(nn.SyncBatchNorm, devices)
    parts = gluon.utils.split_and_load(X, devices)
    for x in parts:
        x.attach_grad()
    with autograd.record():
        outs = [(net(x) * x[:, :2]).sum() for x in parts]  # a part of it could be differentiated
        slopes = autograd.grad(outs, parts, create_graph=True)
        again = [(g * g).sum() for g in slopes]
    assert np.isfinite(slopes[0].asnumpy()).all()
    with pytest.raises(
        mx.MXNetError, match="SyncBatchNorm over several devices is differentiable once"
    ):
        autograd.backward(again)


def test_a_part_that_is_missing_is_told_of():
    devices = [mx.cpu(0), mx.cpu(1)]
    net = build(nn.SyncBatchNorm, devices)
    first, second = gluon.utils.split_and_load(X, devices)
    with autograd.train_mode():
        out = net(first)
        with pytest.raises(mx.MXNetError, match=r"1 of 2 came \(cpu\(0\)\)"):
            out.asnumpy()
        # Another part on the same device begins a batch anew; the moving statistics know of that one alone.
        out = [net(first), net(second)][0]
        assert np.isfinite(out.asnumpy()).all()
        once = build(nn.SyncBatchNorm, devices)
        [once(first), once(second)]
        for p, other in zip(
            net.collect_params().values(), once.collect_params().values(), strict=True
        ):
            np.testing.assert_array_equal(
                p.data(devices[0]).asnumpy(), other.data(devices[0]).asnumpy()
            )
        copied = copy.deepcopy(net)  # in the middle of a batch, too
        same(copied[1].gamma.data(devices[1]).asnumpy(), net[1].gamma.data(devices[1]).asnumpy())
    assert net(first).shape == (4, 2)  # in prediction each device is by itself


def test_what_failed_before_fails_on_all_devices():
    devices = [mx.cpu(0), mx.cpu(1)]
    net = nn.SyncBatchNorm(in_channels=3)
    net.initialize(device=devices)
    bad = mx.np.random.normal(0, -1.0, size=(4, 3), device=devices[0])
    with autograd.train_mode():
        outs = [net(bad), net(mx.np.array(X, device=devices[1]))]
    with pytest.raises(ValueError):  # refused numbers are told to the first reader alone
        outs[0].asnumpy()
    assert np.isnan(outs[1].asnumpy()).all()
