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


NAN, INF = float("nan"), float("inf")
ENDS = [INF, -INF, NAN, 0, 1, -1]


@pytest.mark.parametrize("f, expected", [
    (nd.abs, [1, -1, 0, 0, 1, -1]),
    (nd.softsign, [0, 0, NAN, 1, 0.25, 0.25]),
    (lambda x: nd.smooth_l1(x, scalar=1.0), [1, -1, NAN, 0, 1, -1]),
    (nd.hard_sigmoid, [0, 0, 0, 0.2, 0.2, 0.2]),
    (lambda x: nd.maximum(x, 1.0), [1, 0, 0, 0, 1, 0]),
    (lambda x: nd.minimum(x, 0.0), [0, 1, 0, 1, 0, 1]),
], ids=["abs", "softsign", "smooth_l1", "hard_sigmoid", "maximum", "minimum"])  # fmt: skip
@pytest.mark.parametrize("hybrid", [False, True])
def test_at_infinity_and_beside_nan(f, expected, hybrid):
    if hybrid:
        block = mx.gluon.nn.HybridLambda(lambda F, x: f(x))  # noqa: N803  (MXNet's name)
        block.hybridize()
        got = gradient(block, nd.array(ENDS))
    else:
        got = gradient(f, nd.array(ENDS))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("name, left, right", [
    ("maximum", [0, 0, 0, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 0]),
    ("minimum", [0, 0, 0, 0, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1, 0, 0, 0]),
])  # fmt: skip
@pytest.mark.parametrize("module", [mx.nd, mx.np])
def test_of_two_arrays_neither_has_a_gradient_beside_nan(name, left, right, module):
    a, b = np.meshgrid(*[np.array([NAN, 1, 2], "float32")] * 2)
    a, b = (module.array(v.ravel(), dtype="float32") for v in (a, b))
    b.attach_grad()
    got = gradient(lambda a: getattr(module, name)(a, b), a)
    np.testing.assert_array_equal(got, left)
    np.testing.assert_array_equal(b.grad.asnumpy(), right)


def test_slopes_of_prelu_see_negative_numbers_alone():
    x, slope = nd.array([[INF, -2.0]]), nd.array([0.5, 0.5])
    got = gradient(lambda s: nd.LeakyReLU(x, s, act_type="prelu"), slope)
    assert got.tolist() == [0, -2]


@pytest.mark.parametrize(
    "use_ignore, ignored", [(False, [0.160410598, 0.339589387]), (True, [0, 0])]
)
def test_labels_to_ignore_are_never_valid(use_ignore, ignored):
    x = nd.array(np.arange(6).reshape(1, 2, 3) / 4)
    got = gradient(
        lambda x: nd.SoftmaxOutput(
            x,
            nd.array([[0, 1, -1]]),
            multi_output=True,
            normalization="valid",
            use_ignore=use_ignore,
        ),
        x,
    )
    others = [[-0.339589387, 0.160410598], [0.339589387, -0.160410598]]
    np.testing.assert_allclose(got[0, :, :2], others, rtol=1e-6)
    np.testing.assert_allclose(got[0, :, 2], ignored, rtol=1e-6)


def test_one_class_has_no_others_to_smooth():
    got = gradient(
        lambda x: nd.SoftmaxOutput(x, nd.zeros(2), smooth_alpha=0.1), nd.array([[1], [2.0]])
    )
    np.testing.assert_allclose(got, [[0.1], [0.1]], rtol=1e-6)


@pytest.mark.parametrize(
    "shape, expected", [((2, 3), 1), ((2, 3, 4), 1 / 3), ((2, 3, 2, 2), 1 / 6), ((5,), 2)]
)
def test_rows_are_the_batch_of_make_loss(shape, expected):
    got = gradient(lambda x: nd.MakeLoss(x, grad_scale=2.0, normalization="batch"), nd.ones(shape))
    np.testing.assert_allclose(got, np.full(shape, expected), rtol=1e-6)


@pytest.mark.parametrize("labels, lengths, loss, size", [
    ([[1, 1, 1], [1, 2, 1]], None, 2.16793489, 3.01437139),
    ([[1, 2, 2], [1, 2, 0]], [3, 2], 2.36131263, 2.52330256),
])  # fmt: skip
def test_what_no_alignment_has_costs_nothing(labels, lengths, loss, size):
    """The first sample has too few steps, of which MXNet's gradient is whatever its memory held."""
    data = nd.array(np.arange(24).reshape(4, 2, 3) % 5 / 2)
    more = () if lengths is None else (nd.array(lengths),)
    out = []

    def f(x):
        out.append(nd.CTCLoss(x, nd.array(labels), *more, use_data_lengths=bool(more)))
        return out[0]

    got = np.abs(gradient(f, data)).sum((0, 2))
    np.testing.assert_allclose(out[0].asnumpy(), [0, loss], rtol=1e-6)
    np.testing.assert_allclose(got, [0, size], rtol=1e-5)


def test_more_labels_than_steps_are_refused():
    with pytest.raises(mx.MXNetError, match="cannot exceed the maximum sequence length"):
        nd.CTCLoss(nd.ones((2, 1, 3)), nd.ones((1, 3)))
