"""What is written outside of record() changes an array's numbers and leaves its history; gradients of MXNet 2.0.0b1."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, np


def in_place(x):
    with autograd.record():
        y = x * 2
    y += 1
    with autograd.record():
        return y * y + x


def numbers(x):
    with autograd.record():
        y = x * 2
    y[:] = 5
    return y


def another_array(x):
    w = np.array([3.0, 4.0])
    with autograd.record():
        y = x * 2
    y[:] = w
    with autograd.record():
        z = y * w
    assert w.sum().item() == 7
    return z


def another_array_with_a_history(x):
    with autograd.record():
        y, w = x * 2, x * 7
    y[:] = w
    with autograd.record():
        return y * 3


def a_constant_gets_an_array_with_a_history(x):
    y = np.array([1.0, 1.0])
    with autograd.record():
        w = x * 7
    y[:] = w
    with autograd.record():
        return y * 3 + x


def paused(x):
    with autograd.record():
        y = x * 2
        with autograd.pause():
            y *= 3
        return y * y


def an_element(x):
    with autograd.record():
        y = x * 2
    y[0] = 9
    with autograd.record():
        return y * 3


def by_out(x):
    with autograd.record():
        y = np.split(x * 2, 2)[1]
    np.add(y, 1, out=y)
    with autograd.record():
        return y * 3


def released(x):
    with autograd.record():
        y = x * 2
    y.backward()
    y += 1
    with autograd.record():
        return y * 3 + x


def kept(x):
    with autograd.record():
        y = x * 2
    y.backward(retain_graph=True)
    y += 1
    return y


CASES = {
    in_place: ([13, 21], [10, 27]),
    numbers: ([2, 2], [5, 5]),
    another_array: ([6, 8], [9, 16]),
    another_array_with_a_history: ([6, 6], [21, 42]),
    a_constant_gets_an_array_with_a_history: ([1, 1], [22, 44]),
    paused: ([24, 48], [36, 144]),
    an_element: ([6, 6], [27, 12]),
    by_out: ([0, 6], [15]),
    released: ([1, 1], [10, 17]),
    kept: ([2, 2], [3, 5]),
}


@pytest.mark.parametrize("cold", ["auto", "compile"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_history_stays(case, cold):
    gradient, result = CASES[case]
    with mx.config.scope({"engine.cold": cold}):
        x = np.array([1.0, 2.0])
        x.attach_grad()
        z = case(x)
        z.backward()
        onp.testing.assert_array_equal(z.asnumpy(), result)
        onp.testing.assert_array_equal(x.grad.asnumpy(), gradient)
