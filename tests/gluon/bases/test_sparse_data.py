"""Parameters whose value or gradient is sparse, and their trainers: as MXNet 2 in mx.nd's mode."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd
from mxjax.gluon import Parameter


@pytest.fixture(autouse=True)
def legacy():
    mx.npx.reset_np()
    yield
    mx.npx.reset_np()


def test_a_sparse_parameter():
    p = Parameter("weight", shape=(10, 3), stype="row_sparse", grad_stype="row_sparse")
    p.initialize(init="xavier", device=[mx.cpu(0), mx.cpu(1)])
    assert [g.stype for g in p.list_grad()] == ["row_sparse"] * 2
    ids = nd.array([4, 1, 4], ctx=mx.cpu(1))
    for ask in (
        lambda: p.row_sparse_data(ids),
        lambda: p.list_row_sparse_data(ids),
        p.data,
        p.list_data,
    ):
        with pytest.raises(RuntimeError):
            ask()
    trainer = gluon.Trainer([p], "sgd")
    rows = p.row_sparse_data(ids)
    assert (rows.context, rows.stype, rows.shape) == (mx.cpu(1), "row_sparse", (10, 3))
    assert rows.indices.asnumpy().tolist() == [1, 4]
    assert len(p.list_row_sparse_data(ids)) == 2
    assert p.var().attr("__storage_type__") == "1"
    with pytest.raises(RuntimeError, match="More than one"):
        gluon.Trainer([p], "sgd")
    assert p._trainer() is trainer
    dense = Parameter("weight", shape=(10, 3))
    dense.initialize()
    with pytest.raises(RuntimeError, match="data"):
        dense.row_sparse_data(ids)
    with pytest.raises(AssertionError, match="stype"):
        Parameter("weight", shape=(2,), stype="dense")


# (stype, grad_stype, update_on_kvstore) -> trainer._update_on_kvstore of MXNet 2.0, or its error
TRAINERS = [
    ("default", "default", True, True), ("default", "row_sparse", None, False), ("default", "row_sparse", True, True),
    ("default", "row_sparse", False, False), ("row_sparse", "row_sparse", None, True),
    ("row_sparse", "row_sparse", False, ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("stype", "grad_stype", "on_kvstore", "expected"), TRAINERS)
def test_trainers_of_two_devices(stype, grad_stype, on_kvstore, expected):
    p = Parameter("x", shape=(10, 1), stype=stype, grad_stype=grad_stype)
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="zeros")
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.1}, update_on_kvstore=on_kvstore)
    every = nd.arange(0, 10, ctx=mx.cpu(0))
    if expected is ValueError:
        with pytest.raises(ValueError, match="sparse"):
            trainer.step(1)
        return
    arrays = p.list_data() if stype == "default" else p.list_row_sparse_data(every)
    with autograd.record():
        for w in arrays:
            (w + 1).backward()
    trainer.step(1)
    assert trainer._update_on_kvstore is expected
    after = p.data(mx.cpu(0)) if stype == "default" else p.row_sparse_data(every)
    np.testing.assert_allclose(after.asnumpy(), -0.2, rtol=1e-6)


@pytest.mark.parametrize("on_kvstore", [True, False])
def test_embeddings_on_two_devices_are_trained_as_one(on_kvstore):
    devices = [mx.cpu(0), mx.cpu(1)]
    net = gluon.nn.Embedding(6, 2, sparse_grad=True)
    net.initialize(mx.init.One(), ctx=devices)
    options = {"learning_rate": 1.0, "lazy_update": True, "wd": 0.5}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, update_on_kvstore=on_kvstore)
    with autograd.record():
        losses = [
            net(nd.array(ids, ctx=d)).sum()
            for ids, d in zip(([1, 1], [4, 1]), devices, strict=True)
        ]
    autograd.backward(losses)
    assert [g.indices.asnumpy().tolist() for g in net.weight.list_grad()] == [[1], [1, 4]]
    trainer.step(1)
    want = np.ones((6, 2))
    want[1] -= 3 + 0.5
    want[4] -= 1 + 0.5
    for d in devices:
        np.testing.assert_allclose(net.weight.data(d).asnumpy(), want)


def test_files_of_sparse_parameters(tmp_path):
    net = gluon.nn.Embedding(6, 2, sparse_grad=True)
    net.weight = Parameter("weight", shape=(6, 2), stype="row_sparse", grad_stype="row_sparse")
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    path = str(tmp_path / "net.params")
    net.save_parameters(path)
    other = gluon.nn.Embedding(6, 2)
    other.load_parameters(path)
    ids = nd.arange(0, 6)
    np.testing.assert_array_equal(
        other.weight.data().asnumpy(), net.weight.row_sparse_data(ids).asnumpy()
    )
    net.load_parameters(path)
    assert trainer.learning_rate == 0.1  # it has the rows
    with pytest.raises(RuntimeError, match="row_sparse"):
        net(ids)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_network_with_a_table_of_rows_trains_on_those_that_it_looked_up(hybridize):
    """Adam's steps on rows alone, by MXNet 1.9.1; nothing of the table's size is computed."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Embedding(10, 3, sparse_grad=True), gluon.nn.Dense(1, flatten=False))
    net.initialize(mx.init.Constant(0.5))
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 0.1, "wd": 0.01, "lazy_update": True}
    )
    before, rows = mx.engine.stats()["dense_fallbacks"], []
    for ids in ([1, 3, 3], [2, 1], [2, 1]):
        with autograd.record():
            loss = (net(nd.array(ids)) ** 2).sum()
        loss.backward()
        rows.append(net[0].weight.grad().indices.asnumpy().tolist())
        trainer.step(1)
    assert rows == [[1, 3], [1, 2], [1, 2]]
    weight = net[0].weight.data().asnumpy()[:, 0]
    np.testing.assert_allclose(weight, [0.5, 0.2352, 0.3509, 0.4, *[0.5] * 6], atol=1e-4)
    assert mx.engine.stats()["dense_fallbacks"] == before


def test_hybridized_the_gradient_has_the_rows_all_the_same():
    net = gluon.nn.Embedding(6, 2, sparse_grad=True)
    net.initialize(mx.init.One())
    net.hybridize()
    with autograd.record():
        loss = net(nd.array([5, 2, 5])).sum()
    loss.backward()
    grad = net.weight.grad()
    assert grad.stype == "row_sparse"
    assert grad.indices.asnumpy().tolist() == [2, 5]
    assert grad.data.asnumpy().tolist() == [[1, 1], [2, 2]]
