"""What an estimator does with one batch."""

from __future__ import annotations

from typing import Any

from mxjax import autograd

from ...utils import split_and_load

__all__ = ["BatchProcessor"]


class BatchProcessor:
    """Forward and backward of one batch; derive from it for batches of another form."""

    def _get_data_and_label(
        self, batch: Any, device: Any, batch_axis: int = 0
    ) -> tuple[list[Any], list[Any]]:
        data, label = batch[0], batch[1]
        return (
            split_and_load(data, device, batch_axis=batch_axis),
            split_and_load(label, device, batch_axis=batch_axis),
        )

    def evaluate_batch(
        self, estimator: Any, val_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Data, labels, predictions and losses (lists, one for each device) of a batch for validation."""
        data, label = self._get_data_and_label(val_batch, estimator.device, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: Any, train_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Data, labels, predictions and losses (lists, one for each device) of a batch for training, with gradients.

        The update is left to GradientUpdateHandler; both run as one program.
        """
        data, label = self._get_data_and_label(train_batch, estimator.device, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        for one in loss:
            one.backward()
        return data, label, pred, loss
