"""Convolutions and pooling have few traces, whatever their channels, images and filters; NumPy's sums of products."""

import itertools

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, npx
from mxjax.core.interpret import symbolic
from mxjax.ops import TABLE

# (images, channels, side, filters): many of them equal, some equal to the kernel, some small.
SIZES = [(2, 3, 16, 16), (4, 16, 16, 16), (4, 16, 16, 24), (5, 24, 8, 8), (3, 8, 4, 12), (7, 5, 9, 6), (2, 5, 5, 5),
         (1, 6, 7, 10), (6, 1, 12, 4), (3, 3, 3, 3), (2, 20, 6, 40)]  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """What JAX traces, by row: whether it was not refused."""
    names = []
    traced = symbolic._traced

    def heard(call, *args):
        found = traced(call, *args)
        names.append(call.name)
        return found

    monkeypatch.setattr(symbolic, "_traced", heard)
    monkeypatch.setattr(TABLE["convolution"], "tries", {})  # what other tests' sizes taught it
    with mx.config.scope({"engine.cold": "interpret", "cache.mode": "off"}):
        yield names


def by_hand(x, w, b, stride, pad, dilate):
    """The convolution as its definition has it, and its gradients for a sum of results times ``g``."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    k = w.shape[2]
    out = [(n - dilate * (k - 1) - 1) // stride + 1 for n in x.shape[2:]]
    places = [
        (slice(i * dilate, i * dilate + (out[0] - 1) * stride + 1, stride),
         slice(j * dilate, j * dilate + (out[1] - 1) * stride + 1, stride))
        for i, j in itertools.product(range(k), range(k))
    ]  # fmt: skip
    y = b[None, :, None, None] + sum(
        np.einsum("nchw,fc->nfhw", x[:, :, r, c], w[:, :, m // k, m % k])
        for m, (r, c) in enumerate(places)
    )

    def back(g):
        dx, dw = np.zeros_like(x), np.zeros_like(w)
        for m, (r, c) in enumerate(places):
            dx[:, :, r, c] += np.einsum("nfhw,fc->nchw", g, w[:, :, m // k, m % k])
            dw[:, :, m // k, m % k] = np.einsum("nfhw,nchw->fc", g, x[:, :, r, c])
        return dx[:, :, pad : x.shape[2] - pad, pad : x.shape[3] - pad], dw, g.sum((0, 2, 3))

    return y, back


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "dilate"),
    [(3, 1, 1, 1), (1, 1, 0, 1), (1, 2, 0, 1), (3, 2, 1, 1), (5, 1, 2, 1), (3, 1, 2, 2)],
)
def test_one_convolution_has_few_traces(kernel, stride, pad, dilate, made):
    rng = np.random.RandomState(0)
    served = 0
    for images, channels, side, filters in SIZES:
        if side + 2 * pad < dilate * (kernel - 1) + 1:
            continue
        served += 1
        x, w, b = (
            rng.uniform(-1, 1, s)
            for s in (
                (images, channels, side, side),
                (filters, channels, kernel, kernel),
                (filters,),
            )
        )
        arrays = [mx.np.array(a, dtype="float32") for a in (x, w, b)]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            y = npx.convolution(
                *arrays, kernel=(kernel,) * 2, num_filter=filters, stride=(stride,) * 2,
                pad=(pad,) * 2, dilate=(dilate,) * 2,
            )  # fmt: skip
        expected, back = by_hand(x, w, b, stride, pad, dilate)
        g = rng.uniform(-1, 1, expected.shape)
        y.backward(mx.np.array(g, dtype="float32"))
        np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-4, atol=1e-4)
        for a, gradient in zip(arrays, back(g), strict=True):
            np.testing.assert_allclose(a.grad.asnumpy(), gradient, rtol=1e-4, atol=3e-4)
    # Of sizes that are equal by chance there are a few more than one. JAX takes no symbols for the padding of a strided
    # one's derivative.
    assert served >= 10
    assert made.count("Convolution") <= 7
    assert stride > 1 or made.count("_backward_Convolution") < served


def test_the_number_of_filters_makes_no_trace(made):
    x = mx.np.ones((2, 7, 9, 9))
    for filters in range(10, 20):
        y = npx.convolution(
            x, mx.np.ones((filters, 7, 3, 3)), None, kernel=(3, 3), num_filter=filters, no_bias=True
        )
        assert y.shape == (2, filters, 7, 7) and float(y.sum()) == 2 * filters * 49 * 63
    assert made.count("Convolution") <= 1


def test_a_wrong_number_of_filters_is_refused_beside_right_ones():
    weight = mx.np.ones((4, 3, 1, 1))
    x = mx.np.ones((2, 3, 5, 5))
    for _ in range(3):
        npx.convolution(x, weight, None, kernel=(1, 1), num_filter=4, no_bias=True).asnumpy()
        with pytest.raises(
            mx.MXNetError, match=r"Provided = \[4, 3, 1, 1\], inferred shape=\[5, 3, 1, 1\]"
        ):
            npx.convolution(x, weight, None, kernel=(1, 1), num_filter=5, no_bias=True).asnumpy()
