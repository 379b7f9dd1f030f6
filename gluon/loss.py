"""Losses for training: blocks that give one number per sample."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from mxjax import nd, np, npx
from mxjax.base import numeric_types
from mxjax.display.wording import worded
from mxjax.errors import MXNetAssertionError, MXNetTypeError, MXNetValueError
from mxjax.errors import explain_names as _explain_names
from mxjax.modes import generation

from .layer import Layer
from .legacy.forward import given_first
from .legacy.symbols import is_symbol

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PoissonNLLLoss",
    "SDMLLoss",
    "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss",
    "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss",
    "TripletLoss",
]


def _check_array(label: Any, what: str = "labels") -> None:
    if not is_symbol(label) and not hasattr(label, "shape"):
        raise MXNetTypeError(
            f"{what} are an array of mxjax, got {type(label).__name__}: mx.np.array(...) makes one"
        )


def _shaped_like(label: Any, pred: Any) -> Any:
    """The labels in the shape of the predictions, of which they must have the size."""
    _check_array(label)
    if not is_symbol(label) and not is_symbol(pred) and label.size != pred.size:
        raise MXNetValueError(
            f"labels of shape {label.shape} do not fit predictions of shape {pred.shape}, reshape_like needs as many "
            "elements; class numbers are for SoftmaxCrossEntropyLoss(sparse_label=True)"
        )
    return npx.reshape_like(label, pred)


def _times(a: Any, b: Any) -> Any:
    """Their product, broadcast: `*` of symbols of nd takes equal shapes alone."""
    return nd.broadcast_mul(a, b) if is_symbol(a) else a * b


def _apply_weighting(*args: Any, **kwargs: Any) -> Any:
    """`_weighted`, for losses of users: in MXNet 1 the module of the functions comes first."""
    kwargs.pop("F", None)
    return _weighted(*args[isinstance(args[0], ModuleType) if args else 0 :], **kwargs)


def _weighted(loss: Any, weight: float | None = None, sample_weight: Any = None) -> Any:
    """The loss times `sample_weight` (an array that broadcasts against it) and times `weight`, where given."""
    if sample_weight is not None:
        loss = _times(loss, sample_weight)
    if weight is not None and not isinstance(weight, numeric_types):
        raise MXNetTypeError(f"weight must be a number or None, got {weight!r}")
    # A factor of 1 is no operator of the step.
    return loss if weight in (None, 1) else loss * weight


def _others(loss: Any, batch_axis: int) -> tuple[int, ...]:
    """All axes but the samples'."""
    batch = batch_axis % loss.ndim
    return tuple(axis for axis in range(loss.ndim) if axis != batch)


def _over_others(reduction: str, loss: Any, batch_axis: int) -> Any:
    """np.mean or np.sum over all axes but the samples'; a symbol does not know how many it has."""
    if is_symbol(loss):
        return getattr(nd, reduction)(loss, axis=batch_axis, exclude=True)
    others = _others(loss, batch_axis)
    if isinstance(
        loss, np.ndarray
    ):  # whose mean is float32; that of an array of nd keeps its dtype
        return getattr(np, reduction)(loss, axis=others)
    return getattr(nd, reduction)(loss, axis=others) if others else loss


def _batch_mean(loss: Any, batch_axis: int) -> Any:
    """The mean over all axes but the samples'."""
    return _over_others("mean", loss, batch_axis)


def _batch_sum(loss: Any, batch_axis: int) -> Any:
    """The sum over all axes but the samples'."""
    return _over_others("sum", loss, batch_axis)


