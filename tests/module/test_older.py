"""MXNet 1's private training loop, its bound executors and its counts; the numbers are MXNet 1.9.1's."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx
from mxjax import nd

NAMES = ["fc_weight", "fc_bias"]


def network():
    return mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax"
    )


def test_the_loop_trains_as_mxnets():
    from mxjax.model import _train_multi_device

    draws = onp.random.RandomState(0).randn(8, 3).astype("float32")
    data = mx.io.NDArrayIter(draws, (draws.sum(1) > 0).astype("float32"), 4)
    arguments = {"fc_weight": nd.ones((2, 3)) * 0.1, "fc_bias": nd.zeros(2)}
    heard = []
    _train_multi_device(
        network(), [mx.cpu(0)], network().list_arguments(), NAMES, [], arguments, {}, 0, 3, None,
        mx.optimizer.create("sgd", learning_rate=0.1, wd=0.0), None, False, data, eval_data=data,
        eval_metric=mx.gluon.metric.create("acc"), batch_end_callback=lambda p: heard.append((p.epoch, p.nbatch)),
    )  # fmt: skip
    assert arguments["fc_weight"].asnumpy() == pytest.approx(
        onp.array([[-0.36715, -0.29372, -0.25806], [0.56715, 0.49372, 0.45806]]), abs=2e-5
    )
    assert arguments["fc_bias"].asnumpy() == pytest.approx([-0.39678, 0.39678], abs=2e-5)
    assert heard == [(epoch, batch) for epoch in range(3) for batch in (1, 2)]


def test_an_executor_shares_what_it_is_given():
    from mxjax.executor_manager import _bind_exec

    shared: dict[str, mx.nd.NDArray] = {}
    shapes = {"data": (2, 3), "softmax_label": (2,)}
    first = _bind_exec(
        network(), mx.cpu(), shapes, NAMES, need_grad=True, shared_data_arrays=shared
    )
    first.forward(is_train=True, data=nd.ones((2, 3)))
    first.backward()
    assert first.grad_dict["fc_bias"].asnumpy().tolist() == [-1, 1]
    assert sorted(name for name, grad in first.grad_dict.items() if grad is not None) == sorted(
        NAMES
    )
    second = _bind_exec(network(), mx.cpu(), shapes, NAMES, True, first, shared)
    assert sorted(shared) == ["data", "softmax_label"]
    first.arg_dict["fc_weight"][:] = 3
    assert second.arg_dict["fc_weight"].asnumpy().max() == 3
    with pytest.raises(AssertionError, match="must be boolean or set"):
        _bind_exec(network(), mx.cpu(), shapes, NAMES, need_grad=[])


def test_counts_of_two_answers():
    from mxjax.metric import _BinaryClassificationMetrics

    counts = _BinaryClassificationMetrics()
    said = nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]])
    counts.update_binary_stats(nd.array([0, 1, 1, 0, 1]), said)
    assert [counts.precision, counts.recall, counts.fscore, counts.global_fscore] == pytest.approx(
        [2 / 3] * 4
    )
    assert counts.matthewscc() == pytest.approx(1 / 6) and counts.total_examples == 5
    counts.local_reset_stats()
    assert (counts.fscore, counts.matthewscc(), counts.global_total_examples) == (0, 0, 5)
    assert counts.matthewscc(True) == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match="only supports binary"):
        counts.update_binary_stats(nd.array([0, 1, 2]), said[:3])


def test_gradients_over_all_data_take_their_place():
    from mxjax.contrib.svrg_optimization.svrg_optimizer import _SVRGOptimizer

    optimizer = _SVRGOptimizer("sgd", learning_rate=0.5, param_idx2name={0: "w", 1: "w_full"})
    weight, whole = nd.ones(2), nd.ones(2)
    optimizer.update(0, weight, nd.ones(2), None)
    optimizer.update(1, whole, nd.ones(2) * 7, None)
    assert weight.asnumpy().tolist() == [0.5, 0.5] and whole.asnumpy().tolist() == [7, 7]
