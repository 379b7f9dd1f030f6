"""Operators in Python of MXNet's first kind."""

import numpy as onp
import pytest

import mxjax as mx


class Softmax(mx.operator.NumpyOp):
    """The example of MXNet's documentation: a loss, whose gradient is its own."""

    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]]

    def forward(self, in_data, out_data):
        x = in_data[0]
        e = onp.exp(x - x.max(axis=1, keepdims=True))
        out_data[0][:] = e / e.sum(axis=1, keepdims=True)

    def backward(self, out_grad, in_data, out_data, in_grad):
        label = in_data[1].astype(int)
        in_grad[0][:] = out_data[0]
        in_grad[0][onp.arange(len(label)), label] -= 1.0


class Square(mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 2 * in_data[0] * out_grad[0]


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_operators_of_the_first_kind():
    x = mx.nd.array([[0.0, 1.0], [2.0, 0.0]])
    x.attach_grad()
    with mx.autograd.record():
        y = Softmax()(x, label=mx.nd.array([1, 0]))
    y.backward()
    e = onp.exp(x.asnumpy())
    want = e / e.sum(axis=1, keepdims=True)
    onp.testing.assert_allclose(y.asnumpy(), want, rtol=1e-6)
    onp.testing.assert_allclose(x.grad.asnumpy(), want - [[0, 1], [1, 0]], rtol=1e-5)
    square = Square()
    assert square.declare_backward_dependency([0], [1], [2]) == [0, 1, 2]
    with mx.autograd.record():
        y = square(x) * 3
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 6 * x.asnumpy())
    with pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(x)
