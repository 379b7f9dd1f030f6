"""Creation functions of nd take the place among their arguments, as MXNet 1.x has it."""

from __future__ import annotations

import numpy as onp

import mxjax as mx


def test_the_place_may_stand_before_the_dtype():
    x = mx.nd.zeros((2,), mx.cpu(1), "float64")
    assert x.device == mx.cpu(1) and onp.dtype(x.dtype) == onp.float64
    assert mx.nd.ones((2, 3), mx.cpu(2)).device == mx.cpu(2)
    onp.testing.assert_array_equal(mx.nd.full((2,), 3, mx.cpu(0)).asnumpy(), [3.0, 3.0])


def test_optimizers_take_nd_weights():
    kv = mx.kv.create("local")
    w = mx.nd.ones((3,))
    kv.init(0, w)
    kv.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5))
    kv.push(0, mx.nd.ones((3,)))
    kv.pull(0, out=w)
    onp.testing.assert_allclose(w.asnumpy(), [0.5, 0.5, 0.5])
