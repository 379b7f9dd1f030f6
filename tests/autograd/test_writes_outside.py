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


X = [[1.0, 2, 3], [4, 5, 6]]
PARTS = {"row": lambda y: y[0], "slice": lambda y: y[:1], "reshape": lambda y: y.reshape((3, 2)),
         "detach": lambda y: y.detach()}  # fmt: skip


def _imul(v):
    v *= 2


def _set(key, numbers):
    def write(v):
        v[key] = numbers

    return write


# What is written, the array's new numbers in the place of 2 * X, and x's gradient of y * y: by MXNet 1.9.1 and 2.0.0b1.
WRITES = [
    ("row", _set(slice(None), 5), [[5, 5, 5], [8, 10, 12]]),
    ("row", _imul, [[4, 8, 12], [8, 10, 12]]),
    ("row", _set(slice(None), onp.ones(3)), [[1, 1, 1], [8, 10, 12]]),
    ("row", _set(0, 7), [[7, 4, 6], [8, 10, 12]]),
    ("slice", _set(0, 7), [[7, 7, 7], [8, 10, 12]]),
    ("slice", _set(slice(None), onp.ones((1, 3))), [[1, 1, 1], [8, 10, 12]]),
    ("reshape", _imul, [[4, 8, 12], [16, 20, 24]]),
    ("reshape", _set(0, 7), [[7, 7, 6], [8, 10, 12]]),
    ("detach", _set(slice(None), 5), [[5, 5, 5], [5, 5, 5]]),
]


@pytest.mark.parametrize(("part", "write", "want"), WRITES)
def test_parts_taken_while_paused_are_written_unseen(part, write, want):
    x = mx.nd.array(X)
    x.attach_grad()
    with autograd.record():
        y = x * 2
        with autograd.pause():
            v = PARTS[part](y)
        write(v)
        z = (y * y).sum()
    z.backward()
    onp.testing.assert_array_equal(y.asnumpy(), want)
    onp.testing.assert_array_equal(x.grad.asnumpy(), 4 * onp.array(want))


@pytest.mark.parametrize("part", ["row", "slice", "reshape"])
def test_what_is_written_through_them_has_its_history_there(part):
    x, w = mx.nd.array(X), mx.nd.ones((2, 3))
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        y = x * 2
        with autograd.pause():
            v = PARTS[part](y)
        v[:] = PARTS[part](w * 3)
        z, q = (y * w).sum(), (v * 5).sum()
    autograd.backward([z, q])
    inside = onp.ones((2, 3)) if part == "reshape" else onp.array([[1, 1, 1], [0, 0, 0]])
    numbers = onp.where(inside, 3, 2 * onp.array(X))
    onp.testing.assert_array_equal(y.asnumpy(), numbers)
    onp.testing.assert_array_equal(x.grad.asnumpy(), 2 * onp.ones((2, 3)))
    onp.testing.assert_array_equal(w.grad.asnumpy(), numbers + 15 * inside)