class Loss(Layer):
    """The base of all losses.

    Args:
      weight: a factor on the whole loss, or None.
      batch_axis: the axis of the samples; the loss is averaged over all others.

    Their calls take a `sample_weight` too, an array that broadcasts against the loss before it is
    averaged: of shape (batch, 1) for predictions of shape (batch, classes).

    >>> L2Loss()
    L2Loss(batch_axis=0, w=1.0)
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any):
        super().__init__(**kwargs)
        if weight is not None and not isinstance(weight, (int, float)):
            raise MXNetTypeError(f"weight must be a number or None, got {weight!r}")
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _weighted(self, loss: Any, sample_weight: Any) -> Any:
        return _weighted(loss, self._weight, sample_weight)

    def _mean(self, loss: Any, sample_weight: Any) -> Any:
        return _batch_mean(self._weighted(loss, sample_weight), self._batch_axis)


def _softplus_of_minus_abs(x: Any) -> Any:
    """log(1 + exp(-|x|)), which neither overflows nor loses digits."""
    return npx.activation(-np.abs(x), act_type="softrelu")


@worded("loss")
class L2Loss(Loss):
    """Half of the mean squared difference.

    Call with (pred, label[, sample_weight]); label may have any shape of pred's size.

    >>> import mxjax as mx
    >>> L2Loss()(mx.np.array([[1.0], [3.0]]), mx.np.array([0.0, 0.0]))
    array([0.5, 4.5])
    """

    def __init__(self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        loss = np.square(_shaped_like(label, pred) - pred)
        if sample_weight is not None:
            loss = _times(loss, sample_weight)
        if self._weight is not None:
            loss = loss * (self._weight / 2)
        return _batch_mean(loss, self._batch_axis)


@worded("loss")
class L1Loss(Loss):
    """The mean absolute difference; call with (pred, label[, sample_weight]).

    >>> import mxjax as mx
    >>> L1Loss()(mx.np.array([[1.0], [3.0]]), mx.np.array([0.0, 0.0]))
    array([1., 3.])
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        return self._mean(np.abs(_shaped_like(label, pred) - pred), sample_weight)


