"""Training watched in notebooks. pandas and bokeh are optional: small stand-ins of what is used of them are enough."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import mxjax as mx
from mxjax.notebook import callback


@pytest.fixture
def shown(monkeypatch):
    """pandas and bokeh, whose data are lists and whose charts are recorded."""
    seen = SimpleNamespace(pushed=0, lines=[])

    class Source:
        def __init__(self, columns):
            self.data = columns

        def stream(self, more):
            for name, values in more.items():
                self.data[name] = [*self.data[name], *values]

    def figure(**options):
        return SimpleNamespace(line=lambda *a, **k: seen.lines.append(k), yaxis=SimpleNamespace(),
                               legend=SimpleNamespace())  # fmt: skip

    def push(handle):
        seen.pushed += 1

    for name, content in {
        "pandas": {"DataFrame": list}, "bokeh": {}, "bokeh.models": {"ColumnDataSource": Source},
        "bokeh.io": {"output_notebook": lambda: None, "push_notebook": push},
        "bokeh.plotting": {"figure": figure, "show": lambda fig, notebook_handle: "handle"},
    }.items():  # fmt: skip
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return seen


def test_a_run_is_kept_and_drawn(shown):
    logger, curve = (
        callback.PandasLogger(4, frequent=2),
        callback.LiveLearningCurve("accuracy", 0, frequent=1),
    )
    net = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax"
    )
    it = mx.io.NDArrayIter(np.ones((12, 3)), np.zeros(12), 4)
    mx.mod.Module(net).fit(it, it, num_epoch=2, **callback.args_wrapper(curve, logger))
    train, evaluation, epochs = (logger.all_dataframes[name] for name in ("train", "eval", "epoch"))
    assert [(row["epoch"], row["minibatch_count"]) for row in train] == [
        (0, 0),
        (0, 2),
        (1, 0),
        (1, 2),
    ]
    assert (
        [row["epoch"] for row in logger.eval_df] == [0, 1] == [row["epoch"] for row in evaluation]
    )
    assert (
        len(logger.epoch_df) == len(epochs) == 2
        and train[0]["records_per_sec"] == 4 * train[0]["batches_per_sec"]
    )
    assert (
        len(curve._sources["train"].data["y"]) == 6 and len(curve._sources["eval"].data["y"]) == 2
    )
    assert {line["legend_label"] for line in shown.lines} == {
        "train",
        "validation",
    } and shown.pushed >= 2


def test_numbers_over_time(shown):
    series = callback.LiveTimeSeries(title="t")
    for value in (1.0, 2.0):
        series.update_chart_data(value)
    assert series.source.data["y"] == [1.0, 2.0] and shown.pushed == 2
    with pytest.raises(NotImplementedError, match="setup_chart"):
        callback.LiveBokehChart(None, "accuracy")
