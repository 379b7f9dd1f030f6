"""Metrics of numbers: errors, distances, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxjax import np as mnp
from mxjax.autograd import pause
from mxjax.modes import generation

from .base import EvalMetric, alias, average_of, check_label_shapes, pairs, register

__all__ = [
    "MAE",
    "MSE",
    "RMSE",
    "MeanCosineSimilarity",
    "MeanPairwiseDistance",
    "PearsonCorrelation",
]

Names = Sequence[str] | None
_Moments = tuple[int, Any, Any, Any, Any, Any]


class _Mean(EvalMetric):
    """The mean over samples of a value for each."""

    def _each(self, label: Any, pred: Any) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            self._add(self._each(label, pred).sum(), label.shape[0])


class _Errors(_Mean):
    """The mean over samples; in MXNet 1 that of the batches' means, whatever their sizes, of vectors as columns."""

    def __init__(self, name: str, output_names: Names, label_names: Names):
        self.by_batch = generation() == 1
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, labels: Any, preds: Any) -> None:
        if not self.by_batch:
            super().update(labels, preds)
            return
        for label, pred in pairs(labels, preds):
            label, pred = (x.reshape(-1, 1) if x.ndim == 1 else x for x in (label, pred))
            self._add(self._of_batch(self._each(label, pred).mean()), 1)

    def _of_batch(self, mean: Any) -> Any:
        return mean


def _per_sample(x: Any, count: int) -> Any:
    return x.reshape(count, -1).mean(axis=-1)


@register
class MAE(_Errors):
    """The mean absolute error.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> MAE().name
    'mae'
    """

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _each(self, label: Any, pred: Any) -> Any:
        return _per_sample(mnp.abs(label - pred), label.shape[0])


@register
class MSE(_Errors):
    """The mean squared error.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> MSE().name
    'mse'
    """

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _each(self, label: Any, pred: Any) -> Any:
        return _per_sample(mnp.square(label - pred), label.shape[0])


@register
class RMSE(MSE):
    """The root of the mean squared error.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> RMSE().name
    'rmse'
    """

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _of_batch(self, mean: Any) -> Any:
        return mnp.sqrt(mean)

    def get(self) -> tuple[Any, Any]:
        return self.name, self._mean() if self.by_batch else math.sqrt(self._mean())


@register
class MeanPairwiseDistance(_Mean):
    """The mean of the p-distances; as in MXNet without absolute values, so choose an even p.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.
      p: the order of the norm.

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

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.
      eps: what the product of both lengths is at least.

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

    Args:
      average: "micro" for that, "macro" for the mean of the batches' correlations; None is "micro", in MXNet 1
        "macro".
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    Counts, means and sums of squared deviations are merged batch by batch in double precision
    (Chan, Golub and LeVeque 1979), so nothing is kept and nothing waits.

    >>> PearsonCorrelation().name
    'pearsonr'
    """

    def __init__(
        self, name: str = "pearsonr", output_names: Names = None, label_names: Names = None,
        average: str | None = None,
    ):  # fmt: skip
        self.average = average_of(average)
        super().__init__(name, output_names=output_names, label_names=label_names)

    def reset(self) -> None:
        super().reset()
        self.reset_micro()
        self._earlier_moments = self._moments

    def reset_micro(self) -> None:
        """Forget the moments: count, both means, both sums of squares and that of products."""
        self._moments: _Moments = (0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def reset_local(self) -> None:
        with pause():
            earlier = _merged(self._earlier_moments, self._moments)
        super().reset_local()
        self._earlier_moments = earlier

    def update_variance(self, new_values: Any, *aggregate: Any) -> tuple[Any, Any, Any]:
        """Count, mean and sum of squared deviations with new values taken in (Welford 1962)."""
        count, mean, squares = aggregate
        count = count + len(new_values)
        off = new_values - mean
        mean = mean + (off / count).sum()
        return count, mean, squares + (off * (new_values - mean)).sum()

    def update_cov(self, label: Any, pred: Any) -> None:
        """Take the products of deviations from the means so far into their sum."""
        count, mean_l, mean_p, var_l, var_p, cov = self._moments
        cov = cov + ((label - mean_l) * (pred - mean_p)).sum()
        self._moments = count, mean_l, mean_p, var_l, var_p, cov

    def update(self, labels: Any, preds: Any) -> None:
        with pause():  # the moments would keep every step of the training behind them
            for label, pred in pairs(labels, preds):
                check_label_shapes(label, pred, False, True)
                label = label.reshape(-1).astype("float64")
                pred = pred.reshape(-1).astype("float64")
                mean_l, mean_p = label.sum() / label.size, pred.sum() / label.size
                off_l, off_p = label - mean_l, pred - mean_p
                squares = (off_l * off_l).sum(), (off_p * off_p).sum(), (off_l * off_p).sum()
                moments = (label.size, mean_l, mean_p, *squares)
                if self.average == "macro":
                    self._add(_correlation(moments), 1)
                else:
                    self._moments = _merged(self._moments, moments)
                    self.num_inst += 1

    def get(self) -> tuple[Any, Any]:
        if self.average == "macro":
            return super().get()
        return self.name, _read(self._moments)

    def get_global(self) -> tuple[Any, Any]:
        if self.average == "macro":
            return super().get_global()
        return self.name, _read(_merged(self._earlier_moments, self._moments))


def _merged(old: _Moments, new: _Moments) -> _Moments:
    """The moments of two sets of samples from those of each."""
    total = old[0] + new[0]
    if not old[0] or not new[0]:
        return new if new[0] else old
    far_l, far_p = new[1] - old[1], new[2] - old[2]
    share, weight = new[0] / total, old[0] * new[0] / total
    return (
        total, old[1] + far_l * share, old[2] + far_p * share, old[3] + new[3] + far_l * far_l * weight,
        old[4] + new[4] + far_p * far_p * weight, old[5] + new[5] + far_l * far_p * weight,
    )  # fmt: skip


def _correlation(moments: _Moments) -> Any:
    _, _, _, var_l, var_p, cov = moments
    return cov / mnp.sqrt(var_l * var_p)


def _read(moments: _Moments) -> float:
    return _correlation(moments).item() if moments[0] else float("nan")
