"""Gradients where a function bends, and losses at their bounds: the numbers are what MXNet 1.9.1 and 2.0.0b1 give."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, nd

LINE = [-3.0, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 3]


def gradient(f, x):
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    return x.grad.asnumpy()


@pytest.mark.parametrize("f, expected", [
    (lambda x: nd.LeakyReLU(x, act_type="elu", slope=1.0), [0.0497871, 0.082085, 0.3678794, 0.6065307, 1, 1, 1, 1, 1]),
    (lambda x: nd.LeakyReLU(x, act_type="elu"), [0.0124468, 0.0205212, 0.0919699, 0.151633, 0.25, 1, 1, 1, 1]),
    (nd.hard_sigmoid, [0, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0]),
    (lambda x: nd.hard_sigmoid(x, alpha=0.5, beta=0.5), [0, 0, 0, 0.5, 0.5, 0.5, 0, 0, 0]),
    (lambda x: nd.clip(x, -1, 1), [0, 0, 1, 1, 1, 1, 1, 0, 0]),
    (lambda x: nd.norm(x, ord=1), [-1, -1, -1, -1, 0, 1, 1, 1, 1]),
    (lambda x: nd.smooth_l1(x, scalar=1.0), [-1, -1, -1, -0.5, 0, 0.5, 1, 1, 1]),
], ids=["elu", "elu_of_a_quarter", "hard_sigmoid", "hard_sigmoid_of_a_half", "clip", "norm", "smooth_l1"])  # fmt: skip
def test_of_one_array(f, expected):
    np.testing.assert_allclose(gradient(f, nd.array(LINE)), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("axis, expected", [
    (1, [[0, 1, -1, 0], [0, 0, 0, 0]]),
    ((0, 1), [[0, 0, -1, 0], [0, 0, 0, 0]]),
])  # fmt: skip
def test_norms_of_magnitudes(axis, expected):
    x = mx.np.array([[0.0, 1, -2, 0], [0, 0, 0, 0]])
    found = gradient(lambda x: mx.np.linalg.norm(x, ord=1, axis=axis), x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("labels, loss, expected", [
    ([0, 0, 0], 33.42068, [[-1, 1, 0], [-1, 1, 0], [0, 0, 0]]),
    ([1, 1, 1], 18.420681, [[0, 0, 0], [0, 0, 0], [1, -1, 0]]),
    ([2, 0, 1], 51.841362, [[0, 1, -1], [-1, 1, 0], [1, -1, 0]]),
])  # fmt: skip
def test_a_row_adds_a_bounded_entropy(labels, loss, expected):
    x = nd.array([[0, 30.0, 5], [0, 15, 0], [60, 0, 0]])
    y = nd.array(labels)
    np.testing.assert_allclose(nd.softmax_cross_entropy(x, y).asnumpy(), [loss], rtol=1e-6)
    found = gradient(lambda x: nd.softmax_cross_entropy(x, y), x)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_digamma_of_negative_numbers():
    x = nd.array([-0.25, -1.3, -9.7, -25.08, -52.555, 0.1, 4.5])
    found = gradient(nd.digamma, x)
    expected = [18.541883, 14.536883, 14.981477, 159.54085, 10.15143, 101.43331, 0.248725]
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # of float32 sines near their zeros
    poles = nd.array([0, -1, -30])
    assert np.isposinf(nd.digamma(poles).asnumpy()).all()
    assert np.isposinf(gradient(nd.gammaln, poles)).all()
