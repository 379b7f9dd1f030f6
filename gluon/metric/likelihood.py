"""Metrics of the probabilities that classifiers give: cross entropy, log likelihood, perplexity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxjax import np as mnp
from mxjax import npx
from mxjax.array import NDArray
from mxjax.errors import MXNetAssertionError
from mxjax.modes import generation

from .base import EvalMetric, alias, in_mxnet1, pairs, register

Names = Sequence[str] | None


@register
@alias("ce")
class CrossEntropy(EvalMetric):
    """Minus the logarithm of the probability given to the label, on average.

    Args:
      eps: probabilities below it count as it; in MXNet 1 it is added to them.
      ignore_label: samples of this label are left out.
      axis: of the classes.
      from_logits: predictions are logits, put through a softmax first.
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> CrossEntropy(ignore_label=-1).ignore_label
    -1
    """

    @in_mxnet1("eps", "name", "output_names", "label_names")
    def __init__(
        self, eps: float = 1e-12, ignore_label: int | None = None, axis: int = -1,
        from_logits: bool = False, name: str = "cross-entropy", output_names: Names = None,
        label_names: Names = None,
    ):  # fmt: skip
        super().__init__(
            name, eps=eps, ignore_label=ignore_label, axis=axis, from_logits=from_logits,
            output_names=output_names, label_names=label_names,
        )  # fmt: skip
        self.eps, self.ignore_label, self.axis, self.from_logits = (
            eps,
            ignore_label,
            axis,
            from_logits,
        )

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            classes = pred.shape[self.axis]
            if label.size * classes != pred.size:
                raise MXNetAssertionError(f"shape mismatch: {label.shape} vs. {pred.shape}")
            if self.from_logits:
                pred = npx.softmax(pred, axis=self.axis)
            if self.axis in (-1, pred.ndim - 1):
                pred = pred.reshape(-1, classes)
                label = label.reshape(-1)
            chosen = npx.pick(pred, label.astype("int32"), axis=self.axis)
            count: Any = chosen.size
            if self.ignore_label is not None:
                ignored = (label == self.ignore_label).astype(chosen.dtype)
                chosen = chosen * (1 - ignored) + ignored
                count = count - ignored.sum().astype("float64")
            self._add(-mnp.log(self._positive(chosen)).sum(), count)

    def _positive(self, p: Any) -> Any:
        return p + self.eps if generation() == 1 else mnp.maximum(p, self.eps)

    def _mean(self) -> float:
        if isinstance(self.num_inst, NDArray):
            self.num_inst = self.num_inst.item()
        return super()._mean()


@register
@alias("nll_loss")
class NegativeLogLikelihood(EvalMetric):
    """Minus the logarithm of the label's probability, to which `eps` is added, on average (MXNet 1).

    Args:
      eps: what is added to a probability, against the logarithm of 0.
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> NegativeLogLikelihood().name
    'nll-loss'
    """

    def __init__(
        self, eps: float = 1e-12, name: str = "nll-loss", output_names: Names = None,
        label_names: Names = None,
    ):  # fmt: skip
        super().__init__(name, eps=eps, output_names=output_names, label_names=label_names)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            if label.size != pred.shape[0]:
                raise MXNetAssertionError(f"shape mismatch: {label.shape} vs. {pred.shape}")
            chosen = npx.pick(pred, label.reshape(-1).astype("int32"), axis=1)
            self._add(-mnp.log(chosen + self.eps).sum(), label.size)


@register
class Perplexity(CrossEntropy):
    """The exponential of the cross entropy.

    Args:
      eps: probabilities below it count as it; in MXNet 1 those below 1e-10.
      ignore_label: labels of this number do not count.
      axis: the axis of the classes.
      from_logits: predictions are logits, put through a softmax first.
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> Perplexity().name
    'perplexity'
    """

    @in_mxnet1("ignore_label", "axis", "name", "output_names", "label_names")
    def __init__(
        self, eps: float = 1e-12, ignore_label: int | None = None, axis: int = -1,
        from_logits: bool = False, name: str = "perplexity", output_names: Names = None,
        label_names: Names = None,
    ):  # fmt: skip
        super().__init__(
            eps=eps, ignore_label=ignore_label, axis=axis, from_logits=from_logits, name=name,
            output_names=output_names, label_names=label_names,
        )  # fmt: skip

    def _positive(self, p: Any) -> Any:
        return mnp.maximum(p, 1e-10 if generation() == 1 else self.eps)

    def get(self) -> tuple[Any, Any]:
        return self.name, math.exp(self._mean())
