"""The training loop."""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import warnings
from typing import Any

from mxjax import errors
from mxjax.core import repeating
from mxjax.device import Device, cpu, current_device, gpu, num_gpus
from mxjax.display.reprs import Shown
from mxjax.modes import generation

from ...data import DataLoader
from ...loss import Loss
from ...metric import Loss as LossMetric
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
    _check_event_handlers,
)
from .utils import _check_handler_metric_ref, _check_metrics, _suggest_metric_for_loss

__all__ = ["Estimator"]

_KINDS = TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd


class Estimator(Shown):
    """Trains a network: batches, gradients, updates, metrics, validation and what handlers add.

    Args:
      net: the network; parameters without values are initialized.
      loss: a gluon.loss.Loss.
      train_metrics, val_metrics: metrics; the loss, with the accuracy for a cross entropy.
      initializer: for parameters that have none yet.
      trainer: SGD with a learning rate of 0.001.
      device: one or a list; the current device, or a GPU if there is one and the current device is `cpu(0)`.
      val_net, val_loss: for validation, where they are others.
      batch_processor: what is done with one batch.

    Raises:
      ValueError: an argument of another class.

    >>> import mxjax as mx
    >>> from mxjax.gluon.contrib.estimator import Estimator
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> fit = Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    >>> [m.name for m in fit.train_metrics]
    ['training accuracy', 'training SoftmaxCrossEntropyLoss']
    """

    logger: Any = None

    def __init__(
        self,
        net: Any,
        loss: Any,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Any = None,
        device: Any = None,
        val_net: Any = None,
        val_loss: Any = None,
        batch_processor: Any = None,
        context: Any = None,
    ):
        if not hasattr(net, "collect_params"):
            raise errors.MXNetValueError(f"net must be a Block, got {net!r}")
        self.net = net
        self.loss = self._check_loss(loss)
        self._train_metrics = _check_metrics(train_metrics)
        self._val_metrics = _check_metrics(val_metrics)
        self._add_default_training_metrics()
        self._add_validation_metrics()
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self.val_net = self.net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.device = self._check_devices(device if device is not None else context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)

    # ---- arguments -----------------------------------------------------------------------------------

    def _check_loss(self, loss: Any) -> Any:
        if not isinstance(loss, Loss):
            raise errors.MXNetValueError(
                f"loss must be a Loss, refer to gluon.loss.Loss: got {loss}"
            )
        return loss

    context = property(lambda self: self.device)  # MXNet 1's name

    def _check_context(self, context: Any) -> list[Device]:
        warnings.warn(
            "Estimator._check_context has been renamed to Estimator._check_devices",
            DeprecationWarning,
            stacklevel=2,
        )
        return self._check_devices(context)

    def _check_devices(self, devices: Any) -> list[Device]:
        count = num_gpus()
        if not devices:
            here = current_device()
            if not count or here != cpu():  # somebody chose it
                return [here]
            if count > 1:
                warnings.warn(
                    "You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, specify device "
                    "as a list of gpus, e.g. device=[mx.gpu(0), mx.gpu(1)]",
                    stacklevel=3,
                )
            return [gpu(0)]
        given = [devices] if isinstance(devices, Device) else devices
        if not isinstance(given, list) or not all(isinstance(d, Device) for d in given):
            raise errors.MXNetValueError(
                "devices must be a Device or a list of Device, for example mx.cpu() or [mx.gpu(0), mx.gpu(1)], got "
                f"{devices}"
            )
        for d in given:
            if d.device_type == "gpu" and d.device_id >= count:
                raise errors.MXNetAssertionError(f"{d} is not available: there are {count} GPUs")
        return given

    def _check_batch_processor(self, batch_processor: Any) -> Any:
        if batch_processor is None:
            return BatchProcessor()
        if not all(
            callable(getattr(batch_processor, name, None))
            for name in ("fit_batch", "evaluate_batch")
        ):
            raise errors.MXNetValueError(
                "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods"
            )
        return batch_processor

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            with (
                warnings.catch_warnings()
            ):  # of parameters that are there already and stay as they are
                warnings.simplefilter("ignore")
                self.net.initialize(init=initializer, device=self.device)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True) to "
                "force re-initialize.",
                stacklevel=3,
            )

    def _check_trainer(self, trainer: Any) -> Any:
        if not trainer:
            warnings.warn(
                "No trainer specified, default SGD optimizer with learning rate 0.001 is used.",
                stacklevel=3,
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise errors.MXNetValueError(f"Trainer must be a Gluon Trainer instance, got {trainer}")
        return trainer

    def _is_initialized(self) -> bool:
        try:
            for p in self.net.collect_params().values():
                p.list_device()
        except (RuntimeError, errors.MXNetError):
            return False
        return True

    def _get_data_and_label(
        self, batch: Any, device: Any, batch_axis: int = 0
    ) -> tuple[list[Any], list[Any]]:
        return BatchProcessor()._get_data_and_label(batch, device, batch_axis)

    # ---- metrics -------------------------------------------------------------------------------------

    def _add_default_training_metrics(self) -> None:
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            self._train_metrics = [suggested] if suggested else []
            kind = type(self.loss).__name__
            name = (
                getattr(self.loss, "name", kind).rstrip("0123456789") if generation() == 1 else kind
            )
            self._train_metrics.append(LossMetric(name))
        for metric in (
            self._train_metrics
        ):  # handlers tell metrics of training from those of validation by the name
            metric.name = f"training {metric.name}"

    def _add_validation_metrics(self) -> None:
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = f"validation {metric.name}"

    @property
    def train_metrics(self) -> list[Any]:
        """The metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        """The metrics of validation."""
        return self._val_metrics

    # ---- running -------------------------------------------------------------------------------------

    def _check_loader(self, data: Any) -> None:
        if not isinstance(data, DataLoader):
            raise errors.MXNetValueError(
                "Estimator only support input as Gluon DataLoader. Alternatively, you can transform your DataIter or "
                f"any NDArray into Gluon DataLoader, refer to gluon.data.DataLoader: got {type(data).__name__}"
            )

    def evaluate(self, val_data: Any, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Run over the validation data; ``val_metrics`` have the results.

        Raises:
          ValueError: no DataLoader.
        """
        self._check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(
        self,
        train_data: Any,
        val_data: Any = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for so many epochs, or batches, or until a handler stops it.

        Raises:
          ValueError: no DataLoader, or not one of ``epochs`` and ``batches``.
        """
        self._check_loader(train_data)
        if (not epochs) == (not batches):
            raise errors.MXNetValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches. "
                "Please specify one and only one of: epochs or batches."
            )
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = (
            self._categorize_handlers(handlers)
        )
        for handler in train_begin:
            handler.train_begin(self)
        done, steps = 0, batches
        if epochs:
            with contextlib.suppress(TypeError, NotImplementedError):  # a loader of no known length
                steps = epochs * len(train_data)
        while True:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            for batch in train_data:
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                done += 1
                with repeating(None if steps is None else max(0, steps - done)):
                    _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                    # Each handler is asked, also behind one that says stop.
                    stops = [
                        handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                        for handler in batch_end
                    ]
                if any(stops):
                    break
            if any([handler.epoch_end(self) for handler in epoch_end]):
                break
        for handler in train_end:
            handler.train_end(self)

    # ---- handlers ------------------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Any) -> list[Any]:
        given = list(_check_event_handlers(event_handlers))

        def lacks(kind: type) -> bool:
            return not any(isinstance(handler, kind) for handler in given)

        added: list[Any] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if lacks(GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if lacks(MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if lacks(ValidationHandler) and val_data:
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if lacks(LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return self._ordered(given, added, self.train_metrics + self.val_metrics)

    def _prepare_default_validation_handlers(self, event_handlers: Any) -> list[Any]:
        given = list(_check_event_handlers(event_handlers))
        added: list[Any] = []
        if not any(isinstance(handler, MetricHandler) for handler in given):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not any(isinstance(handler, LoggingHandler) for handler in given):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return self._ordered(given, added, self.val_metrics)

    def _ordered(self, given: list[Any], added: list[Any], known: list[Any]) -> list[Any]:
        """All handlers by their priority; where the user's and ours are mixed, all speak of the same metrics."""
        handlers = given + added
        if given and added:
            for handler in handlers:
                _check_handler_metric_ref(handler, known)
        return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))

    def _categorize_handlers(self, event_handlers: list[Any]) -> list[list[Any]]:
        """The handlers of each kind: of training's begin, an epoch's, a batch's, and their ends."""
        return [
            [handler for handler in event_handlers if isinstance(handler, kind)] for kind in _KINDS
        ]
