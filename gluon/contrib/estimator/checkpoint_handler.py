"""Saves the network and the trainer while it trains, and finds where to go on."""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Callable
from typing import Any

from mxjax import errors

from ...metric import EvalMetric
from .events import BatchEnd, EpochEnd, TrainBegin


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
      max_checkpoints: older ones of this run are removed; those that it went on from stay, as in MXNet.
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
        """The largest number between ``start`` and ``end`` in the names of files; -1 where there is none.

        As in MXNet the files join ``saved_checkpoints``, which are removed in their time, if there are some already.
        """
        most = -1
        for name in os.listdir(dir):
            if name.startswith(prefix) and ".params" in name:
                if saved_checkpoints:
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
