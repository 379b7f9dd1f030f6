"""Hybridized blocks: one graph a signature, and the same results as imperatively."""

from __future__ import annotations

import gc
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.core.run import scheduler
from mxjax.gluon import Block, HybridBlock, nn

from ...closeness import assert_sums_close

X = np.cos(np.arange(12.0)).reshape(4, 3).astype("float32")


def net_of(*layers, hybridize=True):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(init=mx.init.Normal(0.5))
    if hybridize:
        net.hybridize()
    return net


@pytest.fixture
def by_numbers():
    """Counts decide what is compiled, whatever the tests run with."""
    with mx.config.scope({"engine.cold": "auto"}):
        yield


class Wrap(HybridBlock):
    """A function as a block that counts how often it is recorded."""

    def __init__(self, fn):
        super().__init__()
        self.fn, self.calls = fn, 0
        self.hybridize()

    def forward(self, *args):
        self.calls += 1
        return self.fn(*args)


def test_one_graph_per_signature():
    net = net_of(nn.Dense(2))
    x = mx.np.array(X)
    for _ in range(3):
        net(x).wait_to_read()
    assert len(net._graphs) == 1
    mx.engine.reset()
    net(x * 1).wait_to_read()
    net(mx.np.array(X)).wait_to_read()
    assert (
        len(net._graphs) == 1 and mx.engine.stats()["compiled"] <= 2
    )  # the inputs differ, not the graph
    net(mx.np.array(X[:2]))  # a shape
    assert len(net._graphs) == 2
    with autograd.train_mode():  # a mode
        net(x)
    assert len(net._graphs) == 3
    net.cast("float64")  # a dtype
    assert net(mx.np.array(X, dtype="float64")).dtype == "float64"
    net.hybridize()
    assert len(net._graphs) == 0


MANY = 3000


def test_a_small_graph_compiles_nothing_at_first_and_one_program_once_it_has_come_back(by_numbers):
    net = net_of(
        nn.Dense(8, in_units=3),
        nn.BatchNorm(in_channels=8),
        nn.Dropout(0.5),
        nn.Dense(2, in_units=8),
    )
    x = mx.np.array(X)
    mx.engine.reset()
    found = []
    while len(found) < MANY and sum(n for *_, n in found) < 3:
        mx.np.random.seed(5)
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        found.append([loss.asnumpy(), net[0].weight.grad().asnumpy()])
        found[-1] += [mx.engine.stats()["compiled"]]
    counts = [n for *_, n in found]
    assert counts[:3] == [0, 0, 0] and counts[-3:] == [1, 1, 1]
    # The weights' gradients are what is left of terms of size 6, from which BatchNorm's have been taken.
    for *numbers, _ in found[1:]:
        for got, want in zip(numbers, found[0], strict=False):
            assert_sums_close(got, want, terms=6)


def test_what_is_meant_for_the_compiler_is_a_program_at_once(by_numbers):
    x, large = mx.np.array(X), mx.np.ones((600, 500))
    mx.engine.reset()
    net_of(nn.Dense(2, in_units=3))(x).wait_to_read()
    net_of(nn.Dense(2, in_units=500))(large).wait_to_read()
    assert mx.engine.stats()["compiled"] == 0  # NumPy's product takes no longer than a program's
    mx.engine.reset()
    small = net_of(nn.Dense(2, in_units=3))
    small.optimize_for(x)
    mx.waitall()
    assert mx.engine.stats()["compiled"] == 1
    small(x).wait_to_read()
    assert mx.engine.stats()["compiled"] == 1
    with mx.config.scope({"engine.cold": "compile"}):
        mx.engine.reset()
        net_of(nn.Dense(2, in_units=3))(x).wait_to_read()
        assert mx.engine.stats()["compiled"] > 0


