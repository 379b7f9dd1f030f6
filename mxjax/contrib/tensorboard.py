"""Metrics of a training in TensorBoard: `mx.contrib.tensorboard`."""

from __future__ import annotations

from typing import Any

from mxjax.errors import optional_import

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """A callback of `fit` and `score` that writes the metric's values into an event file, by the epoch.

    Args:
      logging_dir: the folder of the file; `tensorboard --logdir` shows what lies there. Training and validation
        go into two folders, so that their curves of one name lie in one picture.
      prefix: put before the metric's names, with a dash.

    Raises:
      ImportError: tensorboardX is not installed, which writes the file.

    >>> LogMetricsCallback("runs/train", prefix="train")  # doctest: +SKIP
    """

    def __init__(self, logging_dir: str, prefix: str | None = None):
        self.prefix = prefix
        self.summary_writer = optional_import("tensorboardX", "watch").SummaryWriter(logging_dir)

    def __call__(self, param: Any) -> None:
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            tag = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(tag, value, global_step=param.epoch)
        self.summary_writer.flush()  # a run that is broken off has written what there was
