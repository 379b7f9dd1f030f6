"""`mx.contrib.autograd`: gradients as MXNet had them before `mx.autograd`."""

from __future__ import annotations

import pytest

import mxjax as mx
from mxjax.contrib import autograd


def test_gradients_of_functions():
    x, y = mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 4.0])
    grads, value = autograd.grad_and_loss(lambda a, b: a * a * b)(x, y)
    assert value.asnumpy().tolist() == [3, 16]
    assert [g.asnumpy().tolist() for g in grads] == [[6, 16], [1, 4]]
    assert [g.asnumpy().tolist() for g in autograd.grad(lambda a, b: a * b, 1)(x, y)] == [[1, 2]]
    with pytest.raises(AssertionError, match="NDArray"):
        autograd.grad(lambda a: a)(3.0)


def test_sections():
    x, gradient = mx.nd.array([2.0]), mx.nd.zeros((1,))
    autograd.mark_variables([x], [gradient])
    with autograd.train_section():
        assert mx.autograd.is_training()
        y = x * x
        with autograd.test_section():
            assert not mx.autograd.is_recording()
        z = y * x
    assert not mx.autograd.is_recording()
    autograd.backward([z], [mx.nd.array([10.0])])
    assert gradient.asscalar() == 120
    with pytest.raises(AssertionError, match="list or tuple"):
        autograd.backward(z)
    with pytest.raises(AssertionError, match="same length"):
        autograd.backward([z], [])