@pytest.mark.parametrize("small", ["before", "after", "alone, five times"])
def test_a_small_graph_beside_a_large_one_is_compiled_with_it_once(small, by_numbers):
    scheduler.forget()  # what NumPy's work on single operators has cost in other tests
    large = net_of(nn.Dense(300, in_units=500, activation="tanh"))
    first = net_of(nn.Dense(500, in_units=3, activation="tanh"))
    last = net_of(nn.Dense(2, in_units=300, activation="tanh"))
    cell = net_of(nn.Dense(3, in_units=3, activation="tanh"))
    x, wide = mx.np.array(X), mx.np.ones((4, 500))
    for a in (
        x,
        wide,
        large[0].weight.data(),
        first[0].weight.data(),
        last[0].weight.data(),
        cell[0].weight.data(),
    ):
        a.wait_to_read()

    def step():
        with autograd.record():
            if small == "before":
                y = large(first(x))
            elif small == "after":
                y = last(large(wide))
            else:
                y = x
                for _ in range(5):
                    y = cell(y)
            loss = (y**2).sum()
        loss.backward()
        return loss.asnumpy()

    mx.engine.reset()
    found = []
    while len(found) < MANY and not mx.engine.stats()["compiled"]:
        found.append(step())
    for _ in range(4):
        found.append(step())
    assert mx.engine.stats()["compiled"] == 1
    np.testing.assert_allclose(found, found[0], rtol=1e-5)


def test_a_network_of_one_operator_is_that_operator(by_numbers):
    """Many small networks, each called a few times: what runs without one runs with one."""
    x = mx.np.array(X)
    mx.engine.reset()
    for power in range(2, 8):
        net = net_of(nn.HybridLambda(lambda a, p=power: a**p))
        for _ in range(3):
            a = x.copy()
            a.attach_grad()
            with autograd.record():
                y = net(a)
            y.backward()
            np.testing.assert_allclose(y.asnumpy(), X**power, rtol=1e-5)
            np.testing.assert_allclose(
                a.grad.asnumpy(), power * X ** (power - 1), rtol=1e-4, atol=1e-5
            )
    assert mx.engine.stats()["compiled"] == 0


def test_training_is_one_program_a_step_without_compilations():
    net = net_of(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(2))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x = mx.np.array(X)
    for step in range(30):
        if step == 10:
            mx.engine.reset()
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(4)
    assert mx.engine.stats()["compiled"] == 0 and mx.engine.stats()["segments"] == 20
    assert len(net._graphs) == 1


@pytest.mark.parametrize("change", ["add", "attribute", "inner"])
def test_other_children_need_no_second_hybridize(change):
    inner = nn.HybridSequential()
    inner.add(nn.Dense(3, in_units=3))
    net = net_of(inner)
    x = mx.np.array(X)
    before = net(x).asnumpy()
    double = nn.HybridLambda(lambda x: x * 2)
    if change == "add":
        net.add(double)
    elif change == "inner":
        inner.add(double)
    else:

        class Attribute(HybridBlock):
            def __init__(self):
                super().__init__()
                self.last = nn.HybridLambda(lambda x: x)

            def forward(self, x):
                return self.last(inner(x))

        net = Attribute()
        net.hybridize()
        np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-6)
        net.last = double
    np.testing.assert_allclose(net(x).asnumpy(), 2 * before, rtol=1e-6)


@pytest.mark.parametrize(
    "how", ["force_reinit", "set_data", "reset_device", "load_dict", "cast child"]
)
def test_graphs_see_the_parameters_there_are_now(how):
    net = net_of(nn.Dense(2, in_units=3))
    x, old = mx.np.array(X), net.collect_params()
    net(x).wait_to_read()
    if how == "force_reinit":
        net.initialize(init="ones", force_reinit=True)
    elif how == "set_data":
        old["0.weight"].set_data(mx.np.ones((2, 3)))
    elif how == "reset_device":
        old["0.weight"].reset_device(mx.cpu(1))
        old["0.weight"].set_data(mx.np.ones((2, 3)))
        old["0.weight"].reset_device(mx.cpu(0))
    elif how == "load_dict":
        net.load_dict({"0.weight": np.ones((2, 3), "float32")}, allow_missing=True)
    else:
        net[0].weight.cast("float64")
        net[0].weight.set_data(mx.np.ones((2, 3), dtype="float64"))
        net[0].weight.cast("float32")
    old["0.bias"].set_data(mx.np.zeros(2))
    np.testing.assert_allclose(net(x).asnumpy(), X.sum(1, keepdims=True) * np.ones(2), rtol=1e-5)


