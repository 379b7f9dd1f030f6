"""Hybridized blocks whose forward asks for a number run imperatively; what is beside them stays compiled."""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import HybridBlock, SymbolBlock, nn
from mxjax.gluon.graphs.breaks import GraphBreak, breaks_of

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0]], "float32")
Y = np.array([[0.0, -4.0, 1.0], [2.0, 0.0, 0.0]], "float32")


class Of(HybridBlock):
    """A function as a block that counts how often its forward ran."""

    def __init__(self, fn, *children):
        super().__init__()
        self.fn, self.calls = fn, 0
        for k, child in enumerate(children):
            setattr(self, "abcd"[k], child)

    def forward(self, *args):
        self.calls += 1
        return (
            self.fn(*args)
            if len(inspect.signature(self.fn).parameters) == len(args)
            else self.fn(self, *args)
        )


def broken(net, *args):
    """The first call of a network in which a block asks for a number: its result and the only warning."""
    with pytest.warns(UserWarning, match="reads an array's value") as said:
        out = net(*args)
    assert len(said) == 1
    return out, str(said[0].message)


def positive(x):
    return x[x > 0] * 2


ASKING = {
    "nonzero": (lambda x: mx.np.nonzero(x)[1], lambda x: np.nonzero(x)[1]),
    "npx.nonzero": (mx.npx.nonzero, lambda x: np.stack(np.nonzero(x), 1)),
    "x.nonzero": (lambda x: x.nonzero()[0], lambda x: np.nonzero(x)[0]),
    "unique": (lambda x: mx.np.unique(x), np.unique),
    "indexing with a mask": (positive, positive),
    "bincount": (
        lambda x: mx.np.bincount(x[0].astype("int32") + 4),
        lambda x: np.bincount(x[0].astype(int) + 4),
    ),
    "flatnonzero": (mx.np.flatnonzero, np.flatnonzero),
    "asnumpy": (lambda x: x * mx.np.array(x.sum().asnumpy()), lambda x: x * x.sum()),
    "item": (lambda x: x * x.sum().item(), lambda x: x * x.sum()),
    "float()": (lambda x: x * float(x.sum()), lambda x: x * x.sum()),
    "int()": (lambda x: x * int(x.sum()), lambda x: x * x.sum()),
    "bool()": (lambda x: x * 2 if x.sum() > 0 else -x, lambda x: x * 2 if x.sum() > 0 else -x),
    "in": (lambda x: x * (3.0 in x), lambda x: x * (3.0 in x)),
    "printing": (lambda x: x + len(f"{x.sum():.1f}"), lambda x: x + len(f"{x.sum():.1f}")),
    "boolean_mask": (
        lambda x: mx.nd.contrib.boolean_mask(x.as_nd_ndarray(), x.as_nd_ndarray()[:, 0]),
        lambda x: x[x[:, 0] != 0],
    ),
}


@pytest.mark.parametrize("name", ASKING)
def test_what_asks_for_a_number_runs_and_says_so_once(name):
    ours, numpys = ASKING[name]
    net = Of(ours)
    net.hybridize()
    mx.engine.reset()
    out, text = broken(net, mx.np.array(X))
    np.testing.assert_allclose(out.asnumpy(), numpys(X), rtol=1e-6)
    assert f"({name.split('.')[-1]})" in text or name == "printing"
    # Other numbers, another mode and another shape: one verdict, nothing said, no number of the first call.
    np.testing.assert_allclose(net(mx.np.array(Y)).asnumpy(), numpys(Y), rtol=1e-6)
    with autograd.train_mode():
        np.testing.assert_allclose(net(mx.np.array(Y)).asnumpy(), numpys(Y), rtol=1e-6)
    np.testing.assert_allclose(net(mx.np.array(X[:1])).asnumpy(), numpys(X[:1]), rtol=1e-6)
    assert mx.engine.stats()["breaks"] == 1 and net.calls == 5 and not net._graphs


def test_printing_shows_numbers_and_repr_asks_for_none(capsys):
    seen = []
    net = Of(lambda x: (seen.append(repr(x)), x * 2)[1])
    net.hybridize()
    assert net(mx.np.ones(2)).asnumpy().tolist() == [2, 2] and len(net._graphs) == 1
    assert seen == ["<ndarray float32[2], not computed>"]
    net = Of(lambda x: (print(x), x * 2)[1])
    net.hybridize()
    broken(net, mx.np.array([1.0, 5.0]))
    assert capsys.readouterr().out == "[1. 5.]\n"


