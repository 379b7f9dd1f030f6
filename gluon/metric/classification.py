"""Metrics of classifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as onp

from mxjax import np as mnp
from mxjax.array import NDArray
from mxjax.errors import MXNetAssertionError, MXNetValueError
from mxjax.modes import generation

from .base import EvalMetric, alias, average_of, check_label_shapes, in_mxnet1, pairs, register
from .likelihood import CrossEntropy, NegativeLogLikelihood, Perplexity
from .older import meeting

__all__ = [
    "F1",
    "MCC",
    "PCC",
    "Accuracy",
    "BinaryAccuracy",
    "CrossEntropy",
    "Fbeta",
    "NegativeLogLikelihood",
    "Perplexity",
    "TopKAccuracy",
    "one_hot",
    "predict_with_threshold",
]

Names = Sequence[str] | None


@register
@alias("acc")
class Accuracy(EvalMetric):
    """How many of the predicted classes are the labels.

    Args:
      axis: of the classes, where predictions are scores; predictions of the labels' shape are
        classes already.

    >>> Accuracy().get()
    ('accuracy', nan)
    """

    def __init__(
        self, axis: int = 1, name: str = "accuracy", output_names: Names = None,
        label_names: Names = None,
    ):  # fmt: skip
        super().__init__(name, axis=axis, output_names=output_names, label_names=label_names)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            axis = None if pred.shape == label.shape else self.axis
            if axis is not None and not -pred.ndim <= axis < pred.ndim:
                raise MXNetValueError(
                    f"predictions of shape {pred.shape} have no axis {axis} with the classes; labels come first: "
                    "metric.update(labels, preds)"
                )
            count = pred.size if axis is None else pred.size // pred.shape[axis]
            if label.size != count:
                raise MXNetValueError(
                    f"Shape of labels {label.size} does not match shape of predictions {count}"
                )
            self._record(_correct, (("axis", axis),), (label, pred), count)


def _correct(label: jax.Array, pred: jax.Array, *, axis: int | None) -> jax.Array:
    if axis is not None:
        pred = jnp.argmax(pred, axis=axis)
    return (pred.astype("int32").reshape(-1) == label.astype("int32").reshape(-1)).sum()


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """How many labels are among the `top_k` classes of the highest scores.

    Of equal scores the class with the lower number counts as the higher.

    Raises:
      ValueError: there are fewer than `top_k` classes.
      AssertionError: scores of more than two axes.

    >>> TopKAccuracy(top_k=5).name
    'top_k_accuracy_5'
    """

    def __init__(
        self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Names = None,
        label_names: Names = None,
    ):  # fmt: skip
        super().__init__(name, top_k=top_k, output_names=output_names, label_names=label_names)
        if top_k <= 1:
            raise MXNetAssertionError("Please use Accuracy if top_k is no more than 1")
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            if pred.ndim == 1:
                self._record_positions(label.asnumpy(), pred.asnumpy())
                continue
            if pred.ndim != 2:
                raise MXNetAssertionError(
                    f"predictions of shape (batch, classes) are expected, got {pred.shape}"
                )
            classes = pred.shape[1]
            if self.top_k > classes:
                raise MXNetValueError(f"top_k={self.top_k} is out of bounds ({classes} classes)")
            check_label_shapes(label, pred)
            self._record(_among, (("top_k", self.top_k),), (label, pred), pred.shape[0])

    def _record_positions(self, label: onp.ndarray, pred: onp.ndarray) -> None:
        """Of one axis MXNet counts where the scores' order, as `numpy.argpartition` has it, equals the labels."""
        order = onp.argpartition(pred.astype("float32"), -self.top_k)
        check_label_shapes(label, order)
        self.sum_metric += int((order == label.astype("int32").reshape(-1)).sum())
        self.num_inst += len(order)


def _among(label: jax.Array, pred: jax.Array, *, top_k: int) -> jax.Array:
    label = label.astype("int32").reshape(-1, 1)
    classes = jnp.arange(pred.shape[1])
    score = jnp.take_along_axis(pred, label, axis=1, mode="clip")
    # Counting who is ahead of the label needs no sorting.
    tied = (pred == score) & (classes < label)
    ahead = ((pred > score) | tied).sum(axis=1)
    return ((ahead < top_k) & (label == classes).any(axis=1)).sum()