def test_arguments_that_are_no_arrays_belong_to_the_signature():
    net = Wrap(lambda x, scale, name=None: x * scale if name is None else x + scale)
    x = mx.np.array([1.0, 2.0])
    for scale, want in ((2, [2, 4]), (3, [3, 6]), (2, [2, 4]), (2.0, [2, 4])):
        assert net(x, scale).asnumpy().tolist() == want
    assert net.calls == 3
    assert net(x, 5, "add").asnumpy().tolist() == [6, 7]
    ours = np.array([1.0, 10.0], "float32")
    net = Wrap(lambda x, y: x * float(y[1]))
    assert net(x, ours).asnumpy().tolist() == [10, 20]
    ours[1] = 20
    assert net(x, ours).asnumpy().tolist() == [20, 40]


def test_nested_inputs_and_outputs():
    net = Wrap(lambda given, y: {"a": [given["p"] + y, given["q"][0]], "none": None})
    one, two = mx.np.array([1.0]), mx.np.array([2.0])
    for _ in range(2):
        out = net({"p": one, "q": (two, None)}, two)
        assert set(out) == {"a", "none"} and out["none"] is None
        assert [o.item() for o in out["a"]] == [3.0, 2.0]
    assert net.calls == 1


def test_none_inputs():
    net = Wrap(lambda x, mask=None: x if mask is None else x * mask)
    x = mx.np.array([1.0, 2.0])
    assert net(x, None).asnumpy().tolist() == [1, 2] == net(x).asnumpy().tolist()
    assert net(x, x).asnumpy().tolist() == [1, 4]


def test_what_cannot_be_hybridized_is_said():
    x = mx.np.ones(2)
    with pytest.raises(ValueError, match="one NDArray in the input"):
        Wrap(lambda x: x)(3)
    with pytest.raises(TypeError, match="returns arrays.*got float"):
        Wrap(lambda x: 3.0)(x)
    with pytest.raises(ValueError, match="static_alloc"):
        Wrap(lambda x: x).hybridize(static_aloc=True)
    assert (x + 1).asnumpy().tolist() == [2, 2]


def test_errors_in_forward_name_their_line_and_leave_no_trace():
    class Broken(HybridBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm(in_channels=3)

        def forward(self, x, y):
            x = self.norm(x)
            return mx.np.dot(x, y)  # the line

    net = Broken()
    net.initialize()
    net.hybridize()
    x = mx.np.array(X)
    with autograd.record(), pytest.raises(mx.MXNetError, match=r"\[4, 3\]") as caught:
        net(x, mx.np.ones((5, 2)))
    assert "# the line" in "".join(traceback.format_exception(caught.value))
    assert (net.norm.running_mean.data().asnumpy() == 0).all()
    with autograd.record():
        assert net(x, mx.np.ones((3, 2))).shape == (4, 2)
    assert (net.norm.running_mean.data().asnumpy() != 0).all()


def test_dropout_differs_call_by_call():
    net = net_of(nn.Dropout(0.5))
    x = mx.np.ones((100,))
    with autograd.train_mode():
        a, b = net(x).asnumpy(), net(x).asnumpy()
    assert (a != b).any() and (net(x).asnumpy() == 1).all()


def test_the_same_seed_gives_the_same_numbers_hybridized():
    net = net_of(nn.Dropout(0.5), nn.Dense(2, in_units=3), nn.Dropout(0.5), hybridize=False)
    outs = []
    for _ in range(2):
        mx.np.random.seed(4)
        with autograd.train_mode():
            outs.append([net(mx.np.array(X)).asnumpy() for _ in range(2)])
        net.hybridize()
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-6)


def test_moving_statistics_are_updated_once_a_call():
    net = net_of(nn.BatchNorm(momentum=0.5, in_channels=3))
    net(mx.np.array(X))
    mean = net[0].running_mean
    assert not mean.data().asnumpy().any()
    for count in (1, 2):
        with autograd.record():
            y = net(mx.np.array(X))
        y.backward()
        want = X.mean(0) * (1 - 0.5**count)
        np.testing.assert_allclose(mean.data().asnumpy(), want, rtol=1e-5, atol=1e-7)


