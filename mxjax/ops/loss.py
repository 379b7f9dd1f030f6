"""Operators whose gradient is MXNet's definition, not the derivative: output layers of Module code."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .lowering import ctc
from .lowering.softmax import softmax
from .numbers import fitted, half_away
from .samples import Given, case, f
from .table import op


def _defined(
    forward: Callable[..., Any],
    gradient: Callable[..., Any],
    *arrays: Any,
    numbers: tuple[Any, ...] = (),
) -> Any:
    """forward(*arrays) with ``gradient(out, *arrays, head, *numbers)`` for the first array and zeros for others."""
    n = len(arrays)
    moving = [
        v for v in numbers if hasattr(v, "dtype")
    ]  # what the derivative takes of them is an operand, too

    @jax.custom_vjp
    def run(*xs: Any) -> Any:
        return forward(*xs[:n])

    def fwd(*xs: Any) -> Any:
        out = forward(*xs[:n])
        return out, (out, xs)

    def bwd(kept: Any, head: Any) -> Any:
        out, xs = kept
        given = iter(xs[n:])
        values = [fitted(next(given), xs[0].dtype) if hasattr(v, "dtype") else v for v in numbers]
        return (
            gradient(out, *xs[:n], head, *values).astype(xs[0].dtype),
            *[_no_gradient(x) for x in xs[1:]],
        )

    run.defvjp(fwd, bwd)
    return run(*arrays, *moving)


def _no_gradient(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.zeros_like(x)
    return np.zeros(x.shape, jax.dtypes.float0)


@op(
    npx="stop_gradient",
    nd=("stop_gradient", "BlockGrad"),
    display="BlockGrad",
    loss=True,
    smooth=False,
    samples=[case(f(3, 4))],
    onnx="same",
)
def stop_gradient(data: Any) -> Any:
    """The data, through which no gradient flows."""
    return lax.stop_gradient(data)


def _straight_through(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function with 1 for its derivative."""
    through = jax.custom_jvp(fn)
    through.defjvp(lambda given, moved: (through(*given), moved[0]))
    return through


_round_through, _sign_through = _straight_through(half_away), _straight_through(jnp.sign)


@op(
    npx="round_ste", nd_contrib="round_ste", smooth=False, samples=[case(f(3, 4))], onnx="round_ste"
)
def round_ste(data: Any) -> Any:
    """Rounding (half away from zero) whose gradient is 1."""
    return _round_through(data)


@op(npx="sign_ste", nd_contrib="sign_ste", smooth=False, samples=[case(f(3, 4))], onnx="sign_ste")
def sign_ste(data: Any) -> Any:
    """Sign whose gradient is 1."""
    return _sign_through(data)


@op(
    nd_contrib="gradientmultiplier",
    smooth=False,
    samples=[case(f(3, 4), scalar=2.0)],
    numbers=("scalar",),
    onnx="same",
)
def gradientmultiplier(data: Any, *, scalar: float = 1.0, is_int: bool = False) -> Any:
    """The data; its gradient is multiplied by ``scalar`` (gradient reversal with -1)."""
    return _defined(
        lambda x: x, lambda out, x, head, s: head * fitted(s, x.dtype), data, numbers=(scalar,)
    )


def _normaliser(mode: str, batch: int, valid: Any) -> Any:
    if mode == "null":
        return 1
    if mode == "batch":
        return batch
    if mode == "valid":
        return jnp.maximum(valid, 1)
    raise ValueError(f"unknown normalization {mode}: null, batch and valid exist")


def _refuse_labels(label: Any, expected: tuple[int, ...], meant: str) -> None:
    raise ValueError(
        f"Shape inconsistent, Provided = {list(label.shape)}, inferred shape={list(expected)}: {meant}"
    )


def _check_softmax_label(data: Any, label: Any, multi_output: bool, preserve_shape: bool) -> None:
    """Refuse labels of other shapes than MXNet takes: each would be read in some order all the same."""
    given, shape = tuple(label.shape), tuple(data.shape)
    if len(shape) < 2 or given == shape:
        return
    if multi_output:
        expected = (shape[0], prod(shape[2:]))
        fits = given in (expected, shape[:1] + shape[2:], (shape[0], 1, *shape[2:]))
        meant = "a class for each place of a sample (multi_output=True)"
    else:
        # Without preserve_shape all but the first axis are the classes, and one label for each sample is read.
        expected, fits = (
            shape[:-1],
            given == shape[:-1] or (not preserve_shape and given == shape[:1]),
        )
        meant = "a class for each row of the data"
    if not fits:
        _refuse_labels(label, expected, f"the label is {meant}, or has the data's shape")


