"""Losses against MXNet 2.0's values and gradients."""

import inspect
import json
import warnings
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon

ROWS = json.loads((Path(__file__).parents[1] / "data" / "losses.json").read_text())
GOOD = [row for row in ROWS if "out" in row]


def case_id(row):
    return "-".join([row["loss"], *(f"{k}={v}" for k, v in row["kwargs"].items()), *row["inputs"]])


def to_array(recorded):
    data = onp.array(recorded["data"], recorded["dtype"]).reshape(recorded["shape"])
    return mx.np.array(data, dtype=data.dtype)


def positional(block, inputs):
    """The inputs in the order of the loss's parameters, None where one is left out."""
    names = list(inspect.signature(type(block).forward).parameters)[1:]
    last = max(names.index(n) for n in inputs)
    return [inputs.get(n) for n in names[: last + 1]]


def tolerance(dtype):
    # Sums of terms that cancel: their rounding is that of the terms.
    return {"rtol": 2e-3, "atol": 2e-3} if dtype == "float16" else {"rtol": 1e-5, "atol": 5e-6}


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("row", GOOD, ids=case_id)
def test_values_and_gradients(row, hybridize):
    block = getattr(gluon.loss, row["loss"])(**row["kwargs"])
    if hybridize:
        block.hybridize()
    inputs = {name: to_array(x) for name, x in row["inputs"].items()}
    for name in row["grads"]:
        inputs[name].attach_grad()
    with autograd.record():
        out = block(*positional(block, inputs))
    out.backward()
    for got, want in [(out, row["out"])] + [(inputs[n].grad, g) for n, g in row["grads"].items()]:
        right = onp.array(want["data"], want["dtype"]).reshape(want["shape"])
        assert got.shape == right.shape
        onp.testing.assert_allclose(got.asnumpy(), right, **tolerance(want["dtype"]))


def test_labels_of_another_size_are_refused():
    with pytest.raises(mx.MXNetError):
        gluon.loss.L2Loss()(mx.np.ones((3, 4)), mx.np.ones((2, 4)))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: gluon.loss.CTCLoss(layout="CNT"), AssertionError),
        (lambda: gluon.loss.CTCLoss(label_layout="N"), AssertionError),
        (lambda: gluon.loss.LogisticLoss(label_format="odd"), ValueError),
        (lambda: gluon.nn.Conv2D(2, 3, layout="NCW"), AssertionError),
        (lambda: gluon.nn.MaxPool2D(layout="HW"), AssertionError),
    ],
)
def test_bad_options_are_refused(make, error):
    """By errors of MXNet's types."""
    with pytest.raises(error):
        make()


def test_a_weight_must_be_a_number():
    with pytest.raises(TypeError, match="weight"):
        gluon.loss.L2Loss(weight="heavy")


