"""Parameters: life from shape to value, devices, dtypes, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.errors import DeferredInitializationError, MXNetError
from mxjax.gluon import Constant, Parameter, nn


def made(shape=(2, 3), **kwargs):
    p = Parameter("weight", shape=shape, **kwargs)
    p.initialize(init="ones")
    return p


@pytest.mark.parametrize("given", ["float32", np.float32, "float16", np.float64, float])
def test_a_dtype_is_what_was_given(given):
    """As in MXNet 1.9.1 and 2.0.0b1: programs look it up among texts, add it to texts, ask for its `__name__`."""
    p = made(dtype=given)
    assert p.dtype is given and repr(p).endswith(f"dtype={given})")
    assert p.data().dtype == np.dtype(given)
    p.cast("float16")
    assert p.dtype == "float16" and "x" + p.dtype == "xfloat16" and p.dtype in {"float16", "int8"}
    p.dtype = np.float64
    assert p.dtype is np.float64 and p.data().dtype == np.float64


def test_dtypes_of_layers_are_mxnets():
    """Recorded: Dense and Embedding ask for texts, convolutions and normalizations leave NumPy's class."""
    for layer, dtype in (
        (nn.Dense(2, in_units=3), "float32"),
        (nn.Embedding(2, 3), "float32"),
        (nn.Conv2D(2, 3, in_channels=2), np.float32),
        (nn.LayerNorm(in_channels=2), np.float32),
    ):
        assert {p.dtype for p in layer.collect_params().values()} == {dtype}
    norm = nn.BatchNorm(in_channels=2)
    assert [p.dtype for p in norm.collect_params().values()] == [np.float32] * 4
    norm.cast("float16")
    assert [p.dtype for p in norm.collect_params().values()] == ["float32"] * 4


def test_initialize_fills_by_the_rule():
    p = made()
    np.testing.assert_array_equal(p.data().asnumpy(), np.ones((2, 3)))
    assert repr(p) == "Parameter (shape=(2, 3), dtype=<class 'numpy.float32'>)"
    assert repr(made(dtype="float16")) == "Parameter (shape=(2, 3), dtype=float16)"
    assert p.list_device() == [mx.cpu()] and len(p.list_data()) == len(p.list_grad()) == 1


def test_a_second_initialize_warns_unless_forced():
    p = made()
    with pytest.warns(UserWarning, match="already initialized, ignoring"):
        p.initialize(init="zeros")
    assert p.data().asnumpy().all()
    p.initialize(init="zeros", force_reinit=True)
    assert not p.data().asnumpy().any()


def test_reading_before_initialize_says_what_to_do():
    p = Parameter("weight", shape=(2,))
    for read in (p.data, p.grad, p.list_data, p.list_device, lambda: p.set_data(np.ones(2))):
        with pytest.raises(RuntimeError, match="has not been initialized.*initialize()"):
            read()
    late = Parameter("weight", shape=(2, 0), allow_deferred_init=True)
    late.initialize()
    with pytest.raises(DeferredInitializationError, match="first forward"):
        late.data()
    assert late.shape == (2, -1) and late.list_device() == [mx.cpu()]


def test_unknown_shapes_must_be_allowed():
    with pytest.raises(ValueError, match="invalid shape"):
        Parameter("weight", shape=(2, 0)).initialize()


def test_shapes_are_completed_once():
    p = Parameter("weight", shape=(2, 0), allow_deferred_init=True)
    p.shape = (2, 5)
    assert p.shape == (2, 5)
    with pytest.raises(AssertionError, match="incompatible"):
        p.shape = (2, 6)


def test_set_data_finishes_a_deferred_initialization_with_a_copy():
    p = Parameter("weight", shape=(2, 0), allow_deferred_init=True)
    p.initialize()
    mine = mx.np.array([[1.0], [2.0]])
    p.set_data(mine)
    assert p.data() is not mine and mine.grad is None
    mine[:] = 0
    np.testing.assert_array_equal(p.data().asnumpy(), [[1], [2]])