def one_hot(idx: Any, num: int) -> Any:
    """Rows of zeros with a one at each index: (n,) to (n, `num`), int32.

    >>> one_hot(mnp.array([1, 0]), 3)
    array([[0, 1, 0],
           [1, 0, 0]], dtype=int32)
    """
    return (mnp.arange(num).astype(idx.dtype) == idx.reshape(-1, 1)).astype("int32")


def predict_with_threshold(pred: Any, threshold: Any = 0.5) -> Any:
    """Which scores are above the threshold: a number, or an array of one per class.

    Raises:
      AssertionError: there are not as many thresholds as classes.
      ValueError: the threshold is neither a float nor an array.

    >>> predict_with_threshold(mnp.array([0.2, 0.9]))
    array([False,  True])
    """
    if isinstance(threshold, (NDArray, onp.ndarray)):
        if threshold.shape[-1] != pred.shape[-1]:
            raise MXNetAssertionError(
                f"shape mismatch: {pred.shape[-1]} classes, {threshold.shape[-1]} thresholds"
            )
    elif not isinstance(threshold, float):
        raise MXNetValueError(f"threshold must be a float or an array, got {type(threshold)}")
    return pred > threshold


@register
class BinaryAccuracy(EvalMetric):
    """How many scores are on the label's side of a threshold.

    >>> BinaryAccuracy(threshold=0.3).threshold
    0.3
    """

    def __init__(
        self, name: str = "binary_accuracy", output_names: Names = None,
        label_names: Names = None, threshold: Any = 0.5,
    ):  # fmt: skip
        self.threshold = threshold
        super().__init__(
            name, output_names=output_names, label_names=label_names, threshold=threshold
        )

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            pred = predict_with_threshold(pred, self.threshold).astype("int32").reshape(-1)
            label = label.astype("int32").reshape(-1)
            check_label_shapes(label, pred)
            self._add((pred == label).sum(), pred.size)


class _Counts:
    """True and false positives and negatives of each class, counted on the host."""

    def __init__(self, class_type: str = "binary", threshold: Any = 0.5, beta: float = 1):
        if class_type not in ("binary", "multiclass", "multilabel"):
            raise MXNetValueError(
                f"class_type must be 'binary', 'multiclass' or 'multilabel', got {class_type!r}"
            )
        self.class_type = class_type
        self.threshold = threshold
        self.beta = beta
        self.reset()

    def reset(self) -> None:
        self.table: onp.ndarray | None = None  # rows: tp, fp, fn, tn; columns: classes
        self.earlier: onp.ndarray | None = None  # the table before `reset_local`

    def all(self) -> onp.ndarray | None:
        """The table since `reset`."""
        if self.table is None or self.earlier is None:
            return self.earlier if self.table is None else self.table
        return self.table + self.earlier

    def update(self, label: Any, pred: Any) -> None:
        label, pred = label.asnumpy().astype("int32"), pred.asnumpy()
        threshold = self.threshold
        if isinstance(threshold, NDArray):
            threshold = threshold.asnumpy()
        classes = 1 if self.class_type == "binary" else pred.shape[-1]
        if self.class_type == "binary" and generation() == 1 and pred.ndim > 1:
            said, label = (of.reshape(-1, 1) for of in meeting(label, pred))
        elif self.class_type == "binary":
            if label.max(initial=0) > 1:
                raise MXNetValueError("Wrong label for binary classification: it is above 1")
            if pred.shape != label.shape:
                if pred.shape[-1] > 2:
                    raise MXNetValueError(
                        f"The shape of prediction {pred.shape} is wrong for binary classification"
                    )
                pred = pred.reshape(-1, pred.shape[-1])[:, -1]
            said = predict_with_threshold(pred, threshold).reshape(-1, 1)
        elif self.class_type == "multiclass":
            if label.max(initial=0) >= classes:
                raise MXNetAssertionError(
                    f"pred contains fewer classes than label: {classes}, label {label.max()}"
                )
            said = onp.eye(classes, dtype=bool)[pred.argmax(axis=-1).reshape(-1)]
            label = onp.eye(classes, dtype=bool)[label.reshape(-1)]
        else:
            if pred.shape != label.shape:
                raise MXNetAssertionError(
                    f"labels and predictions must have one shape, got {label.shape} and "
                    f"{pred.shape}"
                )
            said = predict_with_threshold(pred, threshold).reshape(-1, classes)
        label = label.reshape(-1, classes)
        check_label_shapes(label, said)
        true = label == 1
        counted = onp.stack([
            (said & true).sum(0), (said & (label == 0)).sum(0), (~said & true).sum(0),
            (~said & (label == 0)).sum(0),
        ]).astype("float64")  # fmt: skip
        if self.table is not None and self.table.shape != counted.shape:
            raise MXNetAssertionError(
                f"Input number of classes has changed from {self.table.shape[1]} to {classes}"
            )
        self.table = counted if self.table is None else self.table + counted

    @property
    def total(self) -> int:
        return 0 if self.table is None else int(self.table[:, 0].sum())

    def fscore(self, average: str | None) -> Any:
        if self.table is None:
            return 0.0
        hits, wrong, missed, _ = self.table
        if average == "micro":
            hits, wrong, missed = hits.sum(), wrong.sum(), missed.sum()
        precision = hits / onp.maximum(hits + wrong, 1e-12)
        recall = hits / onp.maximum(hits + missed, 1e-12)
        square = self.beta**2
        score = (1 + square) * precision * recall
        score = score / onp.maximum(square * precision + recall, 1e-12)
        per_class = average is None or (average not in ("micro", "macro") and score.size > 1)
        return score if per_class else float(score.mean())  # of one number, if "micro" or binary

    def matthews(self) -> float:
        if self.table is None:
            return 0.0
        hits, wrong, missed, rest = map(float, self.table[:, 0])
        terms = (hits + wrong, hits + missed, rest + wrong, rest + missed)
        return (hits * rest - wrong * missed) / math.sqrt(math.prod(t for t in terms if t))


