"""Updates from row_sparse gradients: MXNet's numbers (tests/record/sparse_updates.py), and what they touch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd
from tests.record.sparse_updates import updated

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "sparse_updates.json").read_text())


def gradient():
    return nd.sparse.row_sparse_array(([[1, 2.0], [3, 4]], [0, 2]), shape=(4, 2))


CASES = [(generation, *case) for generation, cases in RECORDED.items() for case in cases]


@pytest.mark.parametrize(
    ("generation", "name", "options", "stype", "dtype", "want"), CASES,
    ids=[f"{generation}-{name}-{stype}-{k}" for k, (generation, name, _, stype, *_) in enumerate(CASES)],
)  # fmt: skip
def test_as_mxnet_updates(generation, name, options, stype, dtype, want):
    with mx.config.scope(compat_version="1.9" if generation == "1" else "2.0"):
        weight = updated(mx, name, options, stype, dtype)
    assert weight.stype == stype and weight.dtype == np.dtype(dtype)
    eps = 2e-6 if dtype == "float32" else 1e-3
    np.testing.assert_allclose(weight.asnumpy(), want, rtol=eps, atol=eps)


def test_a_lazy_update_of_16_bit_weights_goes_by_their_copies():
    for stype in ("default", "row_sparse"):
        updater = mx.optimizer.get_updater(
            mx.optimizer.AdaGrad(learning_rate=0.5, multi_precision=True)
        )
        weight = nd.ones((4, 2), dtype="float16").tostype(stype)
        for _ in range(3):
            updater(0, gradient().astype("float16"), weight)
        master = updater.states[0][0].asnumpy()
        assert master.dtype == np.float32
        np.testing.assert_array_equal(weight.asnumpy(), master.astype("float16"))
        g = np.array([[1, 2], [0, 0], [3, 4], [0, 0]], "float32")
        history = np.cumsum([g * g] * 3, axis=0)
        want = 1 - 0.5 * (g / (np.sqrt(history) + 1e-6)).sum(axis=0)
        np.testing.assert_allclose(master, want, rtol=1e-5)


def test_adagrad_has_no_decay_for_rows():
    updater = mx.optimizer.get_updater(mx.optimizer.AdaGrad(wd=0.1))
    with pytest.raises(mx.MXNetError, match="weight decay"):
        updater(0, gradient(), nd.ones((4, 2)))


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_updates_as_operators(stype):
    w, h = nd.ones((4, 2)).tostype(stype), nd.ones((4, 2)).tostype(stype)
    nd.sparse.adagrad_update(w, gradient(), h, lr=0.1, out=w)
    assert w.stype == h.stype == stype
    g = np.array([[1, 2], [0, 0], [3, 4], [0, 0]], "float32")
    np.testing.assert_allclose(h.asnumpy(), 1 + g * g)
    np.testing.assert_allclose(w.asnumpy(), 1 - 0.1 * g / np.sqrt(1 + g * g), rtol=1e-6)
    for lazy, rest in ((True, 1.0), (False, 0.99)):
        w = nd.ones((4, 2)).tostype(stype)
        nd.sparse.sgd_update(w, gradient(), lr=0.1, wd=0.1, lazy_update=lazy, out=w)
        np.testing.assert_allclose(w.asnumpy(), np.where(g != 0, 0.99 - 0.1 * g, rest), rtol=1e-6)
    w, m = nd.ones((4, 2)), nd.zeros((4, 2))
    nd.sparse.sgd_mom_update(w, gradient(), m, lr=0.1, momentum=0.9, out=w)
    np.testing.assert_allclose(m.asnumpy(), -0.1 * g, rtol=1e-6)


def test_a_step_is_one_program_whatever_rows_it_touches():
    net = mx.gluon.nn.Embedding(1000, 8, sparse_grad=True)
    net.initialize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 0.1, "lazy_update": True}
    )
    rng = np.random.default_rng(0)
    before = net.weight.data().asnumpy()
    used = set()
    compiled = []
    with mx.config.scope(engine_cold="compile"):
        for _ in range(5):
            ids = rng.integers(0, 1000, 6)
            used.update(ids.tolist())
            with mx.autograd.record():
                loss = (net(mx.np.array(ids, dtype="int32")) ** 2).sum()
            loss.backward()
            trainer.step(6)
            net.weight.data().wait_to_read()
            compiled.append(mx.engine.stats()["compiled"])
    grad = net.weight.grad()
    assert grad.stype == "row_sparse"
    assert grad.nbytes == 6 * (8 * 4 + 8)
    assert grad.indices.asnumpy().tolist() == sorted(set(ids.tolist()))
    assert compiled[-1] == compiled[-3]
    changed = np.flatnonzero((net.weight.data().asnumpy() != before).any(axis=1))
    assert changed.tolist() == sorted(used)


def test_scaled_losses_with_sparse_gradients():
    def trained(scale):
        mx.random.seed(3)
        net = mx.gluon.nn.Embedding(20, 4, sparse_grad=True)
        net.initialize(mx.init.One())
        trainer = mx.gluon.Trainer(
            net.collect_params(), "adam", {"learning_rate": 0.1, "lazy_update": True, "wd": 0.1}
        )
        if scale:
            trainer.scale_losses_by(mx.amp.LossScaler())
        for step, factor in enumerate((1.0, 2.0, np.inf, 3.0) if scale else (1.0, 2.0, 3.0)):
            with mx.autograd.record():
                loss = (net(mx.np.array([1, step, 7], dtype="int32")) * factor).sum()
                if scale:
                    with mx.amp.scale_loss(loss, trainer) as scaled:
                        mx.autograd.backward(scaled)
                else:
                    loss.backward()
            trainer.step(1)
        return net.weight.data().asnumpy()

    plain, guarded = trained(False), trained(True)
    rows = [1, 7]  # the others are those of the step, and of one that was left out
    np.testing.assert_allclose(guarded[rows], plain[rows], rtol=1e-5)
    assert (guarded[8:] == 1).all()
    assert (guarded[2] == 1).all()  # of the step that overflowed


def test_mxnet_1_is_lazy_by_default():
    assert not mx.optimizer.create("sgd").lazy_update
    with mx.config.scope(compat_version="1.9"):
        assert mx.optimizer.create("sgd").lazy_update
        assert not mx.optimizer.create("adam", lazy_update=False).lazy_update
