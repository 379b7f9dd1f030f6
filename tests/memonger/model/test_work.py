"""What the model says a backward pass needs at once: gradients, what is computed again, and copies."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from jax import lax

import mxjax as mx
from mxjax.core import keep_barriers
from mxjax.gluon import nn
from mxjax.memonger.arrangement import in_place
from mxjax.memonger.model.price import price
from mxjax.memonger.trials.session import training_chain
from mxjax.ops.lowering import convolution

BATCH = 8
SIZE = BATCH * 64 * 16 * 16 * 4  # bytes of an image of 64 channels


def _chain(*layers: Any) -> Any:
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize()
    return training_chain(net, (mx.np.zeros((BATCH, 16, 16, 16)),))


def _conv(channels: int, of: int) -> Any:
    return nn.Conv2D(channels, 1, in_channels=of, use_bias=False)


def _named(chain: Any, name: str) -> int:
    return next(at for at, s in enumerate(chain.steps) if s.call.name == name)


def test_gradients_take_the_place_of_what_is_there() -> None:
    chain = _chain(_conv(64, 16), nn.BatchNorm(in_channels=64), nn.Activation("relu"), _conv(16, 64))
    norm, relu = chain.prices[_named(chain, "BatchNorm")], chain.prices[_named(chain, "Activation")]
    assert (0, 0) in norm.passed and norm.over == {(0, 0)}
    assert relu.passed == {(0, 0)} and not relu.over
    # The second convolution's operand is there for its weight's gradient, before its own comes. That is in one place
    # down to the first convolution, whose result is given.
    at = _named(chain, "BatchNorm")
    assert chain.treat(at, at + 3, frozenset()).work == pytest.approx(SIZE + SIZE // 4, rel=0.01)


def test_a_small_gradient_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "WORTH", 2 * SIZE)
    chain = _chain(_conv(64, 16), nn.BatchNorm(in_channels=64, epsilon=0.25), nn.Activation("relu"), _conv(16, 64))
    norm = chain.prices[_named(chain, "BatchNorm")]
    assert not norm.passed and not norm.over


class Sum(nn.HybridBlock):
    """relu of a sum of two convolutions' results."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = _conv(64, 16), _conv(64, 16), _conv(16, 64)

    def forward(self, x: Any) -> Any:
        x = mx.npx.relu(x)
        return self.last(mx.npx.relu(self.left(x) + self.right(x)))


def test_a_gradient_that_is_passed_on_twice_is_one_array() -> None:
    chain = _chain(Sum())
    add = _named(chain, "add")
    own = range(chain.steps[add].first, chain.steps[add + 1].first + 1)
    flow = [f for f in chain._flow(add, add + 2, own, {}) if f[2]]
    # relu gives it to the sum, and that to both convolutions: from the end to the beginning.
    assert [(until, since) for until, since, _ in flow] == [(2 * add, 2 * (add + 2))]