class _Counted(EvalMetric):
    """Metrics that are a function of the counts so far."""

    def __init__(
        self, counts: _Counts, name: str, output_names: Names, label_names: Names, by_batch: bool = False
    ):  # fmt: skip
        self.metrics = counts
        self.by_batch = by_batch  # the mean of the batches' values, as MXNet 1 has it
        super().__init__(name, output_names=output_names, label_names=label_names)

    def _value(self) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            self.metrics.update(label, pred)
        if self.by_batch:
            self._add(self._value(), 1)
            self.metrics.reset()
            return
        self.num_inst = self.metrics.total
        self.sum_metric = self._value() * self.num_inst

    def reset(self) -> None:
        super().reset()
        self.metrics.reset()

    def reset_local(self) -> None:
        table = self.metrics.all()
        super().reset_local()
        self.metrics.earlier = table

    def get_global(self) -> tuple[Any, Any]:
        if self.by_batch:
            return super().get_global()
        local, self.metrics.table = self.metrics.table, self.metrics.all()
        try:
            return self.name, self._value() if self.metrics.total else float("nan")
        finally:
            self.metrics.table = local


@register
class F1(_Counted):
    """The harmonic mean of precision and recall; it reads its inputs at once.

    Args:
      class_type: "binary", "multiclass" or "multilabel".
      threshold: for the scores of binary and multilabel predictions.
      average: "micro" over all decisions, "macro" over classes, None or "binary" for a value per class. Under the
        defaults of MXNet 1 "macro", which is the default there, is the mean of the batches' values where the class
        type is binary.
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> F1(average="macro").average
    'macro'
    """

    @in_mxnet1("name", "output_names", "label_names", "average")
    def __init__(
        self, name: str = "f1", output_names: Names = None, label_names: Names = None,
        class_type: str = "binary", threshold: Any = 0.5, average: str | None = "",
    ):  # fmt: skip
        self.average = average_of(None) if average == "" else average
        by_batch = generation() == 1 and class_type == "binary" and self.average == "macro"
        super().__init__(_Counts(class_type, threshold), name, output_names, label_names, by_batch)

    def _value(self) -> Any:
        return self.metrics.fscore(self.average)


