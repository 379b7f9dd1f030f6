"""Metrics as an estimator's handlers take them."""

from __future__ import annotations

from typing import Any

from mxjax import errors

from ...loss import SoftmaxCrossEntropyLoss
from ...metric import Accuracy, CompositeEvalMetric, EvalMetric

__all__: list[str] = []


def _check_metrics(metrics: Any) -> list[Any]:
    """A metric, a composite one or a list of them, as a list.

    Raises:
      ValueError: something else is among them.
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [m for metric in metrics.metrics for m in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not all(isinstance(metric, EvalMetric) for metric in metrics):
        raise errors.MXNetValueError(f"metrics must be a Metric or a list of Metric, got {metrics}")
    return metrics  # type: ignore[no-any-return]


def _check_handler_metric_ref(handler: Any, known_metrics: Any) -> None:
    """Refuse a handler that asks for metrics which the estimator does not update."""
    for name in dir(handler):
        if "metric" in name:
            held = getattr(handler, name)
            for metric in held if isinstance(held, list) else [held] if held else []:
                _check_metric_known(handler, metric, known_metrics)


def _check_metric_known(handler: Any, metric: Any, known_metrics: Any) -> None:
    if not any(metric is known for known in known_metrics):
        raise errors.MXNetValueError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known "
            "training and validation metrics. Please use the metrics from estimator.train_metrics and "
            "estimator.val_metrics instead."
        )


def _suggest_metric_for_loss(loss: Any) -> Any:
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
