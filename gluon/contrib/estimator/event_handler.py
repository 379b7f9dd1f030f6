"""What happens at the begin and end of training, epochs and batches."""

from __future__ import annotations

import math
import operator
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

from mxjax import errors
from mxjax.display.reprs import Shown

from ...metric import CompositeEvalMetric, EvalMetric
from ...metric import Loss as LossMetric
from .utils import _check_metrics

__all__ = [
    "BatchBegin", "BatchEnd", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin", "EpochEnd",
    "GradientUpdateHandler", "LoggingHandler", "MetricHandler", "StoppingHandler", "TrainBegin", "TrainEnd",
    "ValidationHandler",
]  # fmt: skip


class EventHandler(Shown):
    """The base of handlers; those with a smaller ``priority`` come first (0 where there is none)."""


def _check_event_handlers(handlers: Any) -> list[Any]:
    if isinstance(handlers, EventHandler):
        return [handlers]
    handlers = handlers or []
    if not all(isinstance(handler, EventHandler) for handler in handlers):
        raise errors.MXNetValueError(
            f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}"
        )
    return handlers  # type: ignore[no-any-return]


class TrainBegin(EventHandler):
    """A handler that is called before training."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the first epoch."""


class TrainEnd(EventHandler):
    """A handler that is called after training."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the last epoch."""


class EpochBegin(EventHandler):
    """A handler that is called before each epoch."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the first batch."""


class EpochEnd(EventHandler):
    """A handler that is called after each epoch."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the last batch; True stops training."""
        return False


class BatchBegin(EventHandler):
    """A handler that is called before each batch."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Before the forward pass; ``batch`` is given by name."""