@worded("loss")
class SigmoidBinaryCrossEntropyLoss(Loss):
    """Binary cross entropy of logits, or of probabilities with `from_sigmoid`.

    Call with (pred, label[, sample_weight[, pos_weight]]): labels are in [0, 1], `pos_weight` is a
    factor on the positive part, of shape (1, classes).

    Args:
      from_sigmoid: whether predictions are probabilities already.

    >>> import mxjax as mx
    >>> SigmoidBCELoss()(mx.np.array([[0.0]]), mx.np.array([[1.0]]))
    array([0.6931472])
    """

    def __init__(
        self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def forward(
        self, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None
    ) -> Any:
        label = _shaped_like(label, pred)
        if self._from_sigmoid:
            eps = 1e-12
            positive = np.log(pred + eps) * label
            if pos_weight is not None:
                positive = _times(positive, pos_weight)
            loss = -(positive + np.log(1.0 - pred + eps) * (1.0 - label))
        elif pos_weight is None:
            loss = npx.relu(pred) - pred * label + _softplus_of_minus_abs(pred)
        else:
            factor = 1 + _times(pos_weight - 1, label)
            negative = _softplus_of_minus_abs(pred) + npx.relu(-pred)
            loss = pred - pred * label + factor * negative
        return self._mean(loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


def refuse_probabilities(pred: Any, label: Any, axis: int, name: str) -> None:
    """Refuse one-hot labels, or probabilities, where class numbers are expected."""
    if is_symbol(pred) or is_symbol(label):
        return
    _check_array(label)
    if label.shape == pred.shape and pred.ndim > 1 and pred.shape[axis] > 1:
        raise MXNetValueError(
            f"Shape inconsistent, Provided = {list(label.shape)}: labels of the predictions' shape are one-hot, or "
            f"probabilities; {name}(sparse_label=False) takes those, and class numbers have it without axis {axis}"
        )


@worded("loss")
class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of scores over classes.

    Call with (pred, label[, sample_weight]).

    Args:
      axis: of the classes.
      sparse_label: labels are class numbers, of pred's shape without `axis`; otherwise
        probabilities of pred's shape.
      from_logits: predictions are logarithms of probabilities already.

    >>> import mxjax as mx
    >>> SoftmaxCELoss()(mx.np.array([[0.0, 0.0]]), mx.np.array([1]))
    array([0.6931472])
    """

    def __init__(
        self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False,
        weight: float | None = None, batch_axis: int = 0, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            refuse_probabilities(pred, label, self._axis, type(self).__name__)
            loss = -npx.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            label = _shaped_like(label, pred)
            loss = -(pred * label).sum(axis=self._axis, keepdims=True)
        return self._mean(loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


@worded("loss")
class KLDivLoss(Loss):
    """The Kullback-Leibler divergence of predictions from labels.

    Call with (pred, label[, sample_weight]); labels are probabilities. MXNet 1 sums over the classes, MXNet 2 takes
    the mean.

    Args:
      from_logits: predictions are logarithms of probabilities; otherwise scores over `axis`.
      axis: the axis of the classes.

    >>> KLDivLoss(from_logits=False)
    KLDivLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, from_logits: bool = True, axis: int = -1, weight: float | None = None,
        batch_axis: int = 0, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        loss = self._weighted(label * (np.log(label + 1e-12) - pred), sample_weight)
        return (_batch_sum if generation() == 1 else _batch_mean)(loss, self._batch_axis)


@worded("loss")
class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al. 2006); the last class is the blank.

    Call with (pred, label[, pred_lengths[, label_lengths[, sample_weight]]]): scores before the
    softmax, and class numbers padded with -1 (or with `label_lengths` by anything).

    Args:
      layout: "NTC" or "TNC", of predictions.
      label_layout: "NT" or "TN".

    Raises:
      ValueError: another layout.

    >>> CTCLoss(layout="TNC")
    CTCLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None,
        **kwargs: Any,
    ):  # fmt: skip
        for given, allowed in ((layout, ("NTC", "TNC")), (label_layout, ("NT", "TN"))):
            if given not in allowed:
                raise MXNetAssertionError(
                    f"one of {allowed} is expected as a layout, got {given!r}"
                )
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout
        self._label_layout = label_layout

    def forward(
        self, pred: Any, label: Any, pred_lengths: Any = None, label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:  # fmt: skip
        if self._layout == "NTC":
            pred = np.swapaxes(pred, 0, 1)
        if self._label_layout == "TN":
            label = np.swapaxes(label, 0, 1)
        loss = npx.ctc_loss(
            pred, label, pred_lengths, label_lengths,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None, blank_label="last",
        )  # fmt: skip
        return self._weighted(loss, sample_weight)


@worded("loss")
class HuberLoss(Loss):
    """Squared near zero, linear beyond `rho`; call with (pred, label[, sample_weight]).

    Args:
      rho: the distance from which on the loss is linear.

    >>> HuberLoss(rho=0.5)
    HuberLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        apart = np.abs(_shaped_like(label, pred) - pred)
        rho = self._rho
        loss = np.where(apart > rho, apart - 0.5 * rho, (0.5 / rho) * np.square(apart))
        return self._mean(loss, sample_weight)


@worded("loss")
class HingeLoss(Loss):
    """max(0, margin - pred * label), for labels -1 and 1; call with (pred, label[, sample_weight]).

    Args:
      margin: how far apart predictions have to be.

    >>> HingeLoss(margin=2)
    HingeLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def _hinge(self, pred: Any, label: Any) -> Any:
        return npx.relu(self._margin - pred * _shaped_like(label, pred))

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        return self._mean(self._hinge(pred, label), sample_weight)


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge loss before the mean; call with (pred, label[, sample_weight]).

    Args:
      margin: how far apart predictions have to be.
      weight: a factor of the loss; none without.
      batch_axis: the axis of the samples.

    >>> SquaredHingeLoss()
    SquaredHingeLoss(batch_axis=0, w=None)
    """

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        return self._mean(np.square(self._hinge(pred, label)), sample_weight)


@worded("loss")
class LogisticLoss(Loss):
    """log(1 + exp(-pred * label)); call with (pred, label[, sample_weight]).

    Args:
      label_format: "signed" for labels -1 and 1, "binary" for 0 and 1.

    Raises:
      ValueError: another label_format.

    >>> LogisticLoss(label_format="binary")
    LogisticLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed",
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise MXNetValueError(
                f"label_format can only be signed or binary, received {label_format!r}"
            )
        self._label_format = label_format

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _shaped_like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = npx.relu(pred) - pred * label + _softplus_of_minus_abs(pred)
        return self._mean(loss, sample_weight)


@worded("loss")
class TripletLoss(Loss):
    """How much closer the negative is than the positive, plus a margin, where that is above zero.

    Call with (pred, positive, negative[, sample_weight]); distances are squared and summed.

    Args:
      margin: how far apart predictions have to be.

    >>> TripletLoss(margin=0.2)
    TripletLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def forward(self, pred: Any, positive: Any, negative: Any, sample_weight: Any = None) -> Any:
        near = np.square(npx.reshape_like(positive, pred) - pred)
        far = np.square(npx.reshape_like(negative, pred) - pred)
        apart = _batch_sum(near - far, self._batch_axis)
        return self._weighted(npx.relu(apart + self._margin), sample_weight)


@worded("loss")
class PoissonNLLLoss(Loss):
    """The negative logarithm of a Poisson likelihood; call with (pred, target[, sample_weight]).

    MXNet 1 takes the mean over the samples, too.

    Args:
      from_logits: predictions are logarithms of the rate.
      compute_full: add Stirling's approximation of log(target!), for targets above 1.

    >>> PoissonNLLLoss()
    PoissonNLLLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, weight: float | None = None, from_logits: bool = True, batch_axis: int = 0,
        compute_full: bool = False, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def forward(
        self, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-08
    ) -> Any:
        target = npx.reshape_like(target, pred)
        if self._from_logits:
            loss = np.exp(pred) - target * pred
        else:
            loss = pred - target * np.log(pred + epsilon)
        if self._compute_full:
            safe = np.maximum(target, 1.0)  # below it the term is dropped, whatever its logarithm
            stirling = safe * np.log(safe) - safe + 0.5 * np.log(2 * math.pi * safe)
            loss = loss + stirling * (target > 1)
        if generation() == 1:
            return self._weighted(loss, sample_weight).mean()
        return self._mean(loss, sample_weight)


@worded("loss")
class CosineEmbeddingLoss(Loss):
    """One minus the cosine for pairs labelled 1, the cosine above a margin for those labelled -1.

    Call with (input1, input2, label[, sample_weight]): vectors along the last axis, one label each. MXNet 1 keeps
    an axis of length 1.

    Args:
      margin: how far apart predictions have to be.

    >>> CosineEmbeddingLoss(margin=0.1)
    CosineEmbeddingLoss(batch_axis=0, w=None)
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def forward(self, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        input1 = npx.reshape_like(input1, input2)
        cosine = self._cosine_similarity(*given_first(input1), input1, input2)
        label = npx.reshape_like(label, cosine)
        apart = np.clip(cosine - self._margin, 0, 1 - self._margin)
        if generation() == 1:
            apart = np.where(label == -1, apart, apart * 0)  # nothing for labels that are neither
        loss = np.where(label == 1, 1 - cosine, apart)
        return (
            self._weighted(loss, sample_weight)
            if generation() == 1
            else self._mean(loss, sample_weight)
        )

    def _cosine_similarity(self, *given: Any, axis: int = -1) -> Any:
        """The cosines (batch, 1) of `x, y`, and in programs of MXNet 1 of `F, x, y`; subclasses override it."""
        x, y, *axes = given[generation() == 1 :]
        axis = axes[0] if axes else axis
        lengths = [np.sqrt(np.square(v).sum(axis=axis)) for v in (x, y)]
        product = (x * y).sum(axis=axis)
        return (product / np.maximum(lengths[0] * lengths[1], 1e-12)).reshape(-1, 1)


@worded("loss")
class SDMLLoss(Loss):
    """Smoothed deep metric learning (https://arxiv.org/abs/1905.12786).

    Call with (x1, x2), both (batch, features): row i of one belongs to row i of the other, and all
    other rows are taken as negatives.

    Args:
      smoothing_parameter: the probability spread over the negatives, below 1.

    >>> SDMLLoss()
    SDMLLoss(batch_axis=0, w=1.0)
    """

    def __init__(
        self, smoothing_parameter: float = 0.3, weight: float | None = 1.0, batch_axis: int = 0,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def forward(self, x1: Any, x2: Any) -> Any:
        return self._loss(*given_first(x1), x1, x2)

    def _compute_distances(self, x1: Any, x2: Any) -> Any:
        """The squared distances of all pairs; subclasses override it, and the two others."""
        return np.square(np.expand_dims(x1, 1) - np.expand_dims(x2, 0)).sum(axis=2)

    def _compute_labels(self, *given: Any) -> Any:
        """Smoothed labels for a batch of `batch_size`, in programs of MXNet 1 `F, batch_size`."""
        mine = np.eye(given[-1])
        return mine * (1 - self.smoothing_parameter) + (1 - mine) * (
            self.smoothing_parameter / (given[-1] - 1)
        )

    def _loss(self, *given: Any) -> Any:
        """The loss of `x1, x2`, in programs of MXNet 1 of `F, x1, x2`."""
        x1, x2 = given[-2:]
        labels = self._compute_labels(*given_first(x1), x1.shape[0])
        labels = labels if isinstance(x1, np.ndarray) else labels.as_nd_ndarray()
        distances = self._compute_distances(x1, x2)
        return self.kl_loss(npx.log_softmax(-distances, axis=1), labels.to_device(x1.device))


_explain_names(__name__)
