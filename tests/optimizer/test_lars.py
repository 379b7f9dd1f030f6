"""LARS as MXNet 1.9.1 has it, whose momentum follows the learning rate; the values are its own."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd

RATES = (0.1, 0.2, 0.2, 0.05, 0.05)
NAMES = {0: "a_weight", 1: "b_weight", 2: "c_bias", 3: "d_gamma"}
CORRECTED = {
    0: [0.997807, 0.989478, 0.977609, 0.973849, 0.969377],
    1: [1.997374, 1.987399, 1.973193, 1.968696, 1.96335],
    2: [2.95, 2.76, 2.489, 2.403025, 2.300648],
}
PLAIN = {
    0: [0.997807, 0.991451, 0.981356, 0.97118, 0.960934],
    1: [1.997374, 1.989763, 1.97768, 1.965502, 1.953245],
    2: [2.95, 2.805, 2.5745, 2.34205, 2.107845],
}


@pytest.fixture(autouse=True)
def _of_mxnet_1():
    with mx.config.scope(compat_version="1.9"):
        yield


def walk(indices, together, **options):
    """The first element of each weight after each of five updates at changing rates."""
    opt = mx.optimizer.LARS(
        learning_rate=0.1, momentum=0.9, eta=0.01, param_idx2name=NAMES, **options
    )
    weights = [nd.array([1.0 + i, 2]) for i in indices]
    grads = [nd.array([0.5, 0.1 * (i + 1)]) for i in indices]
    states = [opt.create_state_multi_precision(i, w) for i, w in zip(indices, weights, strict=True)]
    seen = []
    for rate in RATES:
        opt.set_learning_rate(rate)
        if together:
            opt.update_multi_precision(indices, weights, grads, states)
        else:
            for each in zip(indices, weights, grads, states, strict=True):
                opt.update_multi_precision(*each)
        seen.append([float(w[0].asscalar()) for w in weights])
    return opt, np.array(seen).T


def test_the_momentum_follows_the_rate():
    opt, seen = walk([0, 2, 1], True)
    np.testing.assert_allclose(seen, [CORRECTED[i] for i in (0, 2, 1)], rtol=2e-6)
    assert (opt.cur_lr, opt.last_lr) == (0.05, 0.05)


def test_of_weights_that_come_one_by_one_the_first_sees_the_change():
    _, seen = walk([0, 2, 1], False)
    np.testing.assert_allclose(seen, [CORRECTED[0], PLAIN[2], PLAIN[1]], rtol=2e-6)


def test_of_many_weights_the_first_four_see_the_change():
    _, seen = walk([0, 2, 3, 1, 1], True)
    np.testing.assert_allclose(
        seen[[0, 1, 3, 4]], [CORRECTED[0], CORRECTED[2], CORRECTED[1], PLAIN[1]], rtol=2e-6
    )


def test_without_the_correction():
    opt, seen = walk([0, 2, 1], True, momentum_correction=False)
    np.testing.assert_allclose(seen, [PLAIN[i] for i in (0, 2, 1)], rtol=2e-6)
    assert not opt.momentum_correction


def test_the_former_name_of_epsilon():
    opt, seen = walk([0], True, eps=0.1)
    np.testing.assert_allclose(
        seen, [[0.998167, 0.991203, 0.981278, 0.978133, 0.974392]], rtol=2e-6
    )
    assert opt.eps == opt.epsilon == 0.1


def test_a_schedule():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Dense(2, in_units=2))
    net.initialize(mx.init.One())
    schedule = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    options = {"momentum": 0.9, "eta": 0.01, "lr_scheduler": schedule}
    trainer = mx.gluon.Trainer(net.collect_params(), "lars", options)
    data, losses = nd.array([[1, 2, 3], [0, 1, 0]]), []
    for _ in range(5):
        with mx.autograd.record():
            loss = (net(data) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    np.testing.assert_allclose(losses, [74, 37.063793, 24.798477, 25.784384, 30.095842], rtol=1e-5)


def test_a_rate_of_zero_makes_ftml_nan_as_there():
    opt = mx.optimizer.FTML(learning_rate=0.0)
    weight = nd.array([1.0, 2])
    opt.update(0, weight, nd.array([0.5, 0.1]), opt.create_state(0, weight))
    assert np.isnan(weight.asnumpy()).all()
