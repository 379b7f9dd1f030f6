"""Blocks and scopes that say themselves whether the backward pass computes them again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import memonger
from mxjax.gluon import nn
from tests.memonger import networks

ROWS, WIDTH = 32, 64
UP = 2 * ROWS * WIDTH * 4 * WIDTH  # operations of a perceptron's first matrix product
WIDE = ROWS * 4 * WIDTH * 4  # bytes of its result


def _perceptrons(marks: dict[int, bool | None], mirror: Any = None) -> nn.HybridSequential:
    net = networks.perceptrons(3, WIDTH, mx.init.Constant(0.01))
    net.hybridize(mirror=mirror)
    for k, mark in marks.items():
        net[k].force_mirroring = mark
    return net


def _kept(net: Any, x: Any) -> list[tuple[int, ...]]:
    """Shapes of what a backward pass in a program of its own gets from the forward's."""
    with mx.config.scope({"engine.cold": "compile"}), mx.autograd.record():
        pair, residuals = net(x)._value().tape.saved
    return [
        r.aval.shape for (kind, _), r in zip(pair._plan, residuals, strict=True) if kind == "kept"
    ]


def _bytes(shapes: list[tuple[int, ...]]) -> int:
    return sum(4 * int(np.prod(s)) for s in shapes)


def _loss(net: Any, x: Any, *, apart: bool) -> Callable[[], Any]:
    def step() -> Any:
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        if apart:
            loss.wait_to_read()
        loss.backward()
        return loss

    return step


def _marks(net: Any, *inputs: Any) -> list[tuple[str, bool | None]]:
    steps = net.graph(*inputs).steps
    return [(s.call.name, None if s.mirroring is None else s.mirroring.again) for s in steps]


def _x() -> Any:
    return mx.np.array(np.random.RandomState(0).randn(ROWS, WIDTH).astype("float32"))


# ---- what it costs and saves ---------------------------------------------------------------------------


def test_what_is_kept_between_forward_and_backward() -> None:
    plain = _kept(_perceptrons({}), _x())
    one = _kept(_perceptrons({1: True}), _x())
    two = _kept(_perceptrons({0: True, 1: True}), _x())
    # Of a block that is computed again only what it takes is left.
    assert plain.count((ROWS, 4 * WIDTH)) % 3 == 0
    per_block = plain.count((ROWS, 4 * WIDTH)) // 3
    assert per_block >= 2
    assert one.count((ROWS, 4 * WIDTH)) == 2 * per_block
    assert two.count((ROWS, 4 * WIDTH)) == per_block
    assert _bytes(plain) - _bytes(one) >= per_block * WIDE - ROWS * WIDTH * 4
    assert _bytes(plain) - _bytes(two) >= 2 * (per_block * WIDE - ROWS * WIDTH * 4)


def test_a_compiled_step_needs_less_and_computes_that_part_again() -> None:
    """XLA could undo it: it merges what is computed twice, and computes again what it likes."""
    costs = []
    for marks in ({}, {1: True}, {1: True, 2: True}):
        net = _perceptrons(dict(marks))
        costs.append(memonger.measure(_loss(net, _x(), apart=True)))
    plain, one, two = costs
    assert plain.peak_bytes > one.peak_bytes > two.peak_bytes
    # The first product and GELU: of the second product nobody needs the result.
    for before, after in ((plain, one), (one, two)):
        assert UP <= after.flops - before.flops <= 1.2 * UP


def test_temporaries_of_a_step_in_one_program() -> None:
    plain, forced = (_perceptrons(dict.fromkeys(marks, True)) for marks in ((), range(3)))
    temp = [
        memonger.rehearse(_loss(net, _x(), apart=False), net).temp_bytes for net in (plain, forced)
    ]
    assert temp[1] <= temp[0] - 2 * WIDE


def test_a_mirrored_network_keeps_a_block_that_says_no() -> None:
    mirrored = _kept(_perceptrons({}, mirror=True), _x())
    kept = _kept(_perceptrons({1: False}, mirror=True), _x())
    plain = _kept(_perceptrons({}), _x())
    per_block = plain.count((ROWS, 4 * WIDTH)) // 3
    assert mirrored.count((ROWS, 4 * WIDTH)) == 3  # the first matrix product of each
    assert kept.count((ROWS, 4 * WIDTH)) == 2 + per_block


def test_a_mirrored_network_computes_even_products_again_where_a_block_says_so() -> None:
    forced = _kept(_perceptrons({1: True}, mirror=True), _x())
    assert forced.count((ROWS, 4 * WIDTH)) == 2


# ---- the same numbers ----------------------------------------------------------------------------------


def _network() -> nn.HybridSequential:
    net = nn.HybridSequential()
    for _ in range(2):
        block = nn.HybridSequential()
        block.add(
            nn.Dense(16, in_units=16),
            nn.BatchNorm(in_channels=16),
            nn.Activation("tanh"),
            nn.Dropout(0.5),
        )
        net.add(block)
    mx.random.seed(2)
    net.initialize(mx.init.Xavier())
    return net


def _trained(net: Any, x: Any) -> list[np.ndarray]:
    """The loss, gradients and moving statistics of one step."""
    mx.random.seed(7)
    with mx.autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    params = net.collect_params().values()
    return [
        loss.asnumpy(),
        *((p.data() if p.grad_req == "null" else p.grad()).asnumpy() for p in params),
    ]