def test_the_line_that_asks_is_named():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), Of(positive))
    net.initialize()
    net.hybridize()
    with pytest.warns(UserWarning) as said:
        net(mx.np.array(X))
    at = inspect.getsourcelines(positive)[1] + 1
    assert (said[0].filename, said[0].lineno) == (__file__, at)
    assert "HybridSequential" in str(said[0].message)
    (found,) = breaks_of(net)
    assert (found.block, found.asks, found.file, found.line) == (
        "Of",
        "indexing with a mask",
        __file__,
        at,
    )
    assert "x[x > 0] * 2" in str(found)
    with pytest.raises(GraphBreak, match=r"HybridSequential cannot be one graph.*x\[x > 0\] \* 2"):
        net.graph(mx.np.array(X))
    assert not breaks_of(net[0]) and breaks_of(net[1]) == [found]


def chain():
    """a -> [b -> asks -> c] -> d, all hybridized."""
    inner = nn.HybridSequential()
    inner.add(
        nn.Dense(3, in_units=3, activation="tanh"),
        Of(lambda x: x * float(x.sum())),
        nn.Dense(3, in_units=3),
    )
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), inner, nn.Dense(2, in_units=3))
    net.initialize(mx.init.Normal(0.5))
    return net


def test_the_blocks_around_open_and_those_beside_stay_compiled():
    net = chain()
    x = mx.np.array(X)
    want = net(x).asnumpy()
    net.hybridize()
    out, text = broken(net, x)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5)
    assert "HybridSequential, HybridSequential" in text
    assert [len(b._graphs) for b in (net, net[0], net[1], net[1][0], net[1][1], net[1][2], net[2])] == [
        0, 1, 0, 1, 0, 1, 1,
    ]  # fmt: skip
    given = [mx.np.array(X * (k + 1)) for k in range(9)]
    with mx.config.scope(
        {"engine.cold": "compile"}
    ):  # else the small graphs run operator by operator yet
        for k, a in enumerate(given):
            if k == 6:  # a number that keeps changing (the factor) is an input by now
                mx.engine.reset()
            net(a).wait_to_read()
    stats = mx.engine.stats()
    # Two segments a call: up to the number that is asked for, and from there on.
    assert (stats["compiled"], stats["breaks"], stats["segments"], stats["operators"]) == (
        0,
        0,
        6,
        3 * 6,
    )