def test_set_data_copies_casts_and_checks_the_shape():
    p = made()
    held = p.data()
    p.set_data(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(held.asnumpy(), [[0, 1, 2], [3, 4, 5]])
    assert held.dtype == "float32"
    with pytest.raises(AssertionError, match=r"\(3, 2\)"):
        p.set_data(np.ones((3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_cast_keeps_values_and_trains_on(dtype):
    p = made()
    p.cast(dtype)
    assert p.dtype == p.data().dtype == p.grad().dtype == dtype
    with autograd.record():
        y = (p.data() * 2).sum()
    y.backward()
    assert (p.grad().asnumpy() == 2).all() and p.grad().dtype == dtype


def test_grad_req_add_sums_until_zero_grad():
    p = made(grad_req="add")
    for count in (1, 2, 3):
        with autograd.record():
            y = (p.data() * 2).sum()
        y.backward()
        assert (p.grad().asnumpy() == 2 * count).all()
    p.zero_grad()
    assert not p.grad().asnumpy().any()


def test_grad_req_can_change():
    p = made()
    p.grad_req = "null"
    with pytest.raises(MXNetError, match="grad_req='null'"):
        p.grad()
    p.grad_req = "write"
    assert p.grad().shape == (2, 3)
    with pytest.raises(AssertionError, match="'foo'"):
        p.grad_req = "foo"
    assert made(differentiable=False).grad_req == "null"


def test_a_copy_on_each_device():
    devices = [mx.cpu(0), mx.cpu(1)]
    p = Parameter("weight", shape=(2,))
    p.initialize(device=devices)
    a, b = p.list_data()
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    assert [x.device for x in (a, b)] == devices == p.list_device()
    p.set_data(mx.np.array([1.0, 2.0]))
    assert all((x.asnumpy() == [1, 2]).all() for x in p.list_data())
    with pytest.raises(RuntimeError, match=r"cpu\(2\)"):
        p.data(mx.cpu(2))


def test_reset_device_moves_values():
    p = made()
    p.reset_device(mx.cpu(1))
    assert p.list_device() == [mx.cpu(1)] and p.data().device == mx.cpu(1)
    assert p.data().asnumpy().all()
    with pytest.raises(ValueError, match="not been initialized"):
        Parameter("weight", shape=(2,)).reset_device(mx.cpu(1))


def test_constants_are_not_trained():
    c = Constant([[1.0, 2.0]])
    c.initialize()
    np.testing.assert_array_equal(c.data().asnumpy(), [[1, 2]])
    assert c.grad_req == "null" and c.data().grad is None
    with pytest.warns(UserWarning, match="does not support grad_req"):
        c.grad_req = "write"


def test_errors_name_the_parameter_in_its_network():
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.Dense(3))
    with pytest.raises(RuntimeError, match=r"'1\.weight'"):
        net.collect_params()["1.weight"].data()


@pytest.mark.parametrize(
    "name", "foo weight bias gamma bias_foo foo_bias min running_var upsampling_x".split()
)
def test_the_networks_initializer_fills_a_parameter_whatever_its_name(name):
    """As in MXNet 2.0.0b1; a rule by name is the initializer's where it is called by itself, and that of Mixed."""

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.own = Parameter(name, shape=(3, 4))
            self.other = Parameter(name, shape=(3, 4), init=mx.init.Constant(3))

    net = Net()
    net.initialize(mx.init.Constant(2))
    np.testing.assert_array_equal(net.own.data().asnumpy(), np.full((3, 4), 2.0))
    np.testing.assert_array_equal(net.other.data().asnumpy(), np.full((3, 4), 3.0))
    late = Parameter(name, shape=(3, 0), allow_deferred_init=True)
    late.initialize(default_init="ones")
    late.shape = (3, 4)
    late._finish_deferred_init()
    np.testing.assert_array_equal(late.data().asnumpy(), np.ones((3, 4)))


class _Halved(Parameter):
    """Stands for another parameter, whose state it copies as programs of MXNet 1 do."""

    def __init__(self, other):
        super().__init__(name=other.name, grad_req=other.grad_req, shape=other._shape)
        for name in ("_var", "_data", "_grad", "_ctx_list", "_ctx_map", "_trainer"):
            setattr(self, name, getattr(other, name))

    def data(self, ctx=None):
        return self._check_and_get(self._data, ctx) * 0.5


def test_a_parameter_that_stands_for_another_shares_its_arrays():
    for hybridize in (False, True):
        layer = nn.Dense(2, in_units=3, use_bias=False)
        layer.initialize(mx.init.One())
        whole = layer.weight
        layer.__dict__["weight"] = layer._reg_params["weight"] = half = _Halved(whole)
        if hybridize:
            layer.hybridize()
        with autograd.record():
            y = layer(mx.nd.ones((4, 3)))
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), np.full((4, 2), 1.5))
        np.testing.assert_allclose(whole.grad().asnumpy(), np.full((2, 3), 2))
        assert half.grad() is whole.grad()
        whole.set_data(mx.nd.zeros((2, 3)))
        assert not layer(mx.nd.ones((4, 3))).asnumpy().any()
    with mx.config.scope(
        compat_version="1.9"
    ):  # one name, one parameter: a trainer updates it once
        layer = nn.Dense(2, in_units=3, prefix="d_")
        layer.initialize()
        layer.__dict__["weight"] = layer._reg_params["weight"] = _Halved(layer.weight)
        assert list(layer.collect_params()) == ["d_weight", "d_bias"]
        assert list(layer._collect_params_with_prefix()) == ["weight", "bias"]
    with pytest.raises(MXNetError, match="reset_ctx"):
        half._ctx_list = [mx.gpu(0)]
    half._data = None
    with pytest.raises(MXNetError):
        half._check_and_get(half._data, None)
