"""Callbacks that keep a training run as pandas' data frames, or draw it with bokeh while it goes on."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..errors import MXNetNotImplementedError, optional_import

__all__ = ["LiveBokehChart", "LiveLearningCurve", "LiveTimeSeries", "PandasLogger", "args_wrapper"]


class PandasLogger:
    """Keeps the metric and the speed of a run in three data frames: train, eval, epoch.

    Its callbacks begin the metric anew after each row.

    Args:
      batch_size: samples in a batch.
      frequent: batches between two rows of `train_df`.
    """

    def __init__(self, batch_size: int, frequent: int = 50):
        self.batch_size = batch_size
        self.frequent = frequent
        self._rows: dict[str, list[dict[str, Any]]] = {"train": [], "eval": [], "epoch": []}
        self.last_time = time.time()
        self.start_time = datetime.now()
        self.last_epoch_time = self.start_time

    def _frame(self, name: str) -> Any:
        return optional_import("pandas", "watch").DataFrame(self._rows[name])

    @property
    def train_df(self) -> Any:
        """The metric of batches, a row every `frequent`."""
        return self._frame("train")

    @property
    def eval_df(self) -> Any:
        """The metric of the validation, a row an epoch."""
        return self._frame("eval")

    @property
    def epoch_df(self) -> Any:
        """How long epochs took."""
        return self._frame("epoch")

    @property
    def all_dataframes(self) -> dict[str, Any]:
        """The three by name."""
        return {name: self._frame(name) for name in self._rows}

    def elapsed(self) -> timedelta:
        """The time since it was made."""
        return datetime.now() - self.start_time

    def append_metrics(self, metrics: Mapping[str, Any], df_name: str) -> None:
        """Add a row to one of the three; new names are new columns."""
        self._rows[df_name].append(dict(metrics))

    def train_cb(self, param: Any) -> None:
        """To be called after each batch."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")

    def eval_cb(self, param: Any) -> None:
        """To be called after each evaluation."""
        self._process_batch(param, "eval")

    def _process_batch(self, param: Any, name: str) -> None:
        now = time.time()
        speed = self.frequent / (now - self.last_time) if now > self.last_time else math.inf
        row = {
            **_values(param),
            "batches_per_sec": speed,
            "records_per_sec": speed * self.batch_size,
            "elapsed": self.elapsed(),
            "minibatch_count": param.nbatch,
            "epoch": param.epoch,
        }
        self.append_metrics(row, name)
        self.last_time = now

    def epoch_cb(self, *args: Any) -> None:
        """To be called after each epoch."""
        now = datetime.now()
        self.append_metrics(
            {"elapsed": self.elapsed(), "epoch_time": now - self.last_epoch_time}, "epoch"
        )
        self.last_epoch_time = now

    def callback_args(self) -> dict[str, Any]:
        """The callbacks as arguments of `fit`: `module.fit(data, **logger.callback_args())`."""
        return {
            "batch_end_callback": self.train_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }


def _values(param: Any) -> dict[str, Any]:
    """The metric's values by name; it begins anew."""
    if param.eval_metric is None:
        return {}
    values = dict(param.eval_metric.get_name_value())
    param.eval_metric.reset()
    return values


class LiveBokehChart:
    """The base of charts in a notebook that are drawn anew while training goes on.

    A subclass defines `setup_chart` and `update_chart_data`.

    Args:
      pandas_logger: what collects the numbers; one is made if None.
      metric_name: the metric to be drawn.
      display_freq: seconds between two drawings.
      batch_size, frequent: of the logger that is made.
    """

    def __init__(
        self, pandas_logger: PandasLogger | None, metric_name: str | None, display_freq: float = 10,
        batch_size: int | None = None, frequent: int = 50,
    ):  # fmt: skip
        self.pandas_logger = pandas_logger or PandasLogger(batch_size or 1, frequent)
        self.display_freq = display_freq
        self.last_update = time.time()
        self.metric_name = metric_name
        self._io = optional_import("bokeh.io", "watch")
        self._io.output_notebook()
        self.handle = self.setup_chart()

    def setup_chart(self) -> Any:
        """Show the chart; gives bokeh's handle on it."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define setup_chart")

    def update_chart_data(self, *args: Any) -> None:
        """Put new numbers into the chart."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define update_chart_data")

    def interval_elapsed(self) -> bool:
        """Whether it is time to draw."""
        return time.time() - self.last_update > self.display_freq

    def _push_render(self) -> None:
        if self.handle is not None:  # None outside a notebook
            self._io.push_notebook(handle=self.handle)
        self.last_update = time.time()

    def _do_update(self) -> None:
        self.update_chart_data()
        self._push_render()

    def batch_cb(self, param: Any) -> None:
        """To be called after each batch."""
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: Any) -> None:
        """To be called after each evaluation: draws in any case."""
        self._do_update()

    def callback_args(self) -> dict[str, Any]:
        """The callbacks as arguments of `fit`."""
        return {"batch_end_callback": self.batch_cb, "eval_end_callback": self.eval_cb}