@pytest.mark.programs
def test_gradients_through_what_asks():
    def grads(hybridize):
        mx.random.seed(3)
        net = chain()
        if hybridize:
            net.hybridize()
        x = mx.np.array(X)
        x.attach_grad()
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with autograd.record():
                    loss = (net(x) ** 2).sum()
            loss.backward()
        return [x.grad.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())]

    for a, b in zip(grads(True), grads(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    net = Of(positive)
    net.hybridize()
    x = mx.np.array(X)
    x.attach_grad()
    with pytest.warns(UserWarning), autograd.record():
        y = net(x).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.where(X > 0, 2.0, 0.0))


def test_a_recording_that_is_given_up_leaves_nothing():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm(momentum=0.5, in_channels=3)
            self.drop = nn.Dropout(0.5)
            self.kept, self.seen, self.by_name = None, [], {}
            self.total = mx.np.zeros(())

        def forward(self, x):
            h = self.norm(x)
            d = self.drop(mx.np.ones((20,)))
            if self.kept is None:  # a dead array here would be used below
                self.kept = h.sum()
                self.added = h * 2
            self.seen.append(h)
            self.by_name["h"] = h
            self.total += 1
            return h * float(x.sum() + self.kept * 0 + self.total * 0), d

    def outcome(hybridize):
        mx.random.seed(5)
        net = Net()
        net.initialize()
        if hybridize:
            net.hybridize()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with autograd.train_mode():
                outs = [[o.asnumpy() for o in net(mx.np.array(X))] for _ in range(2)]
        arrays = [
            net.norm.running_mean.data(),
            net.total,
            net.kept,
            net.added,
            *net.seen,
            net.by_name["h"],
        ]
        assert len(net.seen) == 2
        return [*sum(outs, []), *(a.asnumpy() for a in arrays)]

    for a, b in zip(outcome(True), outcome(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_read_that_the_forward_catches_is_one_too():
    def cautious(x):
        try:
            return x * float(x.sum())
        except Exception:
            return x * 0

    net = Of(cautious)
    net.hybridize()
    assert broken(net, mx.np.array([1.0, 2.0]))[0].asnumpy().tolist() == [3, 6]


def test_exceptions_of_the_forward_are_none():
    def fails(x):
        if x.ndim == 1:
            raise mx.MXNetError("mine")
        return x * 2

    net = Of(fails)
    net.hybridize()
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="^mine$"):
            net(mx.np.ones(2))
    assert (
        net(mx.np.ones((2, 2))).sum().item() == 8 and len(net._graphs) == 1 and not breaks_of(net)
    )

    def asks_and_fails(x):
        if x.sum() > 2:
            raise KeyError("too much")
        return x

    net = Of(asks_and_fails)
    net.hybridize()
    with pytest.warns(UserWarning), pytest.raises(KeyError, match="too much"):
        net(mx.np.ones(3))
    assert net(mx.np.ones(2)).asnumpy().tolist() == [1, 1]


def test_static_shapes_make_it_an_error_but_for_operators_of_unknown_length():
    net = nn.HybridSequential()
    net.add(Of(lambda x: x * 2 if x.sum() > 0 else x), Of(lambda x: x + 1))
    net.hybridize(static_shape=True)
    for _ in range(2):
        with pytest.raises(
            mx.MXNetError,
            match=r"x\.sum\(\) > 0 .*np\.where.*static_shape=True\) makes it an error",
        ):
            net(mx.np.array(X))
    assert not breaks_of(net)
    masked = Of(positive)
    masked.hybridize(
        static_alloc=True, static_shape=True
    )  # as in MXNet, whose graphs have such operators
    np.testing.assert_array_equal(broken(masked, mx.np.array(X))[0].asnumpy(), X[X > 0] * 2)
    np.testing.assert_array_equal(masked(mx.np.array(-X)).asnumpy(), -X[X < 0] * 2)


class Masked(HybridBlock):
    """A forward whose results are as long as the numbers say."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2, in_units=2)

    def forward(self, x, keep):
        return x[keep].reshape((2, 2)), mx.np.flatnonzero(self.dense(x) > 0), self.dense(x)


@pytest.mark.parametrize("cold", ["auto", "compile"])
def test_it_is_exported_with_its_operators_of_unknown_length(cold, tmp_path):
    mx.config.set({"engine.cold": cold})
    net = Masked()
    net.initialize(mx.init.One())
    net.hybridize()
    x, keep = (
        mx.np.array([[0.0, 1], [-1, -1], [2, 2]]),
        mx.np.array([True, False, True], dtype=bool),
    )
    want = [a.asnumpy() for a in broken(net, x, keep)[0]]
    assert [a.tolist() for a in want[:2]] == [[[0, 1], [2, 2]], [0, 1, 4, 5]]
    net.export(str(tmp_path / "net"))
    symbol, params = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    back = SymbolBlock.imports(symbol, ["data0", "data1"], params)
    for got, numbers in zip(back(x, keep), want, strict=True):
        np.testing.assert_array_equal(got.asnumpy(), numbers)
    got = back(-x, mx.np.array([False, True, True], dtype=bool))
    assert [got[0].asnumpy().tolist(), got[1].asnumpy().tolist()] == [[[1, 1], [-2, -2]], [2, 3]]


def test_its_results_are_in_autograds_graph_together():
    net = Masked()
    net.initialize(mx.init.One())
    net.hybridize()
    with mx.autograd.record():
        x, keep = (
            mx.np.array([[0.0, 1], [-1, -1], [2, 2]]),
            mx.np.array([True, False, True], dtype=bool),
        )
        masked, found, out = broken(net, x, keep)[0]
    mx.autograd.backward([masked, found, out])
    assert net.dense.weight.grad().asnumpy().tolist() == [[1, 2], [1, 2]]


def test_it_can_be_an_error():
    net = nn.HybridSequential()
    net.add(Of(positive), Of(lambda x: x + 1))
    net.hybridize()
    with mx.config.scope(engine_graph_breaks="error"):
        for _ in range(2):
            with pytest.raises(
                mx.MXNetError, match=r"x\[x > 0\] \* 2`.*np\.where.*makes it an error"
            ) as caught:
                net(mx.np.array(X))
        assert "engine.graph_breaks='error'" in str(caught.value)
        assert not breaks_of(net)
        np.testing.assert_array_equal(net[1](mx.np.array(X)).asnumpy(), X + 1)
    net.hybridize()
    want = X[X > 0] * 2 + 1
    np.testing.assert_array_equal(broken(net, mx.np.array(X))[0].asnumpy(), want)
    with mx.config.scope(engine_graph_breaks="error"), pytest.raises(GraphBreak):
        net(mx.np.array(X))


@pytest.mark.observes("engine.graph_breaks")
def test_it_can_be_left_unsaid():
    net = Of(positive)
    net.hybridize()
    with mx.config.scope(engine_graph_breaks="quiet"):
        np.testing.assert_array_equal(net(mx.np.array(X)).asnumpy(), positive(X))
    assert len(breaks_of(net)) == 1


def test_hybridize_tries_anew():
    net = Of(positive)
    net.hybridize()
    broken(net, mx.np.array(X))
    net.hybridize()
    assert not breaks_of(net)
    broken(net, mx.np.array(X))  # and says so once more
    net.hybridize(False)
    assert not breaks_of(net)
    net.fn = lambda x: x * 2
    net.hybridize()
    net(mx.np.array(X))
    assert len(net._graphs) == 1


def test_with_another_child_a_block_is_tried_anew():
    net = Of(lambda self, x: self.b(self.a(x)), Of(positive), nn.HybridLambda(lambda x: x + 1))
    net.hybridize()
    broken(net, mx.np.array(X))
    other = Of(lambda x: x * 3)
    other.hybridize()
    net.a = other
    np.testing.assert_array_equal(net(mx.np.array(X)).asnumpy(), X * 3 + 1)
    assert len(net._graphs) == 1 and not breaks_of(net)


def test_one_that_asks_under_two_parents_says_so_once():
    asks = Of(positive)
    one, two = (Of(lambda self, x: self.a(x) + 1, asks) for _ in range(2))
    one.hybridize()
    broken(one, mx.np.array(X))
    two._active = True  # hybridize would let the child be tried anew
    np.testing.assert_array_equal(two(mx.np.array(X)).asnumpy(), positive(X) + 1)
    assert breaks_of(one) == breaks_of(two)


def test_blocks_in_an_open_one_need_no_graph():
    """Nobody asked for graphs of them: without arrays, or with numbers for results, they ran within their parent."""
    scale = Of(lambda k: mx.np.full((2,), k))
    count = Of(lambda x: x.shape[0])
    net = Of(lambda self, x: self.a(self.b(x)) * float(x.sum()), scale, count)
    net.hybridize()
    assert broken(net, mx.np.ones(3))[0].asnumpy().tolist() == [9, 9]
    assert net(mx.np.ones(2)).asnumpy().tolist() == [4, 4]
    with pytest.raises(ValueError, match="one NDArray in the input"):
        scale(3)


def test_arrays_of_a_recording_that_is_over_say_what_they_are():
    kept = []
    net = Of(lambda x: (kept.append(x * 2), x + 1)[1])
    net.hybridize()
    net(mx.np.ones(2)).wait_to_read()
    with pytest.raises(mx.MXNetError, match="while a hybridized block.*was recorded.*Return it"):
        kept[0].asnumpy()
    assert "not computed" in repr(kept[0])


def test_the_first_call_may_find_the_shapes():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), Of(positive), Of(lambda x: x.reshape(1, -1)))
    net.initialize(mx.init.One())
    net.hybridize()
    out, _ = broken(net, mx.np.array(X))
    np.testing.assert_allclose(out.asnumpy(), np.repeat(X.sum(1), 4)[None] * 2)


@pytest.mark.observes("compiler.dynamic_batch")
def test_lengths_are_not_filled_up_for_what_has_no_graph():
    net = Of(lambda x: x * float(x.sum()))
    net.hybridize()
    with mx.config.scope(compiler_dynamic_batch="bucket"), pytest.warns(UserWarning):
        got = [net(mx.np.ones((n, 1))).asnumpy().sum() for n in (3, 5)]
    assert got == [9, 25]


def test_broken_networks_are_freed_without_the_garbage_collector():
    net = chain()
    net.hybridize()
    broken(net, mx.np.array(X))
    seen = weakref.ref(net), weakref.ref(net[1][1]), weakref.ref(net[0].weight)
    gc.collect()
    gc.disable()
    try:
        del net
        assert [s() for s in seen] == [None] * 3
    finally:
        gc.enable()