class BatchEnd(EventHandler):
    """A handler that is called after each batch."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """After the backward pass; ``batch``, ``pred``, ``label``, ``loss`` are given by name. True stops training."""
        return False


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after the estimator's number of epochs or batches."""

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None):
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin to count."""
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            self.stop_training = True
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            self.stop_training = True
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics with each batch, and resets them with each epoch."""

    def __init__(self, metrics: Any, priority: float = -1000):
        self.metrics = _check_metrics(metrics)
        self.priority = priority  # before whoever reads the metrics

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Reset."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates every so many epochs or batches.

    Args:
      val_data: a DataLoader.
      eval_fn: the estimator's ``evaluate``.
      epoch_period, batch_period: how often.
      priority: before whoever reads the metrics of validation.
      event_handlers: of the evaluation.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ):
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin to count."""
        self.current_batch = 0
        self.current_epoch = 0

    def _evaluate(self, estimator: Any) -> None:
        self.eval_fn(
            val_data=self.val_data,
            batch_axis=estimator.batch_axis,
            event_handlers=self.event_handlers,
        )

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate, if it is time."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate, if it is time."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes metrics and times to the estimator's logger.

    Args:
      log_interval: "epoch", or every so many batches.
      metrics: what is written.
      priority: behind all others.

    Raises:
      ValueError: another ``log_interval``.
    """

    def __init__(
        self, log_interval: int | str = "epoch", metrics: Any = None, priority: float = math.inf
    ):
        super().__init__()
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise errors.MXNetValueError(
                f"log_interval must be either an integer or string 'epoch', got {log_interval!r}"
            )
        self.metrics = _check_metrics(metrics)
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0

    def _said(self, text: str) -> str:
        parts = ["%s: %.4f" % metric.get() for metric in self.metrics]  # noqa: UP031
        return (text + ", ".join(parts)).rstrip(", ")

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say how it begins."""
        self.train_start = time.time()
        optimizer = type(estimator.trainer.optimizer).__name__
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            optimizer, estimator.trainer.learning_rate,
        )  # fmt: skip
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = 0
        self.batch_index = 0
        self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say how it ended."""
        seconds = time.time() - self.train_start
        estimator.logger.info(
            self._said(
                f"Train finished using total {int(seconds)}s with {self.current_epoch} epochs. "
            )
        )

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin to measure."""
        if isinstance(self.log_interval, int):
            self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say where it is, if it is time."""
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                text = (
                    f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}] "
                    f"time/interval: {self.log_interval_time:.3f}s "
                )
                self.log_interval_time = 0.0
                estimator.logger.info(self._said(text))
        self.batch_index += 1

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say that an epoch begins."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f",
                self.current_epoch,
                estimator.trainer.learning_rate,
            )
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say what the epoch brought."""
        seconds = time.time() - self.epoch_start
        estimator.logger.info(
            self._said(f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, ")
        )
        self.current_epoch += 1
        self.batch_index = 0


def _better(monitor: Any, mode: str, who: str) -> Callable[[Any, Any], Any]:
    """Whether more or less of a metric is better: as ``mode`` says, or by the metric's name."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{who} mode {mode} is unknown, fallback to auto mode. {who}Handler will use max mode for f1 and accuracy "
            "metric comparison and use min mode other wise",
            RuntimeWarning,
            stacklevel=4,
        )
        mode = "auto"
    if mode != "auto":
        return operator.lt if mode == "min" else operator.gt
    name = monitor.get()[0]
    more = "acc" in name.lower() or "f1" in name.lower()
    chosen, other, its = ("greater", "less", "min") if more else ("less", "greater", "max")
    warnings.warn(
        f"`{chosen}` operator will be used to determine if {name} has improved. Please specify `mode='{its}'` to use "
        f"the `{other}` operator. Specify `mode='{'max' if more else 'min'}'` to disable this warning.",
        stacklevel=4,
    )
    return operator.gt if more else operator.lt


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and the trainer's states every so many epochs or batches, and the best.

    Args:
      model_dir: the folder, which is made.
      model_prefix: the files are ``<prefix>-epoch<n>batch<m>.params`` and ``.states``, and ``<prefix>-best``.
      monitor: the metric that says which is best.
      verbose: 1: say what is saved.
      save_best: save the best as well.
      mode: "min", "max", or "auto": by the metric's name.
      epoch_period, batch_period: how often.
      max_checkpoints: older ones are removed.
      resume_from_checkpoint: go on from the last one in the folder.

    Raises:
      ValueError: ``save_best`` without a metric.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: Any = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ):
        self.monitor = monitor
        self.verbose = verbose
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        if save_best and not isinstance(monitor, EvalMetric):
            raise errors.MXNetValueError(
                "To save best model only, please provide one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor."
            )
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        self.trained_epoch = self.trained_batch = -1
        if save_best:
            self.monitor_op = _better(monitor, mode, "Checkpoint")
            self._forget_best()

    def _forget_best(self) -> None:
        self.best = math.inf if self.monitor_op is operator.lt else -math.inf

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin to count, or go on."""
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self._forget_best()
        if self.resume_from_checkpoint:
            wrong = (estimator.max_batch and (not self.batch_period or self.epoch_period)) or (
                estimator.max_epoch and (not self.epoch_period or self.batch_period)
            )
            if wrong:
                raise errors.MXNetAssertionError(
                    "To use resume from checkpoint, you must only specify the same type of period you used for "
                    "training. For example, if you are training based on number of epochs, you must save only based on "
                    "epochs, and set batch_period to None."
                )
            self._resume_from_checkpoint(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _tell(self, estimator: Any, text: str) -> None:
        if self.verbose > 0:
            estimator.logger.info(f"[Epoch {self.current_epoch}] CheckpointHandler: {text}")

    def _save_checkpoint(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            # At an epoch's end the last batch is counted already.
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_params_and_trainer(estimator, prefix)
        self._tell(
            estimator,
            f"trained total {self.current_batch + 1} batches, saving model at {self.model_dir} with prefix: {prefix}",
        )
        if not self.save_best:
            return
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the metric objects "
                "estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value, self.best):
            prefix = f"{self.model_prefix}-best"
            self._save_params_and_trainer(estimator, prefix)
            self._tell(
                estimator,
                f"{name} improved from {self.best:0.5f} to {value:0.5f}, updating best model at {self.model_dir} with "
                f"prefix: {prefix}",
            )
            self.best = value
        else:
            self._tell(
                estimator,
                f"{name} did not improve from {self.best:0.5f}, skipping updating best model",
            )

    def _save_symbol(self, estimator: Any) -> None:
        file = os.path.join(self.model_dir, f"{self.model_prefix}-symbol.json")
        net = estimator.net
        if getattr(net, "_active", False) and callable(getattr(net, "export", None)):
            net.export(os.path.join(self.model_dir, self.model_prefix))
            params = os.path.join(self.model_dir, f"{self.model_prefix}-0000.params")
            if os.path.exists(params):  # parameters are saved with each checkpoint
                os.remove(params)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and "
                "call net.hybridize() before passing to Estimator in order to save model architecture as %s.",
                file,
            )

    def _save_params_and_trainer(self, estimator: Any, file_prefix: str) -> None:
        path = os.path.join(self.model_dir, file_prefix)
        estimator.net.save_parameters(f"{path}.params")
        estimator.trainer.save_states(f"{path}.states")
        if "best" not in file_prefix:
            self.saved_checkpoints.append(file_prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            old = self.saved_checkpoints.pop(0)
            for ending in (".params", ".states"):
                if os.path.exists(os.path.join(self.model_dir, old + ending)):
                    os.remove(os.path.join(self.model_dir, old + ending))

    def _resume_from_checkpoint(self, estimator: Any) -> None:
        prefix = f"{self.model_prefix}-epoch"
        self.trained_epoch = self._find_max_iteration(
            self.model_dir, prefix, "epoch", "batch", self.saved_checkpoints
        )
        self.trained_batch = self._find_max_iteration(
            self.model_dir, f"{prefix}{self.trained_epoch}", "batch", ".params"
        )
        unit, most = (
            ("batches", estimator.max_batch)
            if estimator.max_batch
            else ("epochs", estimator.max_epoch)
        )
        if self.trained_epoch == -1:
            estimator.logger.info(
                f"CheckpointHandler: No checkpoint found, training from scratch for {most} {unit}"
            )
            return
        done = self.trained_batch if estimator.max_batch else self.trained_epoch
        if done >= most - 1:
            raise errors.MXNetValueError(
                f"Found checkpoint with maximum number of {unit} {most} reached, please specify "
                "resume_from_checkpoint=False (default value) if you wan to train from scratch."
            )
        if estimator.max_batch:
            estimator.max_batch = most - done - 1
        else:
            estimator.max_epoch = most - done - 1
        file = os.path.join(
            self.model_dir,
            f"{self.model_prefix}-epoch{self.trained_epoch}batch{self.trained_batch}",
        )
        for ending in (".params", ".states"):
            if not os.path.exists(file + ending):
                raise errors.MXNetAssertionError(
                    f"Failed to load checkpoint, {file + ending} does not exist"
                )
        estimator.net.load_parameters(f"{file}.params", device=estimator.device)
        estimator.trainer.load_states(f"{file}.states")
        estimator.logger.warning(
            f"CheckpointHandler: Checkpoint resumed from epoch {self.trained_epoch} batch {self.trained_batch}, "
            f"continue to train for {most - done - 1} {unit} "
        )

    def _find_max_iteration(
        self,
        dir: str,
        prefix: str,
        start: str,
        end: str,
        saved_checkpoints: list[str] | None = None,
    ) -> int:
        """The largest number between ``start`` and ``end`` in the names of files; -1 where there is none."""
        most = -1
        for name in os.listdir(dir):
            if name.startswith(prefix) and ".params" in name:
                if saved_checkpoints is not None:
                    saved_checkpoints.append(name[: name.find(".params")])
                rest = name[len(self.model_prefix) :]
                try:
                    number = int(rest[rest.find(start) + len(start) : rest.find(end)])
                except ValueError:
                    raise errors.MXNetValueError(
                        f"Error parsing checkpoint file {name}, please check your checkpoints have the format: "
                        "{model_name}-epoch{epoch_number}batch{batch_number}.params, there should also be a .states "
                        "file for each .params file"
                    ) from None
                most = max(most, number)
        return most


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops when a metric no longer improves.

    Args:
      monitor: the metric.
      min_delta: how much counts as an improvement.
      patience: how many epochs without one are borne.
      mode: "min", "max", or "auto": by the metric's name.
      baseline: what is to be improved from the start.

    Raises:
      ValueError: no (simple) metric.
    """

    def __init__(
        self,
        monitor: Any,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ):
        super().__init__()
        if not isinstance(monitor, EvalMetric):
            raise errors.MXNetValueError(
                "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
                "monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise errors.MXNetValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = _better(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is operator.gt else -min_delta

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin anew."""
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        worst = math.inf if self.monitor_op is operator.lt else -math.inf
        self.best = worst if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Look at the metric."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say that it was stopped."""
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                self.stopped_epoch, self.monitor.get()[0],
            )  # fmt: skip


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters after each batch, before all other handlers."""

    def __init__(self, priority: float = -2000):
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update, by the mean over the batch."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(one.shape[0] for one in losses))
