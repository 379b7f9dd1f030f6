"""The counts that MXNet 1's F1 and MCC are made of, for metrics of users that are made of them, too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxjax.errors import MXNetValueError

from .base import check_label_shapes

__all__: list[str] = []

_KINDS = ("true_positives", "false_positives", "false_negatives", "true_negatives")


def meeting(label: np.ndarray, pred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the larger of two numbers is the second, and the label: each decision, or every pair of the two.

    MXNet 1 counts by a product, in which a column of labels (N, 1) meets all decisions (N,).

    Raises:
      ValueError: labels of more than two kinds, of another shape, or not as many as predictions.
    """
    check_label_shapes(label, pred)
    if len(np.unique(label)) > 2:
        raise MXNetValueError(
            "the metric currently only supports binary classification: labels of F1 and MCC are 0 or 1"
        )
    said = pred.argmax(axis=1) == 1
    if said.shape[-1] != label.shape[-1] and 1 not in (said.shape[-1], label.shape[-1]):
        raise MXNetValueError(
            f"labels are (N,), as many as predictions (N, 2), got {label.shape} and {pred.shape}"
        )
    said, label = np.broadcast_arrays(said, label)
    return said, label


class _BinaryClassificationMetrics:
    """Right and wrong answers to a question of two answers, since `reset_stats` (`global_...`) and since
    `local_reset_stats`."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    def __init__(self) -> None:
        self.reset_stats()

    def local_reset_stats(self) -> None:
        """Begin to count anew."""
        for kind in _KINDS:
            setattr(self, kind, 0)

    def reset_stats(self) -> None:
        """Begin to count anew, the global counts too."""
        self.local_reset_stats()
        for kind in _KINDS:
            setattr(self, f"global_{kind}", 0)

    def update_binary_stats(self, label: Any, pred: Any) -> None:
        """Count the answers of a batch.

        Args:
          label: (N,), 0 or 1.
          pred: (N, 2), how likely each answer is.

        Raises:
          ValueError: labels of more than two kinds, or not as many as predictions.
        """
        said, numbers = meeting(label.asnumpy().astype("int32"), pred.asnumpy())
        true = numbers == 1
        for kind, these in zip(
            _KINDS, (said & true, said & ~true, ~said & true, ~said & ~true), strict=True
        ):
            for name in (kind, f"global_{kind}"):
                setattr(self, name, getattr(self, name) + int(these.sum()))

    def _counts(self, use_global: bool) -> list[int]:
        return [getattr(self, f"global_{kind}" if use_global else kind) for kind in _KINDS]

    def _precision(self, use_global: bool) -> float:
        right, wrong, _, _ = self._counts(use_global)
        return right / (right + wrong) if right + wrong else 0.0

    def _recall(self, use_global: bool) -> float:
        right, _, missed, _ = self._counts(use_global)
        return right / (right + missed) if right + missed else 0.0

    def _fscore(self, use_global: bool) -> float:
        precision, recall = self._precision(use_global), self._recall(use_global)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    precision = property(lambda self: self._precision(False))
    global_precision = property(lambda self: self._precision(True))
    recall = property(lambda self: self._recall(False))
    global_recall = property(lambda self: self._recall(True))
    fscore = property(lambda self: self._fscore(False))
    global_fscore = property(lambda self: self._fscore(True))
    total_examples = property(lambda self: sum(self._counts(False)))
    global_total_examples = property(lambda self: sum(self._counts(True)))

    def matthewscc(self, use_global: bool = False) -> float:
        """Matthews' correlation coefficient; sums that are zero are left out of its denominator."""
        right, wrong, missed, rest = self._counts(use_global)
        sums = (right + wrong, right + missed, rest + wrong, rest + missed)
        if not any(sums):
            return 0.0
        return (right * rest - wrong * missed) / math.sqrt(math.prod(n for n in sums if n))