def test_losses_gradients_statistics_and_masks_are_the_same() -> None:
    x = mx.np.array(np.random.RandomState(1).randn(8, 16).astype("float32"))
    net = _network()
    net.hybridize()
    expected = _trained(net, x)
    for mirror in (False, True):
        net = _network()
        net.hybridize(mirror=mirror)
        net[0].force_mirroring = True
        net[1].force_mirroring = False
        for got, want in zip(_trained(net, x), expected, strict=True):
            # Relative to the largest: the gradient of a bias before BatchNorm is zero but for rounding.
            np.testing.assert_allclose(
                got, want, rtol=1e-6, atol=1e-6 * max(0.1, float(np.abs(want).max()))
            )


def test_random_bits_are_kept() -> None:
    net = nn.HybridSequential()
    net.add(
        nn.Dense(16, in_units=16),
        nn.Dropout(0.5),
        nn.Dense(16, in_units=16),
        nn.Dense(1, in_units=16),
    )
    net.initialize()
    net.hybridize()
    net.force_mirroring = True
    assert _kept(net, mx.np.ones((8, 16))) == [(8, 16)]


# ---- who says it ---------------------------------------------------------------------------------------


def _three() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(*[nn.Dense(4, in_units=4) for _ in range(3)])
    net.initialize()
    return net


def test_children_say_what_their_parents_say_unless_they_say_otherwise() -> None:
    net = _three()
    name = "FullyConnected"
    x = mx.np.ones((2, 4))
    assert _marks(net, x) == [(name, None)] * 3
    net.force_mirroring = True
    net[1].force_mirroring = False
    assert _marks(net, x) == [(name, True), (name, False), (name, True)]
    net[1].force_mirroring = None
    assert _marks(net, x) == [(name, True)] * 3
    with mx.AttrScope(force_mirroring="False"):  # the block is further inside
        assert _marks(net, x) == [(name, True)] * 3
        net.force_mirroring = None
        assert _marks(net, x) == [(name, False)] * 3


def test_a_scope_within_a_forward() -> None:
    class Net(nn.HybridBlock):
        def forward(self, x: Any) -> Any:
            x = mx.np.exp(x)
            with mx.AttrScope(force_mirroring="True"):
                x = mx.np.sin(x)
            return mx.np.cos(x)

    net = Net()
    x = mx.np.ones((3,))
    assert _marks(net, x) == [("exp", None), ("sin", True), ("cos", None)]


def test_a_change_after_the_first_call_takes_effect() -> None:
    net, x = _perceptrons({}), _x()
    wide = (ROWS, 4 * WIDTH)
    before = _kept(net, x).count(wide)
    net[1].force_mirroring = True
    assert _kept(net, x).count(wide) == before * 2 // 3
    net[1].force_mirroring = None
    assert _kept(net, x).count(wide) == before
    with mx.AttrScope(force_mirroring="True"):  # around the call: a graph of its own
        assert wide not in _kept(net, x)
    assert _kept(net, x).count(wide) == before
    net.force_mirroring = True
    assert wide not in _kept(net, x)


def test_an_equal_value_records_nothing_anew() -> None:
    net, x = _three(), mx.np.ones((2, 4))
    net[0].force_mirroring = True
    net.hybridize()
    net(x)
    graphs = list(net._graphs.values())
    net[0].force_mirroring = True
    net(x)
    assert list(net._graphs.values()) == graphs


def test_a_hybridized_child_of_an_imperative_block_that_says_it() -> None:
    class Outer(mx.gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.inner = _perceptrons({})

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    net = Outer()
    wide = (ROWS, 4 * WIDTH)
    assert wide in _kept(net, _x())
    net.force_mirroring = True
    assert wide not in _kept(net, _x())


def test_a_block_called_twice_is_two_stretches() -> None:
    class Twice(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Dense(4, in_units=4)

        def forward(self, x: Any) -> Any:
            return self.one(self.one(x))

    net = Twice()
    net.initialize()
    net.one.force_mirroring = True
    net.hybridize()
    with mx.autograd.record():
        net(mx.np.ones((2, 4)))
    (graph,) = net._graphs.values()
    assert [p.stop for p in graph.call.policy.arrange(graph.call.graph)] == [1, 2]


def test_imperative_calls_and_deferred_shapes_are_unaffected() -> None:
    net = nn.Dense(2, activation="tanh")
    net.initialize(mx.init.One())
    net.force_mirroring = True
    x = mx.np.ones((1, 3))
    with mx.autograd.record():
        y = net(x)  # its shape is found here
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), np.tanh([[3.0, 3.0]]), rtol=1e-6)
    np.testing.assert_allclose(net.bias.grad().asnumpy(), 1 - np.tanh([3.0, 3.0]) ** 2, rtol=1e-4)
    assert copy.deepcopy(net).force_mirroring is True


@pytest.mark.parametrize("value", ["True", 1, 0.0, [], mx.np.array(True)])
def test_what_a_block_cannot_say_is_refused(value: Any) -> None:
    net = nn.Dense(1, in_units=1)
    net.force_mirroring = False
    with pytest.raises(TypeError, match=r"Dense.force_mirroring is True \(computed again"):
        net.force_mirroring = value
    assert net.force_mirroring is False


@pytest.mark.parametrize("mirror", ["sublinear", "barriers"])
def test_a_policy_for_the_whole_network_says_that_it_decides(mirror: str) -> None:
    net = _three()
    net[1].force_mirroring = True
    net.hybridize(mirror=mirror)
    with pytest.warns(UserWarning, match=rf"is ignored by memonger.policy\('{mirror}'\)") as seen:
        net(mx.np.ones((2, 4)))
    assert seen[0].filename == __file__