@pytest.fixture
def volumes_of_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of volumes as XLA computes them, not as images whose channels are planes."""

    def own(x: Any, w: Any, bias: Any, stride: Any, dilate: Any, pad: Any, groups: int, first: bool, lean: bool) -> Any:
        plan = convolution.PLAIN
        return convolution._last(x, w, bias, stride, dilate, pad, groups, "cpu", plan, first, lean)

    monkeypatch.setattr(convolution, "_by_planes", own)


@pytest.mark.usefixtures("volumes_of_xla")
def test_a_convolution_of_xlas_own_copies_both_operands_for_its_weight() -> None:
    """XLA works channels last, images first."""
    x, w = (8, 16, 4, 24, 96), (16, 16, 3, 3, 3)
    net = nn.HybridSequential()
    net.add(nn.Conv3D(16, 1, in_channels=16), nn.Conv3D(16, 3, padding=1, in_channels=16, use_bias=False))
    net.initialize()
    chain = training_chain(net, (mx.np.zeros(x),))
    nbytes = 4 * 8 * 16 * 4 * 24 * 96
    assert chain.prices[-1].space[2] == 2 * nbytes
    assert chain.prices[-1].space[1] < nbytes / 8
    step = chain.steps[-1]
    avals = [chain.avals[i] for i in step.args]
    assert price(step.call, avals, (True, True), "tpu").space[2] == 0  # other backends choose their own order

    def gradient(x: Any, g: Any) -> Any:
        given = lax.optimization_barrier((x * 2.0, g * 2.0))
        dims = ("NDHWC", "OIDHW", "NDHWC")
        run = lambda w: lax.conv_general_dilated(given[0], w, (1, 1, 1), "SAME", dimension_numbers=dims)  # noqa: E731
        return jax.linear_transpose(run, jax.ShapeDtypeStruct(w, "float32"))(given[1])

    last = jax.ShapeDtypeStruct((8, 4, 24, 96, 16), "float32")
    compiled = jax.jit(gradient).lower(last, last).compile(keep_barriers("cpu"))
    if jax.devices()[0].platform == "cpu":  # when the second is copied the first has gone
        assert compiled.memory_analysis().temp_size_in_bytes >= 3 * nbytes


@pytest.mark.usefixtures("volumes_of_xla")
def test_what_is_computed_again_for_a_weight_alone_is_made_in_the_order_of_the_copy() -> None:
    shape = (8, 16, 4, 24, 96)
    net = nn.HybridSequential()
    net.add(nn.Conv3D(16, 1, in_channels=16), nn.Activation("relu"))
    net.add(nn.Conv3D(16, 3, padding=1, in_channels=16, use_bias=False))
    net.initialize()
    chain = training_chain(net, (mx.np.zeros(shape),))
    nbytes = 4 * 8 * 16 * 4 * 24 * 96
    relu = _named(chain, "Activation")
    kept = frozenset([chain.steps[relu].first])
    again, there = (chain.treat(relu, relu + 2, keep).work for keep in (frozenset(), kept))
    # The given gradient, and copies of both; relu's result besides where it waits.
    assert again == pytest.approx(3 * nbytes, rel=0.01)
    assert there == pytest.approx(4 * nbytes, rel=0.01)

    def gradient(x: Any, g: Any) -> Any:
        x, g = lax.optimization_barrier((x, g * 2.0))
        dims = ("NDHWC", "OIDHW", "NDHWC")
        run = lambda w: lax.conv_general_dilated(jax.nn.relu(x), w, (1, 1, 1), "SAME", dimension_numbers=dims)  # noqa: E731
        return jax.linear_transpose(run, jax.ShapeDtypeStruct((16, 16, 3, 3, 3), "float32"))(g)

    if jax.devices()[0].platform == "cpu":
        last = jax.ShapeDtypeStruct((8, 4, 24, 96, 16), "float32")
        compiled = jax.jit(gradient).lower(last, last).compile(keep_barriers("cpu"))
        assert compiled.memory_analysis().temp_size_in_bytes < 3.1 * nbytes


class Squares(nn.HybridBlock):
    """A product of a result with itself, which is read for its own gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(16, in_units=16, use_bias=False)

    def forward(self, x: Any) -> Any:
        x = self.dense(mx.npx.relu(x))
        return mx.np.matmul(x, x)


def test_only_what_is_read_for_a_parameter_goes_before_the_gradient_comes() -> None:
    net = Squares()
    net.initialize()
    chain = training_chain(net, (mx.np.zeros((16, 16)),))
    dense, product = _named(chain, "FullyConnected"), _named(chain, "matmul")
    assert chain._is_for_weight(chain.steps[dense].args[0], dense)
    assert not chain._is_for_weight(chain.steps[product].args[0], product)


def test_the_weight_of_a_convolution_of_signals_is_made_of_whole_rows() -> None:
    """One row whose patches are larger than a piece: it is not cut."""
    net = nn.HybridSequential()
    net.add(nn.Conv1D(16, 1, in_channels=16), nn.Activation("relu"), nn.Conv1D(16, 3, padding=1, in_channels=16))
    net.initialize()
    chain = training_chain(net, (mx.np.zeros((8, 16, 9216)),))
    assert chain.prices[-1].space[2] >= 0