def test_hybrid_children_of_a_plain_block():
    class Plain(Block):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Dense(3), nn.Dense(2)

        def forward(self, x):
            h = self.a(x)
            return self.b(h if h.asnumpy().size else h)  # looks at numbers

    net = Plain()
    net.initialize()
    want = net(mx.np.array(X)).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(mx.np.array(X)).asnumpy(), want, rtol=1e-6)
    assert len(net.a._graphs) == len(net.b._graphs) == 1


def test_partly_hybridized_networks():
    net = net_of(nn.Dense(3, activation="tanh"), nn.Dense(2), hybridize=False)
    x = mx.np.array(X)
    want = net(x).asnumpy()
    net[0].hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
    assert len(net._graphs) == 1
    net.hybridize(False)
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
    assert not net._graphs and not net[0]._active


def test_second_order_through_a_hybridized_block():
    net = Wrap(lambda x: x * x * x)
    x = mx.np.array([2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        (g,) = autograd.grad(net(x).sum(), [x], create_graph=True, retain_graph=True)
        z = (g * g).sum()
    z.backward()
    np.testing.assert_allclose(g.asnumpy(), 3 * x.asnumpy() ** 2)
    np.testing.assert_allclose(x.grad.asnumpy(), 36 * x.asnumpy() ** 3)


def test_a_block_twice_in_one_record_and_backward_twice():
    net = net_of(nn.Dense(3, in_units=3, use_bias=False))
    x, w = mx.np.array(X), net[0].weight
    x.attach_grad()
    with autograd.record():
        y = net(net(x)).sum()
    y.backward(retain_graph=True)
    first = w.grad().asnumpy(), x.grad.asnumpy()
    y.backward()
    np.testing.assert_array_equal(w.grad().asnumpy(), first[0])
    m, ones = w.data().asnumpy(), np.ones((4, 3))
    np.testing.assert_allclose(first[1], ones @ m @ m, rtol=1e-4)
    np.testing.assert_allclose(first[0], ones.T @ (X @ m.T) + (ones @ m).T @ X, rtol=1e-4)
    with pytest.raises(mx.MXNetError, match="retain_graph=True"):
        y.backward()


def test_one_block_under_two_parents():
    shared = nn.Dense(3, in_units=3)
    a, b = net_of(shared), net_of(nn.Activation("relu"))
    b.add(shared)
    x = mx.np.array(X)
    shared.weight.set_data(np.eye(3))
    shared.bias.set_data(np.zeros(3))
    for scale in (1, 2):
        shared.weight.set_data(np.eye(3) * scale)
        np.testing.assert_allclose(a(x).asnumpy(), scale * X, rtol=1e-6)
        np.testing.assert_allclose(b(x).asnumpy(), scale * np.maximum(X, 0), rtol=1e-6)


def test_parameters_with_the_same_value_stay_apart():
    class Two(HybridBlock):
        def __init__(self):
            super().__init__()
            self.a = mx.gluon.Parameter("a", shape=(2,), grad_req="null", init="zeros")
            self.b = mx.gluon.Parameter("b", shape=(2,), grad_req="null", init="zeros")

        def forward(self, x):
            return x * self.a.data() + self.b.data()

    net = Two()
    net.initialize()
    one = mx.np.ones(2)
    net.a.set_data(one)
    net.b.set_data(one)
    net.hybridize()
    assert net(one).asnumpy().tolist() == [2, 2]
    net.a.set_data(one * 5)
    assert net(one).asnumpy().tolist() == [6, 6]


@pytest.mark.parametrize("hybridize", [False, True])
def test_inside_jax_transformations_parameters_are_constants(hybridize):
    net = net_of(nn.Dense(4, activation="tanh"), nn.BatchNorm(), nn.Dense(2), hybridize=hybridize)
    want = net(mx.np.array(X)).asnumpy()
    moving = [net[1].running_mean.data(), net[1].running_var.data()]
    before = [a.asnumpy() for a in moving]

    def f(x):
        return net(mx.np.from_jax(x)).jax

    np.testing.assert_allclose(jax.jit(f)(X), want, rtol=1e-5, atol=1e-7)
    grad = jax.jit(jax.grad(lambda x: jnp.sum(f(x) ** 2)))(jnp.asarray(X))
    x = mx.np.array(X)
    x.attach_grad()
    with autograd.record(train_mode=False):
        loss = (net(x) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(grad, x.grad.asnumpy(), rtol=1e-4, atol=1e-5)
    with autograd.train_mode():
        jax.jit(f)(X)  # its moving statistics stay in the trace
    for a, b in zip(moving, before, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b)
    # Not bitwise: calls that come often are one program, which may round differently.
    np.testing.assert_allclose(net(mx.np.array(X)).asnumpy(), want, rtol=1e-5, atol=1e-7)


def test_copies_on_two_devices():
    net = nn.Dense(2, in_units=3)
    net.initialize(device=[mx.cpu(0), mx.cpu(1)])
    net.hybridize()
    a, b = (net(mx.np.array(X, device=d)) for d in (mx.cpu(0), mx.cpu(1)))
    assert (a.device, b.device) == (mx.cpu(0), mx.cpu(1))
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_keywords_run_imperatively():
    net = Wrap(lambda x: x)
    net.forward = lambda x, scale=1: x * scale
    assert net(mx.np.ones(2), scale=3).asnumpy().tolist() == [3, 3]


def test_copies_of_a_hybridized_network():
    import copy

    net = net_of(nn.Dense(2, in_units=3))
    x = mx.np.array(X)
    want = net(x).asnumpy()
    twin = copy.deepcopy(net)
    net[0].weight.set_data(np.zeros((2, 3)))
    np.testing.assert_allclose(twin(x).asnumpy(), want, rtol=1e-6)


def test_networks_are_freed_without_the_garbage_collector():
    net = net_of(nn.Dense(2, in_units=3))
    net(mx.np.array(X)).wait_to_read()
    seen = weakref.ref(net), weakref.ref(net[0].weight)
    gc.disable()
    try:
        del net
        assert seen[0]() is None and seen[1]() is None
    finally:
        gc.enable()


def programs():
    gc.collect()
    return len(jax.devices("cpu")[0].client.live_executables())


def step_of(net, x):
    with autograd.record():
        loss = mx.np.square(net(x)).sum()
    loss.backward()
    return loss


@pytest.mark.usefixtures("collected")
def test_programs_end_with_their_network():
    """A process has room for some hundred: each takes many of its 65530 mappings."""
    x = mx.np.array(X)
    found = []
    for _ in range(8):
        net = net_of(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
        step_of(net, x).wait_to_read()
        net(x).wait_to_read()
        found.append(programs())
    assert found[-1] < found[0] + 7  # operators' own programs stay


@pytest.mark.usefixtures("collected")
def test_programs_end_with_the_way_of_hybridizing():
    x = mx.np.array(X)
    net = net_of(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
    found = []
    for mirror in (False, True) * 4:
        net.hybridize(mirror=mirror)
        step_of(net, x).wait_to_read()
        found.append(programs())
    assert found[-1] < found[0] + 7


@pytest.mark.usefixtures("collected")
def test_programs_with_weights_inside_end_with_the_weights():
    x = mx.np.array(X)
    net = net_of(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
    found = []
    with mx.settings.scope("memory.external_weights", False):
        for k in range(8):
            net[0].bias.set_data(mx.np.array(np.full(4, k, "float32")))
            want = np.asarray(net[1](net[0](x)))
            np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5)
            found.append(programs())
    assert found[-1] < found[2] + 5


def test_what_was_recorded_outlives_its_network():
    x = mx.np.array(X)
    x.attach_grad()
    net = net_of(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
    step_of(net, x)
    want = x.grad.asnumpy()
    with autograd.record():
        loss = mx.np.square(net(x)).sum()
    del net
    gc.collect()
    loss.backward()  # nothing of it has run yet
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=2e-6)


def test_the_graph_can_be_seen():
    net = net_of(nn.Dense(2, activation="relu", in_units=3))
    text = repr(net.graph(mx.np.array(X)))
    assert "fully_connected(x, 0.weight, 0.bias" in text and "return" in text


class Returns(HybridBlock):
    """Gives back an array that it did not compute."""

    def __init__(self, which):
        super().__init__()
        self.which = which
        self.weight = mx.gluon.Parameter("weight", shape=(2,), init="ones")
        self.buffer = mx.np.array([1.0, 2.0]) * 3  # still pending
        self.plain = [mx.np.array([1.0, 2.0]) * 4]

    def forward(self, x):
        found = {
            "parameter": self.weight.data,
            "gradient": self.weight.grad,
            "input": lambda: x,
            "attribute": lambda: self.buffer,
            "outside": lambda: self.plain[0],
        }[self.which]()
        return x * self.weight.data(), found


@pytest.mark.parametrize("which", ["parameter", "gradient", "input", "attribute", "outside"])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_forward_may_give_back_what_it_did_not_compute(which, hybridize, read_before):
    net = Returns(which)
    net.initialize()
    if hybridize:
        net.hybridize()
    x = mx.np.array([5.0, 6.0])
    if read_before:
        for a in (net.weight.data(), net.weight.grad(), net.buffer, net.plain[0]):
            a.wait_to_read()
    for step in range(2):
        want = {
            "parameter": [1.0 + step] * 2,
            "gradient": [[0.0, 0.0], [6.0, 7.0] if which == "parameter" else [5.0, 6.0]][step],
            "input": [5.0, 6.0],
            "attribute": [3.0 + step, 6.0 + step],
            "outside": [4.0, 8.0],
        }[which]
        with autograd.record():
            y, found = net(x)
            loss = y.sum() + found.sum()
        assert y.asnumpy().tolist() == [5.0 * (1 + step), 6.0 * (1 + step)]
        assert found.asnumpy().tolist() == want
        loss.backward()
        # The sum of the parameter counts as well.
        assert net.weight.grad().asnumpy().tolist() == (
            [6.0, 7.0] if which == "parameter" else [5.0, 6.0]
        )
        net.weight.set_data(net.weight.data() + 1)
        net.buffer += 1
    assert net(x)[1].shape == (2,)  # in prediction


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_forward_may_write_to_an_array_from_outside(hybridize):
    count = mx.np.zeros(1)

    def forward(x):
        nonlocal count
        count += x
        return x * count

    net = Wrap(forward)
    net.hybridize(hybridize)
    for k in range(1, 4):
        assert net(mx.np.array([2.0])).item() == 4.0 * k
        assert count.item() == 2.0 * k
    assert net.calls == (1 if hybridize else 3)


@pytest.mark.parametrize(
    ("forward", "given", "want"),
    [
        (lambda x: mx.np.mod(x, 3) * x, "int32", [1, 1]),  # a remainder of integers has none
        (lambda x: x.mean(dtype="int8"), "float32", [0.5, 0.5]),
        (lambda x: (x * 2.5).astype("int32") + 1, "float32", [2.5, 2.5]),
    ],
)
def test_integers_have_the_gradients_they_have_imperatively(forward, given, want):
    for hybridize in (False, True):
        net = Wrap(forward)
        net.hybridize(hybridize)
        for _ in range(2):
            x = mx.np.array([4, 7], dtype=given)
            x.attach_grad()
            with autograd.record():
                y = net(x)
            y.backward()
            assert x.grad.tolist() == want


def test_results_of_both_kinds_of_arrays_are_refused():
    for hybridize in (False, True):
        net = Wrap(lambda x: (x.as_nd_ndarray() * 2, x * 2))
        net.hybridize(hybridize)
        with pytest.raises(TypeError, match="must be of one type"):
            net(mx.np.ones(2))


def test_results_of_a_hybridized_block_are_lists():
    # So in MXNet, of both generations; what is not hybridized gives what its forward says.
    class Several(HybridBlock):
        def forward(self, x):
            return x, (x + 1, [x * 2])

    net, x = Several(), mx.np.ones(2)
    assert isinstance(net(x), tuple)
    net.hybridize()
    for _ in range(2):
        first, second = outs = net(x)
        assert type(outs) is list and type(second) is list and type(second[1]) is list
        np.testing.assert_array_equal(second[1][0].asnumpy(), [2, 2])
        assert first.shape == (2,)
