"""autograd beyond the recorded scenarios: views, orders, several threads, errors of users."""

import gc
import math
import threading
import weakref

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd


def var(values, req="write"):
    x = mx.np.array(values)
    x.attach_grad(req)
    return x


def test_orders_of_sine():
    x = var([0.5, 1.0])
    with autograd.record():
        y = mx.np.sin(x)
        derivatives = [y]
        for _ in range(4):
            derivatives += autograd.grad(derivatives[-1], x, create_graph=True)
    for got, f in zip(derivatives, (math.sin, math.cos, lambda t: -math.sin(t)), strict=False):
        onp.testing.assert_allclose(got.asnumpy(), [f(0.5), f(1.0)], rtol=1e-6)
    onp.testing.assert_allclose(derivatives[4].asnumpy(), onp.sin([0.5, 1.0]), rtol=1e-5)
    assert not x.grad.asnumpy().any()


def test_gradient_of_a_gradient_into_parameters():
    x, w = var([2.0]), var([3.0])
    with autograd.record():
        y = w * x * x
        (g,) = autograd.grad(y, x, create_graph=True)  # 2 w x
        loss = (g * g).sum()
    loss.backward()
    assert w.grad.item() == 8 * 3 * 4 and x.grad.item() == 8 * 9 * 2


def test_gradients_of_gradients_need_no_program():
    x = var([0.25, -1.5, 2.0])
    with mx.config.scope({"engine.cold": "auto"}):
        before = mx.engine.stats()["compiled"]
        with autograd.record():
            (slope,) = autograd.grad(mx.np.tanh(x) + 0.7 * x**3, x, create_graph=True)
            (bend,) = autograd.grad(slope, x, create_graph=True)
            penalty = (slope * slope + bend).sum()
        penalty.backward()
        numbers = slope.asnumpy(), bend.asnumpy(), x.grad.asnumpy()
        assert mx.engine.stats()["compiled"] == before
    at = onp.array([0.25, -1.5, 2.0])
    t = onp.tanh(at)
    one, two = 1 - t**2 + 2.1 * at**2, -2 * t * (1 - t**2) + 4.2 * at
    three = -2 * (1 - t**2) * (1 - 3 * t**2) + 4.2
    for got, expected in zip(numbers, (one, two, 2 * one * two + three), strict=True):
        onp.testing.assert_allclose(got, expected, rtol=1e-5)


def test_grad_is_always_a_list_of_new_arrays():
    x, z = var([1.0, 2.0]), var([1.0])
    with autograd.record():
        y = x * x
    got = autograd.grad(y, x, retain_graph=True)
    assert isinstance(got, list) and type(got[0]) is mx.np.ndarray
    assert not x.grad.asnumpy().any()
    got = autograd.grad([y], [x], head_grads=[mx.np.array([1.0, 10.0])], retain_graph=True)
    assert got[0].asnumpy().tolist() == [2, 40]
    with pytest.raises(mx.MXNetError, match="2-th variable because it is unreachable"):
        autograd.grad(y, [x, z], retain_graph=True)
    with pytest.raises(mx.MXNetError, match="1-th variable because it does not require gradient"):
        autograd.grad(y, mx.np.ones(2), retain_graph=True)


def test_backward_checks_what_it_is_given():
    x = var([1.0, 2.0])
    with autograd.record():
        y = x * 2
    with pytest.raises(AssertionError, match="same length: 2 vs. 1"):
        autograd.backward([y, y], [mx.np.ones(2)])
    with pytest.raises(ValueError, match="has shape"):
        autograd.backward(y, mx.np.ones(3))
    with pytest.raises(ValueError, match="has shape"):
        y.backward(mx.np.ones(3))
    with pytest.raises(TypeError):
        autograd.backward(3)
    with pytest.raises(mx.MXNetError, match="no inputs in computation graph"):
        autograd.backward([])
    with pytest.raises(KeyError):
        x.attach_grad("sometimes")
    with pytest.raises(AttributeError):
        x.grad = x


