"""Callbacks that report on training: called with the epoch, the number of the batch and the metric.

Their argument has the attributes `epoch`, `nbatch`, `eval_metric` (an `EvalMetric` or None); they write
with Python's `logging`, at the level INFO.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from .display.reprs import Shown

__all__ = [
    "LogValidationMetricsCallback",
    "ProgressBar",
    "Speedometer",
    "do_checkpoint",
    "log_train_metric",
    "module_checkpoint",
]


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """A callback that logs the metric every `period` batches; `auto_reset` starts the metric anew then."""

    def log(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info(
                    "Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value
                )
            if auto_reset:
                _begin_anew(param.eval_metric)

    return log


def _begin_anew(metric: Any) -> None:
    """What comes from here on; what was before still counts for the epoch, where the metric can tell the two apart."""
    getattr(metric, "reset_local", metric.reset)()


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback for the end of an epoch that saves the network's symbol and parameters every `period` epochs.

    Epoch n (from 1) goes into `prefix-symbol.json` and `prefix-000n.params`; see `mx.model.save_checkpoint`.
    """
    period = max(1, int(period))

    def save(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % period == 0:
            from .model import save_checkpoint

            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return save


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """A callback for the end of an epoch that calls `mod.save_checkpoint` every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return save


class Speedometer(Shown):
    """Logs samples per second and the metric every `frequent` batches.

    Args:
      batch_size: samples in a batch.
      frequent: batches between two reports.
      auto_reset: start the metric anew after each report, which then tells of these batches alone.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True):
        self.batch_size = batch_size
        self.frequent = frequent
        self.init = False
        self.tic = 0.0
        self.last_count = 0
        self.auto_reset = auto_reset

    def __call__(self, param: Any) -> None:
        count = param.nbatch
        if self.last_count > count:  # a new epoch
            self.init = False
        self.last_count = count
        if self.init and count % self.frequent:
            return
        if self.init:
            self._report(param, count)
        self.init = True
        self.tic = time.time()

    def _report(self, param: Any, count: int) -> None:
        taken = time.time() - self.tic
        speed = self.frequent * self.batch_size / taken if taken else math.inf
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        found = param.eval_metric.get_name_value()
        if self.auto_reset:
            _begin_anew(param.eval_metric)
        text = "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(found)
        begin = count - self.frequent if self.auto_reset else 0
        logging.info(text, param.epoch, begin, count, speed, *sum(found, ()))


class ProgressBar(Shown):
    """Logs a bar of `length` characters that is full at `total` batches."""

    def __init__(self, total: int, length: int = 80):
        self.bar_len = length
        self.total = total

    def __call__(self, param: Any) -> None:
        part = param.nbatch / float(self.total)
        filled = round(self.bar_len * part)
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.info("[%s] %s%s\r", bar, math.ceil(100.0 * part), "%")


class LogValidationMetricsCallback(Shown):
    """Logs the metric, as the validation's, at the end of an epoch."""

    def __call__(self, param: Any) -> None:
        if param.eval_metric:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