def test_poisson_in_full_stays_finite_at_zero_targets():
    loss = gluon.loss.PoissonNLLLoss(compute_full=True)
    pred, target = mx.np.array([[0.5, 0.5]]), mx.np.array([[0.0, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = loss(pred, target).asnumpy()
    stirling = 3 * onp.log(3) - 3 + 0.5 * onp.log(2 * onp.pi * 3)
    want = (2 * onp.exp(0.5) - 3 * 0.5 + stirling) / 2
    onp.testing.assert_allclose(got, [want], rtol=1e-6)


def test_every_public_loss_is_recorded():
    assert {row["loss"] for row in ROWS} | {"Loss"} >= set(gluon.loss.__all__)


def test_the_helpers_that_losses_of_users_are_made_of():
    from mxjax.gluon.loss import _apply_weighting, _batch_mean, _batch_sum

    x = onp.arange(24, dtype="float32").reshape(2, 3, 4)
    weight = onp.array([[[1.0]], [[3.0]]], "float32")
    weighted = _apply_weighting(mx.np.array(x), 0.5, mx.np.array(weight))
    onp.testing.assert_allclose(weighted.asnumpy(), x * weight * 0.5)
    onp.testing.assert_allclose(_apply_weighting(mx.np.array(x)).asnumpy(), x)
    for axis, others in ((0, (1, 2)), (1, (0, 2)), (-1, (0, 1))):
        onp.testing.assert_allclose(_batch_mean(mx.np.array(x), axis).asnumpy(), x.mean(others))
        onp.testing.assert_allclose(_batch_sum(mx.np.array(x), axis).asnumpy(), x.sum(others))
    with pytest.raises(TypeError, match="weight must be a number"):
        _apply_weighting(mx.np.ones(2), "0.5")


def _ctc(x, labels, dtype="float64"):
    """Minus the logarithm of the sum over all paths that give the label, by trying them all; for one sample."""
    import itertools

    p = onp.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(x.shape[-1]), repeat=x.shape[0]):
        merged = [c for c, _ in itertools.groupby(path) if c != 0]
        if merged == labels:
            total += onp.prod([p[t, c] for t, c in enumerate(path)])
    return -onp.log(total)


@pytest.mark.parametrize("labels", [[], [1], [2, 2]], ids=str)
@pytest.mark.parametrize("ruled_out", [False, True])
def test_ctc_with_empty_labels_and_classes_that_are_ruled_out(labels, ruled_out):
    rng = onp.random.RandomState(3)
    x = rng.randn(4, 3)
    if ruled_out:
        x[0, 1] = x[2, 1] = -onp.inf
    data = mx.np.array(x[:, None], dtype="float64")
    data.attach_grad()
    with autograd.record():
        loss = mx.npx.ctc_loss(data, mx.np.array([labels + [0] * (2 - len(labels))]))
    loss.backward()
    onp.testing.assert_allclose(loss.asnumpy(), [_ctc(x, labels)], rtol=1e-6)
    gradient = data.grad.asnumpy()[:, 0]
    assert onp.isfinite(gradient).all()
    onp.testing.assert_allclose(
        gradient.sum(-1), onp.zeros(4), atol=1e-6
    )  # a softmax's gradients cancel
    if not ruled_out:
        step = onp.zeros_like(x)
        step[1, 2] = 1e-4
        slope = (_ctc(x + step, labels) - _ctc(x - step, labels)) / 2e-4
        onp.testing.assert_allclose(gradient[1, 2], slope, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("blank", ["first", "last"])
def test_ctc_gradients_of_all_scores_and_second_derivatives(blank):
    """Of samples that end earlier, whose labels are shorter, and of one without an alignment."""
    rng = onp.random.RandomState(5)
    x, labels, steps = rng.randn(5, 4, 3), [[1, 2], [1, 1], [2], [2, 2]], [5, 4, 3, 2]

    def losses(x):
        return [
            _ctc(x[: steps[n], n], labels[n]) if n < 3 else 0.0  # [2, 2] takes three steps
            for n in range(4)
        ]

    def slopes(x, weights):
        found = onp.zeros_like(x)
        for at in onp.ndindex(*x.shape):
            step = onp.zeros_like(x)
            step[at] = 1e-4
            found[at] = onp.dot(weights, onp.subtract(losses(x + step), losses(x - step))) / 2e-4
        return found

    ours = onp.roll(x, -1, 2) if blank == "last" else x  # the blank is class 0 of `_ctc`
    shift = -1 if blank == "last" else 0
    y = onp.array([[*row, 7][:2] for row in labels]) + shift
    data = mx.np.array(ours, dtype="float64")
    data.attach_grad()
    weights, direction = rng.rand(4), rng.randn(5, 4, 3)
    with autograd.record():
        loss = mx.npx.ctc_loss(
            data, mx.np.array(y), mx.np.array(steps), mx.np.array([len(row) for row in labels]),
            use_data_lengths=True, use_label_lengths=True, blank_label=blank,
        )  # fmt: skip
        total = (loss * mx.np.array(weights, dtype="float64")).sum()
        (gradient,) = autograd.grad(total, [data], create_graph=True)
        along = (gradient * mx.np.array(onp.roll(direction, shift, 2), dtype="float64")).sum()
    along.backward()
    onp.testing.assert_allclose(loss.asnumpy(), losses(x), rtol=1e-9)
    onp.testing.assert_allclose(
        onp.roll(gradient.asnumpy(), -shift, 2), slopes(x, weights), rtol=1e-5, atol=1e-7
    )
    curved = (slopes(x + 1e-3 * direction, weights) - slopes(x - 1e-3 * direction, weights)) / 2e-3
    onp.testing.assert_allclose(onp.roll(data.grad.asnumpy(), -shift, 2), curved, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(
    "name",
    ["L2Loss", "L1Loss", "SigmoidBCELoss", "KLDivLoss", "HuberLoss", "HingeLoss", "LogisticLoss"],
)
def test_losses_of_nd_arrays_keep_their_dtype(name, dtype):
    """As in MXNet 1.9.1; of mx.np's arrays a mean is float32, as in 2.0.0b1."""
    with mx.config.scope(compat_version="1.9"):
        x = mx.nd.ones((2, 3), dtype=dtype)
        loss = getattr(mx.gluon.loss, name)()
        assert onp.dtype(loss(x, x * 0.5).dtype) == dtype
        loss.hybridize()
        assert onp.dtype(loss(x, x * 0.5).dtype) == dtype
    numbers = mx.np.ones((2, 3), dtype=dtype)
    assert getattr(mx.gluon.loss, name)()(numbers, numbers * 0.5).dtype == "float32"