def _figure(x_label: str, y_label: str | None = None, **options: Any) -> Any:
    plotting = optional_import("bokeh.plotting", "watch")
    figure = plotting.figure(x_axis_type="datetime", x_axis_label=x_label, **options)
    if y_label is not None:
        figure.yaxis.axis_label = y_label
    return figure


def _source(*names: str) -> Any:
    return optional_import("bokeh.models", "watch").ColumnDataSource({name: [] for name in names})


class LiveTimeSeries(LiveBokehChart):
    """A curve of numbers over the time since it was made; `fig_params` are those of bokeh's figure."""

    def __init__(self, **fig_params: Any):
        self.start_time = datetime.now()
        self.fig = _figure("Elapsed time", **fig_params)
        self.source = _source("x", "y")
        super().__init__(None, None)

    def setup_chart(self) -> Any:
        self.fig.line("x", "y", source=self.source)
        return optional_import("bokeh.plotting", "watch").show(self.fig, notebook_handle=True)

    def elapsed(self) -> timedelta:
        """The time since it was made."""
        return datetime.now() - self.start_time

    def update_chart_data(self, value: float) -> None:  # type: ignore[override]
        """Add a number."""
        self.source.stream({"x": [self.elapsed()], "y": [value]})
        self._push_render()


class LiveLearningCurve(LiveBokehChart):
    """A metric of training and validation over the time since it was made.

    Args:
      metric_name: the metric.
      display_freq: seconds between two drawings.
      frequent: batches between two points.
    """

    def __init__(self, metric_name: str, display_freq: float = 10, frequent: int = 50):
        self.frequent = frequent
        self.start_time = datetime.now()
        self._sources = {name: _source("x", "y") for name in ("train", "eval")}
        self._waiting: dict[str, dict[str, list[Any]]] = {
            name: {"x": [], "y": []} for name in self._sources
        }
        super().__init__(None, metric_name, display_freq, frequent=frequent)

    def setup_chart(self) -> Any:
        self.fig = _figure("Training time", self.metric_name)
        self.fig.line(
            "x",
            "y",
            source=self._sources["train"],
            line_dash="dotted",
            alpha=0.3,
            legend_label="train",
        )
        self.fig.line("x", "y", source=self._sources["eval"], line_color="green", line_width=2,
                      legend_label="validation")  # fmt: skip
        self.fig.legend.location = "bottom_right"
        return optional_import("bokeh.plotting", "watch").show(self.fig, notebook_handle=True)

    def batch_cb(self, param: Any) -> None:
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")
        super().batch_cb(param)

    def eval_cb(self, param: Any) -> None:
        self._process_batch(param, "eval")
        super().eval_cb(param)

    def _process_batch(self, param: Any, name: str) -> None:
        values = _values(param)
        if self.metric_name in values:
            self._waiting[name]["x"].append(datetime.now() - self.start_time)
            self._waiting[name]["y"].append(values[self.metric_name])

    def update_chart_data(self, *args: Any) -> None:
        for name, points in self._waiting.items():
            self._sources[name].stream(points)
            self._waiting[name] = {"x": [], "y": []}


def args_wrapper(*args: Any) -> dict[str, list[Any]]:
    """The callbacks of several objects as arguments of `fit`: `module.fit(data, **args_wrapper(logger, curve))`."""
    found = defaultdict(list)
    for each in args:
        for name, callback in each.callback_args().items():
            found[name].append(callback)
    return dict(found)