def _softmax_output(
    data: Any,
    label: Any,
    *,
    grad_scale: float = 1.0,
    ignore_label: float = -1.0,
    multi_output: bool = False,
    use_ignore: bool = False,
    preserve_shape: bool = False,
    normalization: str = "null",
    out_grad: bool = False,
    smooth_alpha: float = 0.0,
) -> Any:
    _check_softmax_label(data, label, multi_output, preserve_shape)
    axis = 1 if multi_output else -1
    shape = data.shape
    flat = data if multi_output or preserve_shape else data.reshape(shape[0], -1)
    classes = flat.shape[axis]

    def forward(x: Any, y: Any) -> Any:
        return softmax(x, axis)

    def gradient(p: Any, x: Any, y: Any, head: Any, scale: Any, ignored: Any, alpha: Any) -> Any:
        if y.shape == x.shape:
            grad = p - y  # which MXNet normalises in no way
            return (grad * head if out_grad else grad) * scale
        else:
            labels = y.reshape(-1).astype("int32")
            places = p.shape[:1] + p.shape[2:] if multi_output else p.shape[:-1]
            # in MXNet's shape of labels there may be more
            y = labels[: prod(places)].reshape(places)
            hot = jax.nn.one_hot(y, classes, axis=axis, dtype=p.dtype)
            if not multi_output and (hasattr(alpha, "dtype") or alpha):
                hot = hot * (1 - alpha) + (1 - hot) * alpha / max(classes - 1, 1)
            ignored = fitted(ignored, y.dtype)
            grad = (p - hot) * jnp.expand_dims(y != ignored, axis) if use_ignore else p - hot
            # Labels are counted whether or not they are ignored, or read.
            valid = (labels != ignored).sum().astype(p.dtype)
        if out_grad:
            grad = grad * head
        if multi_output and normalization != "valid":  # the places of one sample share its weight
            grad = grad / (p.size // (p.shape[0] * classes))
        batch = x.shape[0] if multi_output else labels.size
        return grad * scale / _normaliser(normalization, batch, valid)

    made = _defined(
        forward, gradient, flat, label, numbers=(grad_scale, ignore_label, smooth_alpha)
    )
    return made.reshape(shape)


def _label_shapes(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
    """One label for each softmax: over axis 1, the places of a sample in one row, or over the last axis."""
    return {"label": (shape[0], prod(shape[2:])) if attrs.get("multi_output") else shape[:-1]}


@op(
    nd=("SoftmaxOutput", "Softmax"),
    display="SoftmaxOutput",
    smooth=False,
    samples=[
        case(f(3, 4), Given([0, 2, 1])),
        case(f(2, 3, 4), Given(np.ones((2, 4))), multi_output=True, normalization="valid"),
    ],
    amp="full",
    shapes=_label_shapes,
    numbers=("grad_scale", "ignore_label", "smooth_alpha"),
    loss=True,
    onnx="softmax_output",
)
def softmax_output(
    data: Any,
    label: Any,
    *,
    grad_scale: float = 1.0,
    ignore_label: float = -1.0,
    multi_output: bool = False,
    use_ignore: bool = False,
    preserve_shape: bool = False,
    normalization: str = "null",
    out_grad: bool = False,
    smooth_alpha: float = 0.0,
) -> Any:
    """softmax(data); its gradient is that of the cross entropy with ``label``, whatever the head is.

    ``normalization``: ``null`` sums over the batch, ``batch`` divides by the number of labels (of samples with
    ``multi_output``), ``valid`` by the number of labels other than ``ignore_label``, also where ``use_ignore``
    does not ask to leave those out. Labels have the data's shape without its last axis; without ``preserve_shape``
    all of a sample's numbers are classes, and of so many labels the first ones are read, one for each sample.
    """
    return _softmax_output(
        data, label, grad_scale=grad_scale, ignore_label=ignore_label, multi_output=multi_output,
        use_ignore=use_ignore, preserve_shape=preserve_shape, normalization=normalization,
        out_grad=out_grad, smooth_alpha=smooth_alpha,
    )  # fmt: skip


def _like_data(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
    """Labels in the shape of the data; one column of data may have a vector of them."""
    return {"label": shape[:1] if len(shape) == 2 and shape[1] == 1 else shape}


def _regression(link: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[..., Any]:
    def output(data: Any, label: Any, *, grad_scale: float = 1.0) -> Any:
        if data.shape[:1] != label.shape[:1] or prod(data.shape) != prod(label.shape):
            _refuse_labels(label, data.shape, "the label has a number for each of the data's")

        def gradient(out: Any, x: Any, y: Any, head: Any, scale: Any) -> Any:
            per_sample = max(y.size // max(y.shape[0], 1), 1)
            return slope(out - y.reshape(out.shape)) * (scale / per_sample)

        return _defined(lambda x, y: link(x), gradient, data, label, numbers=(grad_scale,))

    return output


for _name, _link, _slope, _doc, _onnx in (
    (
        "LinearRegressionOutput",
        lambda x: x,
        lambda d: d,
        "The data; the gradient is data - label.",
        "plain_output",
    ),
    (
        "LogisticRegressionOutput",
        jax.nn.sigmoid,
        lambda d: d,
        "sigmoid; the gradient is sigmoid - label.",
        "logistic_output",
    ),
    (
        "MAERegressionOutput",
        lambda x: x,
        lambda d: jnp.where(d > 0, 1.0, -1.0).astype(d.dtype),
        "The data; the gradient is 1 where data > label, else -1.",
        "plain_output",
    ),
):
    _samples = [case(f(3, 4), f(3, 4)), case(f(3, 1), f(3))]
    op(
        _name, nd=_name, display=_name, doc=_doc, smooth=False, samples=_samples, amp="full", shapes=_like_data,
        numbers=("grad_scale",), loss=True, onnx=_onnx,
    )(_regression(_link, _slope))  # fmt: skip


@op(
    nd="SVMOutput",
    display="SVMOutput",
    smooth=False,
    samples=[case(f(3, 4), Given([0, 2, 1]), use_linear=u) for u in (False, True)],
    amp="full",
    shapes=_label_shapes,
    numbers=("margin", "regularization_coefficient"),
    loss=True,
    onnx="plain_output",
)
def svm_output(
    data: Any,
    label: Any,
    *,
    margin: float = 1.0,
    regularization_coefficient: float = 1.0,
    use_linear: bool = False,
) -> Any:
    """The data; its gradient is the hinge loss's (``use_linear``), or the squared hinge loss's."""
    if data.ndim > 1 and label.shape != data.shape[:-1]:
        _refuse_labels(label, data.shape[:-1], "the label is a class for each row of the data")

    def gradient(out: Any, x: Any, y: Any, head: Any, margin: Any, weight: Any) -> Any:
        sign = 2 * jax.nn.one_hot(y.astype("int32"), x.shape[-1], dtype=x.dtype) - 1
        slack = jnp.maximum(margin - sign * x, 0)
        step = (slack > 0).astype(x.dtype) if use_linear else 2 * slack
        return -weight * sign * step

    return _defined(
        lambda x, y: x, gradient, data, label, numbers=(margin, regularization_coefficient)
    )


def _make_loss(data: Any, *, grad_scale: float, valid_thresh: float, normalization: str) -> Any:
    def gradient(out: Any, x: Any, head: Any, scale: Any, threshold: Any) -> Any:
        valid = (x > threshold).sum().astype(x.dtype)
        rows = prod(x.shape[:-1])  # what MXNet takes for the batch: all axes but the last
        return jnp.full_like(x, scale) / _normaliser(normalization, rows, valid)

    return _defined(lambda x: x, gradient, data, numbers=(grad_scale, valid_thresh))


@op(
    nd="MakeLoss",
    display="MakeLoss",
    gradient="data",
    loss=True,
    smooth=False,
    samples=[case(f(3, 4)), case(f(3, 4), grad_scale=2.0, normalization="batch")],
    amp="full",
    numbers=("grad_scale", "valid_thresh"),
    onnx="same",
)
def make_loss_layer(
    data: Any, *, grad_scale: float = 1.0, valid_thresh: float = 0.0, normalization: str = "null"
) -> Any:
    """The data; its gradient is ``grad_scale``, whatever the head gradient is.

    ``normalization``: ``null``; ``batch`` divides by the number of rows, the product of all axes but the last (as MXNet
    does); ``valid`` by that of numbers above ``valid_thresh``.
    """
    return _make_loss(
        data, grad_scale=grad_scale, valid_thresh=valid_thresh, normalization=normalization
    )


@op(
    nd="make_loss",
    display="make_loss",
    loss=True,
    results=("loss",),
    smooth=False,
    samples=[case(f(3, 4))],
    amp="full",
    onnx="same",
)
def make_loss(data: Any) -> Any:
    """The data; its gradient is 1, whatever the head gradient is."""
    return _make_loss(data, grad_scale=1.0, valid_thresh=0.0, normalization="null")


@op(
    nd="IdentityAttachKLSparseReg",
    aux=(1,),
    modal=True,
    smooth=False,
    samples=[case(f(3, 4, low=0.1, high=0.9), f(4, low=0.1, high=0.9))],
    internal="IdentityAttachKLSparseReg",
    shapes=lambda shape, **_: {"moving_avg": shape[1:2]},
    initial={"moving_avg": '["zero", {}]'},
    typed=(0,),
    statistics=True,
    amp="full",
    numbers=("sparseness_target", "penalty", "momentum"),
    onnx="same",
)
def kl_sparse(
    data: Any,
    moving_avg: Any,
    *,
    sparseness_target: float = 0.1,
    penalty: float = 0.001,
    momentum: float = 0.9,
    is_train: bool = False,
) -> Any:
    """The data; a penalty on mean activations far from ``sparseness_target`` is added to the gradient.

    The means, of each channel (axis 1), are moving ones, which training changes.
    """
    kept = fitted(momentum, moving_avg.dtype)
    mean = lax.stop_gradient(data).mean((0, *range(2, data.ndim))).astype(moving_avg.dtype)
    mean = moving_avg * kept + mean * (1 - kept)

    def gradient(out: Any, x: Any, mean: Any, head: Any, target: Any, weight: Any) -> Any:
        mean = mean.reshape(1, -1, *(1,) * (x.ndim - 2)).astype(x.dtype)
        return head + fitted(weight, x.dtype) * ((1 - target) / (1 - mean) - target / mean)

    out = _defined(lambda x, mean: x, gradient, data, mean, numbers=(sparseness_target, penalty))
    return (out, mean) if is_train else out


@op(
    npx="ctc_loss",
    nd=("ctc_loss", "CTCLoss"),
    nd_contrib=("ctc_loss", "CTCLoss"),
    display="CTCLoss",
    results=("output0",),
    samples=[
        case(f(6, 2, 5), Given([[1, 2, 0], [3, 1, 4]])),
        case(
            f(6, 2, 5), Given([[1, 2, -1], [3, 1, 0]]), Given([5, 6]), Given([2, 3]),
            use_data_lengths=True, use_label_lengths=True, blank_label="last",
        ),
    ],
    amp="full",
    loops=True, typed=(0,)
)  # fmt: skip
def ctc_loss(
    data: Any,
    label: Any,
    data_lengths: Any = None,
    label_lengths: Any = None,
    *,
    use_data_lengths: bool = False,
    use_label_lengths: bool = False,
    blank_label: str = "first",
) -> Any:
    """Connectionist temporal classification: data (T, N, C) unnormalised, label (N, L); shape (N,).

    With ``blank_label='first'`` class 0 is the blank and labels end at a 0; with ``'last'`` class C - 1
    is, and labels end at -1. A sample with too few steps for its labels, and a blank between equal ones, has the loss 0
    and the gradient 0.
    """
    if data.ndim != 3 or label.ndim != 2:
        raise ValueError(
            f"The data array must be 3-D (steps, samples, classes) and the labels 2-D (samples, length): got {list(data.shape)} "
            f"and {list(label.shape)}"
        )
    if label.shape[1] > data.shape[0]:
        raise ValueError(
            "The max number of labels cannot exceed the maximum sequence length of the data: got labels of shape "
            f"{list(label.shape)} for {data.shape[0]} steps"
        )
    if use_label_lengths and not use_data_lengths and label_lengths is None:
        label_lengths = data_lengths  # the third array, where only those of labels are used
    t, _, classes = data.shape
    x = data.astype("float32") if data.dtype.itemsize == 2 else data  # type: ignore[attr-defined]
    # Differences of infinities are NaN; half of the largest leaves room for the softmax.
    x = jnp.maximum(x, jnp.finfo(x.dtype).min / 2)
    y = label.astype("int32")
    blank, pad = (0, 0) if blank_label == "first" else (classes - 1, -1)
    if use_label_lengths and label_lengths is not None:
        padded = jnp.arange(y.shape[1]) >= label_lengths.astype("int32")[:, None]
    else:
        padded = jnp.cumsum(y == pad, 1) > 0
    late = jnp.zeros(x.shape[:2], bool)
    if use_data_lengths and data_lengths is not None:
        late = jnp.arange(t)[:, None] >= data_lengths.astype("int32")
        x = jnp.where(
            late[..., None], jnp.zeros((), x.dtype), x
        )  # whatever stands there, NaN too, counts for nothing
    lengths = (~padded).sum(1)
    out = ctc.loss(x, jnp.where(padded, 0, y), lengths, late, jnp.asarray(blank, y.dtype))
    needed = lengths + ((y[:, 1:] == y[:, :-1]) & ~padded[:, 1:]).sum(1)
    return jnp.where(needed <= (~late).sum(0), out, 0).astype(data.dtype)