@register
class Fbeta(F1):
    """`F1` with recall weighing `beta` times as much as precision.

    Args:
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.
      class_type: "binary", "multiclass" or "multilabel".
      beta: how much recall counts beside precision.
      threshold: for the scores of binary and multilabel predictions.
      average: "micro", "macro", "binary" or None, as of `F1`.

    >>> Fbeta(beta=2).metrics.beta
    2
    """

    def __init__(
        self, name: str = "fbeta", output_names: Names = None, label_names: Names = None,
        class_type: str = "binary", beta: float = 1, threshold: Any = 0.5,
        average: str | None = "",
    ):  # fmt: skip
        super().__init__(
            name=name, output_names=output_names, label_names=label_names, class_type=class_type, threshold=threshold,
            average=average,
        )  # fmt: skip
        self.metrics.beta = beta


@register
class MCC(_Counted):
    """Matthews' correlation coefficient of binary predictions; it reads its inputs at once.

    Args:
      average: "micro" over everything, "macro" for the mean of the batches' coefficients; None is "micro", in MXNet 1
        "macro".
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> MCC().name
    'mcc'
    """

    def __init__(
        self, name: str = "mcc", output_names: Names = None, label_names: Names = None,
        average: str | None = None,
    ):  # fmt: skip
        super().__init__(_Counts(), name, output_names, label_names, average_of(average) == "macro")

    def _value(self) -> float:
        return self.metrics.matthews()


@register
class PCC(EvalMetric):
    """Matthews' coefficient for any number of classes, from their confusion matrix.

    Args:
      name: what the metric is called in its results.
      output_names, label_names: the names of the outputs, and of the labels, that count; all without.

    >>> PCC().name
    'pcc'
    """

    def __init__(self, name: str = "pcc", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def reset(self) -> None:
        self.num_inst: Any = 0
        self.lcm = onp.zeros((2, 2))
        self._before = onp.zeros((2, 2))
        self._earlier, self._own = (0.0, 0), {}

    def reset_local(self) -> None:
        count, matrix = self.global_num_inst, self.gcm
        self.reset()
        self._earlier, self._before = (0.0, count), matrix

    @property
    def gcm(self) -> onp.ndarray:
        """The confusion matrix since `reset` (MXNet 1)."""
        size = max(len(self._before), self.k)
        return sum(onp.pad(m, (0, size - len(m))) for m in (self._before, self.lcm))  # type: ignore[return-value]

    @property
    def global_sum_metric(self) -> float:  # type: ignore[override]
        """`sum_metric` of everything since `reset` (MXNet 1)."""
        return self._calc_mcc(self.gcm) * self.global_num_inst

    @global_sum_metric.setter
    def global_sum_metric(self, value: float) -> None:
        raise MXNetValueError("the sum of PCC follows from its confusion matrix: it cannot be set")

    def get_global(self) -> tuple[Any, Any]:
        count = self.global_num_inst
        return self.name, self.global_sum_metric / count if count else float("nan")

    @property
    def k(self) -> int:
        """The number of classes seen so far."""
        return self.lcm.shape[0]

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs(labels, preds):
            if pred.shape != label.shape:
                pred = pred.argmax(axis=1)
            said = pred.asnumpy().astype("int32").reshape(-1)
            true = label.asnumpy().astype("int32").reshape(-1)
            check_label_shapes(true, said)
            more = max(said.max(initial=0), true.max(initial=0)) + 1 - self.k
            if more > 0:
                self._grow(int(more))
            onp.add.at(self.lcm, (said, true), 1)
        self.num_inst += 1

    @property
    def sum_metric(self) -> float:  # type: ignore[override]
        """The coefficient times the number of updates, as `get` divides by it."""
        return self._calc_mcc(self.lcm) * self.num_inst

    def _grow(self, inc: int) -> None:
        """Count so many classes more."""
        self.lcm = onp.pad(self.lcm, (0, inc))

    def _calc_mcc(self, cmat: onp.ndarray) -> float:
        """The coefficient of a confusion matrix."""
        n, by_said, by_true = cmat.sum(), cmat.sum(axis=1), cmat.sum(axis=0)
        said = (by_said * (n - by_said)).sum()
        true = (by_true * (n - by_true)).sum()
        if said == 0 or true == 0:
            return float("nan")
        both = (cmat.diagonal() * n - by_said * by_true).sum()
        return float(both / math.sqrt(said * true))
