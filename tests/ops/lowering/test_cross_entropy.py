"""An element picked of log_softmax, and its gradient, in one function each: what NumPy computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import mxjax as mx
from mxjax import autograd, core, gluon
from mxjax.core.hooks import program_rewriters
from mxjax.ops.lowering import cross_entropy

ROWS, CLASSES = 6, 600  # more classes than `pick` takes by a masked sum


@pytest.fixture
def whole() -> Iterator[list[str]]:
    """The operators in whose place a function for the whole came, as programs are traced."""
    seen: list[str] = []

    def spied(steps: Any, rewrite: Any = cross_entropy.rewrite) -> Any:
        found = rewrite(steps)
        seen.extend(step.call.name for step in found)
        return found

    core.drop_programs()
    at = program_rewriters.index(cross_entropy.rewrite)
    program_rewriters[at] = spied
    yield seen
    program_rewriters[at] = cross_entropy.rewrite


def _drawn(classes: int = CLASSES) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    r = numpy.random.RandomState(3)
    scores = (3 * r.randn(ROWS, classes)).astype("float32")
    return scores, r.randint(0, classes, ROWS).astype("int32"), r.rand(ROWS).astype("float32")


def _expected(
    x: numpy.ndarray, label: numpy.ndarray, weight: numpy.ndarray
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Weighted losses and their gradient, in float64."""
    low = x.astype("float64") - x.max(1, keepdims=True)
    p = numpy.exp(low) / numpy.exp(low).sum(1, keepdims=True)
    at = numpy.arange(len(x)), label
    slope = p.copy()
    slope[at] -= 1
    return -numpy.log(p[at]) * weight, slope * weight[:, None]


@pytest.mark.parametrize("classes", [7, CLASSES])
@pytest.mark.parametrize("hybridized", [False, True])
def test_loss_and_gradient(classes: int, hybridized: bool, whole: list[str]) -> None:
    x, label, weight = _drawn(classes)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    scores = mx.np.array(x)
    scores.attach_grad()
    with mx.config.scope(engine_cold="compile"):
        if hybridized:
            loss_fn.hybridize()
        with autograd.record():
            loss = loss_fn(scores, mx.np.array(label), mx.np.array(weight[:, None]))
        loss.backward()
        got = loss.asnumpy(), scores.grad.asnumpy()
    assert set(whole) == ({"pick"} if hybridized else {"pick", "_backward_log_softmax"})
    for one, other in zip(got, _expected(x, label, weight), strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_exponentials_of_many_scores(dtype: str) -> None:
    """From 65,536 scores on they are in memory for loss and gradient; some of them are -inf, as masked ones are."""
    r = numpy.random.RandomState(5)
    x = (3 * r.randn(131, CLASSES)).astype(dtype)
    label, weight = r.randint(0, CLASSES, 131).astype("int32"), r.rand(131).astype(dtype)
    x[:, ::7] -= 60  # their exponentials vanish
    x[5, 1:] = x[6, 0] = -numpy.inf
    label[5], label[6] = 0, 1
    scores: Any = mx.np.array(x, dtype=dtype)
    scores.attach_grad()
    with mx.config.scope(engine_cold="compile"):
        with autograd.record():
            loss = -mx.npx.pick(mx.npx.log_softmax(scores), mx.np.array(label))
        loss.backward(mx.np.array(weight, dtype=dtype))
        got = loss.asnumpy(), scores.grad.asnumpy()
    losses, slope = _expected(x.astype("float64"), label, weight.astype("float64"))
    rtol, atol = {"float32": (1e-5, 1e-7), "float64": (1e-12, 1e-14), "float16": (4e-3, 1e-4)}[
        dtype
    ]
    numpy.testing.assert_allclose(got[0] * weight, losses, rtol=rtol, atol=50 * atol)
    numpy.testing.assert_allclose(got[1], slope, rtol=rtol, atol=atol)


def test_other_axes_and_labels_beyond_the_end(whole: list[str]) -> None:
    x, label, weight = _drawn()
    label[:2] = -4, CLASSES + 3  # mode clip: the first and the last class
    scores = mx.np.array(x.T)
    scores.attach_grad()
    with mx.config.scope(engine_cold="compile"):
        with autograd.record():
            picked = mx.npx.pick(mx.npx.log_softmax(scores, axis=0), mx.np.array(label), axis=0)
        picked.backward(mx.np.array(-weight))
        got = -picked.asnumpy() * weight, scores.grad.asnumpy().T
    assert set(whole) == {"pick", "_backward_log_softmax"}
    for one, other in zip(got, _expected(x, label.clip(0, CLASSES - 1), weight), strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spelling", ["temperature", "two uses", "another axis"])
def test_what_is_more_than_that_stays(spelling: str, whole: list[str]) -> None:
    x = mx.np.array(_drawn(6)[0])
    label = mx.np.array(numpy.arange(ROWS) % 6, dtype="int32")
    x.attach_grad()
    with mx.config.scope(engine_cold="compile"):
        with autograd.record():
            logs = mx.npx.log_softmax(x, temperature=2.0 if spelling == "temperature" else None)
            out = mx.npx.pick(logs, label, axis=0 if spelling == "another axis" else -1).sum()
            out = out + (logs * logs).sum() if spelling == "two uses" else out
        out.backward()
        got = x.grad.asnumpy()
    assert "_backward_log_softmax" not in whole
    host = x.asnumpy().astype("float64")
    p = numpy.exp(host / 2 if spelling == "temperature" else host)
    p /= p.sum(1, keepdims=True)
    given = numpy.eye(6)
    if spelling == "two uses":
        given = given + 2 * numpy.log(p)
    slope = given - p * given.sum(1, keepdims=True)
    numpy.testing.assert_allclose(
        got, slope / 2 if spelling == "temperature" else slope, rtol=1e-4, atol=1e-5
    )


def test_second_derivative_of_a_hybridized_loss() -> None:
    x, label, _ = _drawn(5)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_fn.hybridize()
    scores, towards = mx.np.array(x), mx.np.array(_drawn(5)[0][::-1].copy())
    scores.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(
            loss_fn(scores, mx.np.array(label)).sum(), [scores], create_graph=True
        )
        (first * towards).sum().backward()
    p = numpy.exp(x.astype("float64"))
    p /= p.sum(1, keepdims=True)
    t = towards.asnumpy()
    want = p * t - p * (p * t).sum(1, keepdims=True)
    numpy.testing.assert_allclose(scores.grad.asnumpy(), want, rtol=1e-4, atol=1e-6)
