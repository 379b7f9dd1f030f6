"""Metrics of numbers: errors, distances, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxjax import np as mnp
from mxjax.autograd import pause

from .base import EvalMetric, alias, check_label_shapes, pairs, register

__all__ = [
    "MAE",
    "MSE",
    "RMSE",
    "MeanCosineSimilarity",
    "MeanPairwiseDistance",
    "PearsonCorrelation",
]

Names = Sequence[str] | None


class _Mean(EvalMetric):
    """The mean over samples of a value for each."""

    def _each(self, label: Any, pred: Any) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            self._add(self._each(label, pred).sum(), label.shape[0])


def _per_sample(x: Any, count: int) -> Any:
    return x.reshape(count, -1).mean(axis=-1)


@register
class MAE(_Mean):
    """The mean absolute error.

    >>> MAE().name
    'mae'
    """

    def __init__(
        self, name: str = "mae", output_names: Names = None, label_names: Names = None
    ):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def _each(self, label: Any, pred: Any) -> Any:
        return _per_sample(mnp.abs(label - pred), label.shape[0])


@register
class MSE(_Mean):
    """The mean squared error.

    >>> MSE().name
    'mse'
    """

    def __init__(
        self, name: str = "mse", output_names: Names = None, label_names: Names = None
    ):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def _each(self, label: Any, pred: Any) -> Any:
        return _per_sample(mnp.square(label - pred), label.shape[0])


@register
class RMSE(MSE):
    """The root of the mean squared error.

    >>> RMSE().name
    'rmse'
    """

    def __init__(
        self, name: str = "rmse", output_names: Names = None, label_names: Names = None
    ):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def get(self) -> tuple[Any, Any]:
        return self.name, math.sqrt(self._mean())


@register
class MeanPairwiseDistance(_Mean):
    """The mean of the p-distances; as in MXNet without absolute values, so choose an even p.

    >>> MeanPairwiseDistance().p
    2
    """

    def __init__(
        self, name: str = "mpd", output_names: Names = None, label_names: Names = None,
        p: float = 2,
    ):  # fmt: skip
        super().__init__(name, output_names=output_names, label_names=label_names)
        self.p = p

    def _each(self, label: Any, pred: Any) -> Any:
        apart = label.reshape(label.shape[0], -1) - pred.reshape(pred.shape[0], -1)
        return (apart**self.p).sum(axis=-1) ** (1.0 / self.p)


@register
class MeanCosineSimilarity(EvalMetric):
    """The mean cosine of the angle between label and prediction, over the last axis.

    >>> MeanCosineSimilarity().name
    'cos_sim'
    """

    def __init__(
        self, name: str = "cos_sim", output_names: Names = None, label_names: Names = None,
        eps: float = 1e-8,
    ):  # fmt: skip
        super().__init__(name, output_names=output_names, label_names=label_names)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            label = label.reshape(-1, label.shape[-1])
            pred = pred.reshape(-1, pred.shape[-1])
            lengths = mnp.sqrt((label * label).sum(axis=-1)) * mnp.sqrt((pred * pred).sum(axis=-1))
            cosines = (label * pred).sum(axis=-1) / mnp.maximum(lengths, self.eps)
            self._add(cosines.sum(), label.shape[0])


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of all labels and predictions seen.

    Counts, means and sums of squared deviations are merged batch by batch in double precision
    (Chan, Golub and LeVeque 1979), so nothing is kept and nothing waits.

    >>> PearsonCorrelation().name
    'pearsonr'
    """

    def __init__(
        self, name: str = "pearsonr", output_names: Names = None, label_names: Names = None
    ):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def reset(self) -> None:
        super().reset()
        self._count = 0
        self._moments: tuple[Any, ...] = (0.0,) * 5

    reset_local = reset

    def update(self, labels: Any, preds: Any) -> None:
        with pause():  # the moments would keep every step of the training behind them
            self._update(labels, preds)

    def _update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            check_label_shapes(label, pred, False, True)
            label = label.reshape(-1).astype("float64")
            pred = pred.reshape(-1).astype("float64")
            size = label.size
            new_l, new_p = label.sum() / size, pred.sum() / size
            off_l, off_p = label - new_l, pred - new_p
            mean_l, mean_p, var_l, var_p, cov = self._moments
            total = self._count + size
            far_l, far_p = new_l - mean_l, new_p - mean_p
            weight = self._count * size / total
            self._moments = (
                mean_l + far_l * (size / total),
                mean_p + far_p * (size / total),
                var_l + (off_l * off_l).sum() + far_l * far_l * weight,
                var_p + (off_p * off_p).sum() + far_p * far_p * weight,
                cov + (off_l * off_p).sum() + far_l * far_p * weight,
            )
            self._count = total
            self.num_inst += 1

    def get(self) -> tuple[Any, Any]:
        if self.num_inst == 0:
            return self.name, float("nan")
        *_, var_l, var_p, cov = self._moments
        return self.name, (cov / mnp.sqrt(var_l * var_p)).item()
