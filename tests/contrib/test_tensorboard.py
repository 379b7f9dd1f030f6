"""Metrics for TensorBoard; what writes the files is another package, here a stand-in that keeps what it is told."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import mxjax as mx


class Writer:
    def __init__(self, folder):
        self.folder, self.told, self.flushed = folder, [], 0

    def add_scalar(self, tag, value, global_step):
        self.told.append((tag, value, global_step))

    def flush(self):
        self.flushed += 1


@pytest.fixture
def installed(monkeypatch):
    package = ModuleType("tensorboardX")
    package.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboardX", package)


def test_values_by_the_epoch(installed):
    metric = mx.metric.create(["acc", "mse"])
    metric.update([mx.nd.array([1, 0])], [mx.nd.array([1, 1])])
    named = mx.contrib.tensorboard.LogMetricsCallback("runs", prefix="train")
    named(SimpleNamespace(epoch=3, nbatch=7, eval_metric=metric))
    named(SimpleNamespace(epoch=4, nbatch=0, eval_metric=None))
    writer = named.summary_writer
    assert writer.folder == "runs" and writer.flushed == 1
    assert writer.told == [("train-accuracy", 0.5, 3), ("train-mse", 0.5, 3)]


def test_in_a_training(installed):
    data = mx.io.NDArrayIter(mx.nd.ones((4, 2)), mx.nd.array([0, 1, 0, 1]), 2)
    net = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax"
    )
    log = mx.contrib.tensorboard.LogMetricsCallback("runs")
    mx.mod.Module(net).fit(data, eval_data=data, num_epoch=2, eval_end_callback=log)
    assert log.summary_writer.told == [("accuracy", 0.5, 0), ("accuracy", 0.5, 1)]


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"mxjax\[watch\]"):
        mx.contrib.tensorboard.LogMetricsCallback("runs")
