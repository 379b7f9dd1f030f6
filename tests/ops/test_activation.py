"""softmax of rows of which nothing is left, and of what must not be looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd

INF = np.inf
# Row by row what real MXNet 2.0.0b1 gives: masked_softmax, and its gradient for the weights 1, 2, 4.
ROWS = {
    "some masked": (
        [1, 2, 3],
        [1, 1, 0],
        [0.26894143, 0.73105854, 0],
        [-0.19661193, 0.19661197, 0],
    ),
    "all masked": ([1, 2, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0]),
    "nothing but -inf left": ([-INF, -INF, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]),
    "one -inf": ([-INF, 1, 2], [1, 1, 0], [0, 1, 0], [0, 0, 0]),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("hybridize", [False, True])
def test_masked_softmax_of_rows_with_nothing_left(row: str, hybridize: bool) -> None:
    given, mask, expected, gradient = ROWS[row]
    net = mx.gluon.nn.HybridLambda(
        lambda x: mx.npx.masked_softmax(x, mx.np.array([mask], dtype=bool))
    )
    if hybridize:
        net.hybridize()
    x = mx.np.array([given], dtype="float32")
    x.attach_grad()
    with autograd.record():
        out = net(x)
        loss = (out * mx.np.array([1.0, 2.0, 4.0])).sum()
    loss.backward()
    np.testing.assert_allclose(out.asnumpy(), [expected], rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), [gradient], rtol=1e-6)


@pytest.mark.parametrize("beyond", [INF, np.nan])
def test_what_is_beyond_the_length_changes_nothing(beyond: float) -> None:
    """The row is softmax of its first two elements: 1 / (1 + e) and e / (1 + e)."""
    x = mx.np.array([[1, 2, beyond]], dtype="float32")
    x.attach_grad()
    with autograd.record():
        out = mx.npx.softmax(x, mx.np.array([2], dtype="int32"), use_length=True)
    out.backward(mx.np.array([[1.0, 2.0, 4.0]]))
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(out.asnumpy(), [[p, 1 - p, 0]], rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), [[-p * (1 - p), p * (1 - p), 0]], rtol=1e-6)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("dtype", "first"), [("float16", 1), ("float32", 70000)])
def test_float16_is_computed_in_more_bits_and_rounded_once(dtype, first, hybridize) -> None:
    """What MXNet 2.0.0b1 gives, to the last bit; 70000 is no number of float16."""
    soft, log = [0.09002685546875, 0.2447509765625, 0.6650390625], [-2.408203125, -1.4072265625]
    x = mx.nd.array([first, first + 1, first + 2], dtype=dtype)
    for f, expected in ((mx.nd.softmax, soft), (mx.nd.log_softmax, [*log, -0.40771484375])):
        net = mx.gluon.nn.HybridLambda(lambda F, x, f=f: f(x, dtype="float16"))  # noqa: N803
        if hybridize:
            net.hybridize()
        out = net(x)
        assert out.dtype == np.float16 and out.asnumpy().tolist() == expected
    mask = mx.nd.array([1, 1, 1], dtype="bool")
    low = x.astype("float32") - first
    assert mx.nd.masked_softmax(low.astype("float16"), mask).asnumpy().tolist() == soft
    assert mx.nd.softmin(-low, dtype="float16").asnumpy().tolist() == soft


def test_the_gradient_of_softmax_of_float16_is_computed_in_more_bits() -> None:
    """What MXNet 2.0.0b1 gives, to the last bit."""
    x = mx.nd.array([1, 2, 3], dtype="float16")
    x.attach_grad()
    with autograd.record():
        y = mx.nd.softmax(x)
    y.backward(mx.nd.array([1, 0, 0], dtype="float16"))
    assert x.grad.asnumpy().tolist() == [0.0819091796875, -0.02203369140625, -0.05987548828125]


def _of_16_bits(dtype):
    x = mx.nd.array(np.linspace(-4, 4, 801)).astype(dtype)
    exact = x.astype("float64").asnumpy()
    return x, exact


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
@pytest.mark.parametrize("kind", ["gelu", "mish", "softrelu", "log_sigmoid", "softsign"])
def test_activations_of_16_bits_are_rounded_once(kind, dtype, unit, hybridize) -> None:
    """Half a unit of the last place from the function, and so is the derivative, as in MXNet 2.0.0b1."""
    x, v = _of_16_bits(dtype)
    e, bell = np.exp(-v), np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
    below = np.array([math.erfc(-t / math.sqrt(2)) / 2 for t in v])
    soft, sigmoid = np.log1p(np.exp(v)), 1 / (1 + e)
    want, slope = {
        "gelu": (v * below, below + v * bell),
        "mish": (v * np.tanh(soft), np.tanh(soft) + v * sigmoid * (1 - np.tanh(soft) ** 2)),
        "softrelu": (soft, sigmoid),
        "log_sigmoid": (-np.log1p(e), 1 - sigmoid),
        "softsign": (v / (1 + abs(v)), 1 / (1 + abs(v)) ** 2),
    }[kind]
    net = mx.gluon.nn.GELU() if kind == "gelu" else mx.gluon.nn.Activation(kind)
    if hybridize:
        net.hybridize()
    for _ in range(2):
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
    assert y.dtype == x.dtype and x.grad.dtype == x.dtype
    for found, right in ((y, want), (x.grad, slope)):
        off = abs(found.astype("float64").asnumpy() - right)
        assert (off <= 1.02 * unit * abs(right) + 3e-7).all()
