"""The modes: which arrays and shapes code asks for, by thread and by generation."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax import modes, settings
from mxjax.gluon import nn


def in_a_thread(fn):
    found = []
    thread = threading.Thread(target=lambda: found.append(fn()))
    thread.start()
    thread.join()
    return found[0]


def test_arrays_and_shapes_are_modes_of_the_thread():
    assert mx.is_np_array() and mx.is_np_shape()
    mx.npx.reset_np()
    assert not mx.is_np_array() and not mx.is_np_shape()
    assert in_a_thread(lambda: (mx.is_np_array(), mx.is_np_shape())) == (
        False,
        False,
    )  # as in 2.0.0b1
    mx.npx.set_np()
    assert mx.is_np_array() and mx.is_np_shape()


def test_shapes_of_all_threads():
    """As real MXNet: `set_np_shape(2)` holds in threads that did not say otherwise."""
    mx.npx.reset_np()
    with mx.config.scope(compat_version="1.9"):
        mx.util.set_np_shape(2)
        assert mx.is_np_shape()
        mx.util.set_np_shape(False)
        assert not mx.is_np_shape()


def test_arrays_need_shapes():
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        mx.npx.set_np(shape=False)
    with pytest.raises(ValueError, match="reset_np"):
        mx.util.set_np_shape(False)
    with mx.np_array(False):
        assert mx.util.set_np_shape(False) is True and mx.util.set_np_shape(True) is False


def test_decorators_of_functions_and_classes():
    seen = lambda: (mx.is_np_array(), mx.is_np_shape())  # noqa: E731
    mx.npx.reset_np()

    @mx.use_np
    class Both:
        def __init__(self):
            self.made = seen()

        def now(self):
            return seen()

        @staticmethod
        def bound(self, n):  # a method in MXNet, which forgets that it is static
            return self.now(), n

        @staticmethod
        def static(n):
            return n

    assert Both().bound(3) == ((True, True), 3) and Both().static(3) == Both.static(3) == 3
    assert Both().made == Both().now() == (True, True)
    assert mx.use_np_shape(seen)() == (False, True) and mx.util.use_np_array(seen)() == (
        True,
        False,
    )
    assert seen() == (False, False)
    with pytest.raises(TypeError, match="a function or a class"):
        mx.use_np(3)


@pytest.mark.observes("compat.version")
def test_the_generation_decides_where_nobody_did():
    x = mx.nd.ones((2, 3))
    with mx.config.scope(compat_version="1.9"):
        assert not mx.is_np_array() and modes.generation() == 1
        net = nn.Dense(4)
        assert net.weight.name.endswith("_weight") and net.weight.shape == (4, 0)
        net.initialize()
        assert type(net(x)) is type(net.weight.data()) is type(net.bias.grad()) is mx.nd.NDArray
        mx.npx.set_np()
        assert mx.is_np_array()
    net = nn.Dense(4)
    net.initialize()
    assert net.weight.name == "weight" and net.weight.shape == (4, -1)
    assert type(net(x)) is mx.nd.NDArray and type(net.weight.data()) is mx.np.ndarray
    assert settings.get("compat.version") == "2.0"


def test_default_array_follows_the_mode():
    assert type(mx.util.default_array([1.0])) is mx.np.ndarray
    with mx.np_array(False):
        assert type(mx.util.default_array([1.0])) is mx.nd.NDArray


def test_a_decorated_class_decorates_what_it_inherits():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = mx.gluon.Parameter("w", shape=(2, 3))

        @property
        def modes(self):
            return mx.is_np_array(), mx.is_np_shape()

    with mx.np_array(False), mx.np_shape(False):
        net = mx.use_np(Net)()
        net.initialize()
        assert net.modes == (True, True) and type(net.w.data()) is mx.np.ndarray


def test_an_element_of_an_nd_array_has_an_axis_where_shapes_are_those_of_mxnet_1():
    # What MXNet 1.9.1 and 2.0.0b1 give.
    x = mx.nd.array([1, 2, 3])
    assert x[-1].shape == () and mx.nd.ones((2, 2))[0, 1].shape == ()
    with mx.config.scope(compat_version="1.9"):
        assert [x[-1].shape, x[x.shape[0] - 3].shape, mx.nd.ones((2, 2))[0, 1].shape] == [(1,)] * 3
        y = mx.nd.ones((2, 2))
        of_no_axis = (
            x[..., 0],
            x[0, ...],
            y[..., 1, 0],
            y[1, ..., np.int64(0)],
            y[1, 0, ...],
            y[np.array(1), 0],
        )
        assert [a.shape for a in of_no_axis] == [(1,)] * 6 and y[..., 0].shape == (2,)
        assert x[-1].asscalar() == 3 and [a.shape for a in x] == [(1,)] * 3 and x[1:2].shape == (1,)
        x[0] = 7
        x[1][:] = 8  # a view, as in MXNet
        assert x.asnumpy().tolist() == [7, 8, 3] and mx.np.array([1.0, 2.0])[0].shape == ()
        with pytest.raises(IndexError):
            x[3]


def test_shapes_that_mxnet_1_does_not_know_make_no_array():
    mx.npx.reset_np()
    for make in (mx.nd.zeros, mx.nd.ones, mx.np.zeros):
        for shape in ((), (0, 2)):
            with pytest.raises(mx.MXNetError, match="not known"):
                make(shape=shape)
            with mx.np_shape():
                assert make(shape=shape).shape == shape
    assert mx.nd.full((0, 2), 1).shape == (0, 2) and mx.nd.array([]).shape == (0,)
