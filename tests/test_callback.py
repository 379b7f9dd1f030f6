"""Callbacks; the lines are those of MXNet 2.0.0b1."""

from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import numpy as np
import pytest

import mxjax as mx


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [
        re.sub(r"[\d.]+ samples", "N samples", record.getMessage())
        for record in caplog.records
        if record.name == "root"
    ]


def _metric():
    metric = mx.metric.Accuracy()
    metric.update(mx.np.array([0, 1]), mx.np.array([[0.9, 0.1], [0.8, 0.2]]))  # one of two
    return metric


def _param(nbatch, metric=None, epoch=1):
    return SimpleNamespace(epoch=epoch, nbatch=nbatch, eval_metric=metric)


def test_speedometer_reports_and_starts_the_metric_anew(lines):
    meter, metric = mx.callback.Speedometer(32, frequent=2), _metric()
    for nbatch in range(5):
        meter(_param(nbatch, metric))
        if nbatch == 2:
            assert np.isnan(metric.get()[1])  # reset
            metric = _metric()
    assert lines() == [
        "Epoch[1] Batch [0-2]\tSpeed: N samples/sec\taccuracy=0.500000",
        "Epoch[1] Batch [2-4]\tSpeed: N samples/sec\taccuracy=0.500000",
    ]


def test_speedometer_that_keeps_the_metric_and_one_without(lines):
    meter, metric = mx.callback.Speedometer(32, frequent=2, auto_reset=False), _metric()
    for nbatch in range(5):
        meter(_param(nbatch, metric))
    assert metric.get()[1] == 0.5
    bare = mx.callback.Speedometer(32, frequent=1)
    bare(_param(0))
    bare(_param(1))
    assert lines() == [
        "Epoch[1] Batch [0-2]\tSpeed: N samples/sec\taccuracy=0.500000",
        "Epoch[1] Batch [0-4]\tSpeed: N samples/sec\taccuracy=0.500000",
        "Iter[1] Batch [1]\tSpeed: N samples/sec",
    ]


def test_speedometer_begins_again_with_an_epoch(lines):
    meter = mx.callback.Speedometer(1, frequent=2)
    for epoch in range(2):
        for nbatch in (1, 2, 3):
            meter(_param(nbatch, epoch=epoch))
    assert lines() == [
        "Iter[0] Batch [2]\tSpeed: N samples/sec",
        "Iter[1] Batch [2]\tSpeed: N samples/sec",
    ]


def test_log_train_metric_and_validation(lines):
    metric = _metric()
    log = mx.callback.log_train_metric(2, auto_reset=True)
    for nbatch in (1, 2):
        log(_param(nbatch, metric))
    assert np.isnan(metric.get()[1])
    log(_param(2))
    mx.callback.LogValidationMetricsCallback()(_param(0, _metric()))
    mx.callback.LogValidationMetricsCallback()(_param(0))
    assert lines() == [
        "Iter[1] Batch[2] Train-accuracy=0.500000",
        "Epoch[1] Validation-accuracy=0.500000",
    ]


def test_progress_bar(lines):
    bar = mx.callback.ProgressBar(4, length=8)
    for nbatch in (1, 3, 4):
        bar(_param(nbatch))
    assert lines() == ["[==------] 25%\r", "[======--] 75%\r", "[========] 100%\r"]