def test_a_gradient_of_a_head_may_have_another_shape_as_in_mxnet():
    x = mx.nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = x * 2
    y.backward(mx.nd.array([[1.0], [2.0], [3.0]]))
    assert x.grad.asnumpy().tolist() == [2, 4, 6]
    with autograd.record():
        y = x.shape_array()
    y.backward(mx.nd.ones((3,)))  # nothing comes of it
    assert x.grad.asnumpy().tolist() == [0, 0, 0]
    with autograd.record():
        y = x * 2
    with pytest.raises(ValueError, match="shape"):
        y.backward(mx.nd.ones((4,)))


def test_integer_heads():
    x = var([1.0, 3.0])
    with autograd.record():
        y, n = x * x, x.argmax()
    autograd.backward([y, n], retain_graph=True)
    assert x.grad.asnumpy().tolist() == [2, 6]
    n.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    "step, wanted",
    [
        (lambda i, c: i * c, [2, 3]), (lambda i, c: c - i, [-1, -1]), (lambda i, c: i + c, [1, 1]),
        (mx.nd.broadcast_mul, [2, 3]), (mx.nd.maximum, [0, 0]), (lambda i, c: mx.nd.where(c > 2, i, c), [0, 1]),
        (lambda i, c: mx.nd.take(i, c - 2), [1, 1]), (lambda i, c: i * i, [2, 4]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("back", [True, False])
def test_integers_between_floats_and_other_integers(step, wanted, back):
    """As in MXNet 1.9.1 and 2.0: the formula of the derivative runs in integers, and casts hand it on."""
    x, c = mx.nd.array([1.4, 2.6]), mx.nd.array([2, 3], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = step(x.astype("int32"), c)
        y = y.astype("float32") if back else y
    y.backward()
    assert x.grad.asnumpy().tolist() == wanted


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_gradients_given_to_integers(dtype):
    x = var([1.4, 2.6])
    with autograd.record():
        y = x.astype("int32")
    y.backward(mx.np.array([2, 3], dtype=dtype))
    assert x.grad.asnumpy().tolist() == [2, 3]
    bound = mx.sym.Cast(mx.sym.var("x"), dtype="int32").bind(
        mx.cpu(), {"x": mx.nd.array([1.4, 2.6])}, {"x": mx.nd.zeros(2)}
    )
    bound.forward(is_train=True)
    bound.backward(mx.nd.array([2, 3], dtype=dtype))
    assert bound.grad_dict["x"].asnumpy().tolist() == [2, 3]


@pytest.mark.parametrize("cold", ["auto", "compile"])
def test_gradients_go_through_integers_inside_of_a_network(cold):
    """As MXNet 1.9.1 has them; the derivative of the whole by JAX is 0."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, x, index):
            whole = (x * 2).astype("int32") * 3
            return whole.astype("float32") * 2 * mx.npx.pick(x, index.astype("int32")).sum()

    x, index = var([1.4, 2.6]), mx.np.array(1.0)
    net = Net()
    net.hybridize()
    data = mx.sym.var("x")
    symbol = mx.sym.Cast(mx.sym.Cast(data, dtype="int32") * 3, dtype="float32") * data
    with mx.config.scope(engine_cold=cold):
        for _ in range(3):
            with autograd.record():
                y = net(x, index)
            y.backward()
            assert x.grad.asnumpy().tolist() == pytest.approx([30, 72])
            bound = symbol.bind(mx.cpu(), {"x": mx.nd.array([1.4, 2.6])}, {"x": mx.nd.zeros(2)})
            bound.forward(is_train=True)
            bound.backward(mx.nd.array([1, 1]))
            assert bound.grad_dict["x"].asnumpy().tolist() == [6, 12]


@pytest.mark.parametrize(
    ("fn", "is_so"),
    [
        (lambda x: x * (x > 0), False),
        (lambda x: mx.np.where(x != 0, x, 0) / mx.np.maximum((x != 0).sum(), 1), False),
        (lambda x: mx.np.cumsum((x > 0).astype("int32"), axis=1).astype("float32") * x, False),
        (lambda x: mx.npx.one_hot(mx.np.argmax(x, axis=-1), 4) * x, False),
        (lambda x: mx.npx.pick(x, x.sum(axis=1).astype("int32")), False),
        (lambda x: mx.npx.pick(x, mx.npx.topk(x, k=1, dtype="int32").reshape((-1,))), False),
        (lambda x: x.argmax(axis=1).astype("int32").astype("float32") * x.sum(axis=1), False),
        (lambda x: x.astype("int32") * 2.0, True),
        (lambda x: x + (x.astype("int32") + x.astype("int32")).astype("float32"), True),
    ],
)  # fmt: skip
def test_masks_and_places_are_no_way_for_a_gradient(fn, is_so):
    """A network with such stays one program."""
    graph = mx.gluon.nn.HybridLambda(fn).graph(mx.np.ones((3, 4)))
    assert graph.has_gradient_of_steps([True] * len(graph.avals), 1) is is_so
    assert not graph.floats()[0] or graph.has_gradient_of_steps([False], 1)


def test_views_in_the_graph():
    x = var([[1.0, 2.0], [3.0, 4.0]])
    before = x[0]
    with autograd.record():
        y = x[1] * 2 + before  # a view made outside is a constant
        row = x[0]
    y.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [[0, 0], [2, 2]]
    row.backward()  # looked at for the first time outside of record()
    assert x.grad.asnumpy().tolist() == [[1, 1], [0, 0]]


def test_a_view_as_a_variable():
    base = mx.np.array([[1.0, 2.0], [3.0, 4.0]])
    row = base[1]
    row.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = row * row
        y.backward()
        assert row.grad.asnumpy().tolist() == (2 * base[1].asnumpy()).tolist()
        base[1] = mx.np.array([5.0, 6.0])
    row[:] = 1
    assert base.asnumpy().tolist() == [[1, 2], [1, 1]]
    with autograd.record():
        y = row * 3
    y.backward()
    assert row.grad.asnumpy().tolist() == [3, 3]


def test_intermediate_results_keep_their_gradient():
    x = var([1.0, 2.0])
    with autograd.record():
        h = x * 3
        z = h * h
        h.attach_grad()
        parts = mx.np.split(z, 2)
        parts[1].attach_grad()
        loss = (parts[0] + 10 * parts[1]).sum()
    loss.backward()
    assert parts[1].grad.asnumpy().tolist() == [10]
    assert h.grad.asnumpy().tolist() == [6, 120]
    assert x.grad.asnumpy().tolist() == [18, 360]
    h.drop_grad()
    assert h.grad is None


def test_requests():
    x = var([1.0], "add")
    for _ in range(3):
        with autograd.record():
            y = x * 2
        y.backward()
    assert x.grad.item() == 6
    x.zero_grad()
    assert x.grad.item() == 0
    n = var([1.0], "null")
    assert n.grad.item() == 0
    with autograd.record():
        y = x * n
    y.backward()
    assert n.grad is None and x.grad.item() == 1  # as in MXNet, once it was part of a graph
    held = x.grad
    x.attach_grad()
    assert x.grad is not held and held.item() == 1 and x.grad.item() == 0
    x.drop_grad()
    assert x.grad is None
    with autograd.record():
        y = x * 2
    with pytest.raises(mx.MXNetError, match="not in a computational graph"):
        y.backward()


@pytest.mark.parametrize(("req", "second"), [("write", [20, 24]), ("add", [32, 40])])
def test_a_variable_is_given_numpys_numbers_while_recording(req, second):
    """Values of MXNet 1.9.1; lists, numbers, arrays of its own and parts are refused there, too."""
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad(req)
    for given, want in (([3, 4], [12, 16]), ([5, 6], second)):
        with autograd.record():
            x[:] = onp.array(given, "float32")
            y = 2 * x * x
        y.backward()
        assert x.grad.asnumpy().tolist() == want and x.asnumpy().tolist() == given
    with autograd.record():
        for key, wrong in ((slice(None), [1.0, 1.0]), (slice(0, 1), onp.ones(1, "float32"))):
            with pytest.raises(mx.MXNetError, match="already in a computational graph"):
                x[key] = wrong
        h = x * 2
        with pytest.raises(mx.MXNetError, match="already in a computational graph"):
            h[0:1] = onp.zeros(1)


@pytest.mark.parametrize("front", [mx.np, mx.nd], ids=["np", "nd"])
@pytest.mark.parametrize(
    "key", [slice(None), ..., (slice(None), slice(None)), (slice(0, 2), slice(0, 3))], ids=str
)
def test_a_result_is_given_numpys_numbers_while_recording(front, key):
    """Values of MXNet 1.9.1 and 2.0.0b1: the numbers are NumPy's, the gradient goes to what the result was made of."""
    x, w = (front.array(onp.full((2, 3), n, "float32")) for n in (1, 2))
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        t = x * 2
        t[key] = onp.arange(6.0).reshape(2, 3)
        y = t * w * 3
    y.backward()
    assert y.asnumpy().tolist() == [[0, 6, 12], [18, 24, 30]]
    assert x.grad.asnumpy().tolist() == [[12] * 3] * 2
    assert w.grad.asnumpy().tolist() == [[0, 3, 6], [9, 12, 15]]


def test_a_constant_is_given_a_result_by_slices_that_take_all_of_it():
    x, c = mx.np.array([[1.0, 2.0]]), mx.np.zeros((1, 2))
    x.attach_grad()
    with autograd.record():
        c[:, :] = x * x
        y = c * 3
    y.backward()
    assert x.grad.asnumpy().tolist() == [[6, 12]] and c.asnumpy().tolist() == [[1, 4]]


def test_in_place_while_recording():
    x = var([1.0, 2.0])
    c = mx.np.zeros(2)
    text = "already in a computational graph"
    with autograd.record():
        h = x * 2
        for wrong in (
            lambda: x.__iadd__(1),
            lambda: h.__imul__(2),
            lambda: x.__setitem__(slice(None), 0),
            lambda: h.__setitem__(0, 0),
            lambda: x[0:1].__iadd__(1),
            lambda: mx.np.exp(c, out=h),
            lambda: c.copyto(x),
        ):
            with pytest.raises(mx.MXNetError, match=text):
                wrong()
        with pytest.raises(mx.MXNetError, match="Inplace operations"):
            c[0:1] = h[0:1]
        c[0:1] = 5  # constants may change
        c += 1
        c[:] = h * 3
        y = c * 1
        with autograd.pause():
            h += 100
    y.backward()
    assert x.grad.asnumpy().tolist() == [6, 6]
    assert h.asnumpy().tolist() == [102, 104]
    x += 1
    assert x.grad is not None and x.asnumpy().tolist() == [2, 3]


def test_what_is_written_through_a_detached_array_is_not_recorded():
    """As in MXNet 1.9.1 and 2.0.0b1, which do not know of it."""
    x = var([1.0, 2.0])
    with autograd.record():
        before = x.detach()
        before += 1
        y = x * x
    y.backward()
    assert x.asnumpy().tolist() == before.asnumpy().tolist() == [2, 3]
    assert x.grad.asnumpy().tolist() == [4, 6]


def test_out_is_recorded():
    x, c = var([1.0, 2.0]), mx.np.zeros(2)
    with autograd.record():
        mx.np.exp(x, out=c)
        y = c * 2
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * onp.exp([1, 2]), rtol=1e-6)


def test_dtypes_of_gradients():
    x = var([1.0, 2.0])
    d = mx.np.array([3.0, 4.0], dtype="float64")
    d.attach_grad()
    with autograd.record():
        y = x * d + x.astype("float16")
    assert y.dtype == "float64"
    y.backward()
    assert x.grad.dtype == "float32" and x.grad.asnumpy().tolist() == [4, 5]
    assert d.grad.dtype == "float64" and d.grad.asnumpy().tolist() == [1, 2]


class Square(autograd.Function):
    def forward(self, x, scale):
        assert not autograd.is_recording()
        self.training = autograd.is_training()
        self.save_for_backward(x, scale)
        return x * x * scale, x + 0

    def backward(self, dy, dz):
        assert not autograd.is_recording()
        x, scale = self.saved_tensors
        return 2 * x * scale * dy + dz, None


def test_function():
    x, s = var([3.0]), var([2.0])
    f = Square()
    with autograd.record():
        y, _ = f(x * 1, s)
        z = y * 2
    assert f.training
    z.backward()
    assert y.item() == 18 and x.grad.item() == 24 and s.grad.item() == 0
    with pytest.raises(AssertionError, match="only be called once"):
        f(x, s)


def test_a_function_in_python_has_no_second_derivative():
    x, s = var([3.0]), var([2.0])
    with autograd.record():
        y = Square()(x, s)[0] * x
        (slope,) = autograd.grad(y, [x], create_graph=True)
        z = slope * slope
    assert slope.item() == 54
    # MXNet: "Operator _backward_CustomFunction is non-differentiable"
    with pytest.raises(mx.MXNetError, match="Square is differentiable once"):
        z.backward()


def test_errors_in_backward_arrive_as_they_are():
    class Bad(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            raise KeyError("my own")

    class Few(Bad):
        def backward(self, dy):
            return []

    x = var([1.0])
    with autograd.record():
        y = Bad()(x)
    with pytest.raises(KeyError, match="my own"):
        y.backward()
    with autograd.record():
        y = Few()(x)
    with pytest.raises(ValueError, match="0 gradients for 1 inputs"):
        y.backward()
    with autograd.record():
        y = x * 2
    y.backward()
    assert x.grad.item() == 2


def test_modes_are_a_threads_own():
    seen = []

    def other():
        seen.append((autograd.is_recording(), autograd.is_training()))

    with autograd.record():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with autograd.predict_mode():
            seen.append((autograd.is_recording(), autograd.is_training()))
        with autograd.pause(train_mode=True):
            seen.append((autograd.is_recording(), autograd.is_training()))
    assert seen == [(False, False), (True, False), (False, True)]
    with pytest.raises(ZeroDivisionError), autograd.record():
        raise ZeroDivisionError
    assert not autograd.is_recording()


def test_marked_variables():
    x, g = mx.np.array([1.0, 2.0]), mx.np.zeros(2)
    autograd.mark_variables(x, g)
    with autograd.record():
        y = x * x
    y.backward()
    assert g.asnumpy().tolist() == [2, 4] and x.grad is g
    with pytest.raises(ValueError, match="one each"):
        autograd.mark_variables([x], [g, g])


def test_deep_graphs():
    """Deeper than Python's stack. Not deeper still: JAX 0.12's XLA compiles a chain of 3,000 in minutes."""
    x = var([1.0])
    with autograd.record():
        y = x
        for _ in range(1200):
            y = y + 0.001
    y.backward()
    assert x.grad.item() == 1


def test_gradients_across_devices():
    x = var([1.0, 2.0])
    with autograd.record():
        y = x.to_device(mx.cpu(1)) * mx.np.array([3.0, 4.0], device=mx.cpu(1))
    y.backward()
    assert x.grad.device == mx.cpu(0) and x.grad.asnumpy().tolist() == [3, 4]


def test_both_kinds_of_arrays_share_one_graph():
    x = var([1.0, 2.0])
    old = x.as_nd_ndarray()
    assert old.grad is x.grad
    with autograd.record():
        y = old * old
    y.backward()
    assert type(y) is mx.nd.NDArray
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_an_array_that_is_dropped_goes_with_its_gradient_at_once():
    gc.collect()
    gc.disable()  # nothing waits for it
    try:
        x = mx.np.ones((4,))
        x.attach_grad()
        with mx.autograd.record():
            y = (x * x).sum()
        y.backward()
        held = [weakref.ref(x._v), weakref.ref(x.grad._v)]
        del x, y
        mx.npx.waitall()
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("hybridized", [False, True])
def test_an_array_keeps_its_gradient_where_it_goes_to_the_device_that_it_is_on(hybridized):
    """Values of MXNet 2.0.0b1: `as_in_context` of `np` is another array on the same memory, and autograd follows it."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            h = mx.np.tanh(x.as_in_context(mx.cpu()))
            return (h.as_in_context(mx.cpu()) * 3).sum() + h.as_in_ctx(mx.cpu()).sum()

    net = Net()
    if hybridized:
        net.hybridize()
    x = var([0.0, 0.5])
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
    assert onp.allclose(x.grad.asnumpy(), [4, 3.145790976])
    z = x.as_in_context(mx.cpu())
    z[:] = 9
    assert z is not x and x.tolist() == [9, 9] and z.grad.tolist() == x.grad.tolist()
