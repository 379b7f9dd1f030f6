"""Segments: the same numbers, and the bytes and flops of compiled training steps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, memonger
from mxjax.gluon import nn
from mxjax.memonger.arrangement.parts import ALL, Arranged, Part
from mxjax.memonger.model.liveness import Liveness
from mxjax.memonger.model.segment_search import price
from mxjax.memonger.model.segments import _peaks, least
from tests.memonger import networks

NAMES = ["sublinear", "nested", "recursive"]


def _graph(net: Any, *inputs: Any) -> Any:
    with autograd.train_mode():
        return net.graph(*inputs)


# ---- numbers -----------------------------------------------------------------------------------------


def _trained(mirror: Any) -> tuple[list[np.ndarray], Any]:
    net = networks.residual_network(4, channels=2, dropout=0.5)
    net.hybridize(mirror=mirror)
    training = networks.Training(net, *networks.batch(4, 8))
    found = training.run(1)
    params = net.collect_params().values()
    grads = [p.grad().asnumpy() for p in params if p.grad_req != "null"]
    return [*grads, *found], net


@pytest.fixture(scope="module")
def plain() -> list[np.ndarray]:
    return _trained(False)[0]


@pytest.mark.parametrize(
    "name", ["nested", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n != "nested")]
)
def test_gradients_losses_parameters_and_statistics_are_the_same(
    name: str, plain: list[np.ndarray]
) -> None:
    found, net = _trained(name)
    graph = _graph(net, networks.batch(4, 8)[0])
    assert any(
        part.keep != ALL for part in memonger.policy(name).arrange(graph)
    )  # something is computed again
    scale = max(np.abs(a).max() for a in plain)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * scale)


def test_statistics_move_once_per_step() -> None:
    net = nn.HybridSequential()
    for _ in range(3):
        net.add(nn.BatchNorm(in_channels=2, momentum=0.9), nn.Activation("tanh"))
    net.initialize()
    # The first BatchNorm is computed three times.
    parts = [Part(4, frozenset(), (Part(2, frozenset(), (Part(1), Part(2))), Part(4))), Part(6)]
    net.hybridize(mirror=Arranged(lambda graph: parts, "nested"))
    x = mx.np.array(np.array([[1.0, 2.0], [3.0, 6.0]], "float32"))
    with autograd.record():
        y = net(x).sum()
    y.backward()
    # 0.9 * 0 + 0.1 * mean of the batch
    np.testing.assert_allclose(net[0].running_mean.data().asnumpy(), [0.2, 0.4], rtol=1e-6)


# ---- bytes and flops ---------------------------------------------------------------------------------


def _cost(mirror: Any, blocks: int, freeze: bool = False, rows: int = 512) -> memonger.Measured:
    """A training step of perceptrons on rows of 32: what crosses a block's end has 64 KiB where they are 512."""
    net = networks.perceptrons(blocks, 32)
    if freeze:
        for p in list(net.collect_params().values())[:-4]:
            p.grad_req = "null"
    net.hybridize(mirror=mirror)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    x = mx.np.zeros((rows, 32))

    def step() -> None:
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)

    return memonger.rehearse(step, net, trainer)


@pytest.fixture(scope="module")
def kept() -> memonger.Measured:
    return _cost("barriers", 16)


# What is computed again at most: a forward pass is a third of a step's arithmetic.
@pytest.mark.parametrize(
    ("name", "bytes_left", "least", "most"),
    [
        pytest.param("sublinear", 0.25, 1.12, 4 / 3, marks=pytest.mark.slow),
        ("nested", 0.20, 1.4, 2.0),
        pytest.param("recursive", 0.20, 1.4, 1 + 4 / 3, marks=pytest.mark.slow),
    ],
)
def test_less_memory_for_arithmetic(
    name: str, bytes_left: float, least: float, most: float, kept: memonger.Measured
) -> None:
    found = _cost(name, 16)
    assert found.temp_bytes <= bytes_left * kept.temp_bytes
    assert least <= found.flops / kept.flops <= most * 1.01


def test_gradients_of_parameters_do_not_wait_for_the_end(kept: memonger.Measured) -> None:
    """Block by block two dense layers' gradients (32 KiB) and their inputs: the rest is ends, 64 KiB each."""
    found = _cost(Arranged(lambda g: [Part(p) for p in Liveness(g).places[1:]], "each"), 16)
    inside = kept.temp_bytes / 16
    assert found.temp_bytes <= 16 * 512 * 32 * 4 + 3 * inside


def test_what_waits_in_the_room_of_gradients_is_free() -> None:
    """64 rows: what crosses has 8 KiB, two gradients of each block 16 KiB. Each block is a segment, and the bytes
    do not grow with the depth; a segment of one block need not make its result again."""
    few, many = (_cost("sublinear", n, rows=64) for n in (4, 12))
    assert many.temp_bytes <= 1.05 * few.temp_bytes
    plain = _cost("barriers", 12, rows=64)
    assert many.temp_bytes <= 0.2 * plain.temp_bytes  # half as deep, so twice the share
    # Of a forward pass, a third of the arithmetic, half is done again.
    assert many.flops <= 1.01 * 7 / 6 * plain.flops


def test_no_gradient_is_computed_that_nobody_wants() -> None:
    frozen = _cost("barriers", 6, freeze=True)
    forward = 6 * 2 * (2 * 512 * 32 * 128)
    # The last block's weights, and the way to the first of its two layers.
    assert frozen.flops <= 1.15 * (forward + 3 * (2 * 512 * 32 * 128))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "law"), [("sublinear", np.sqrt), ("nested", np.sqrt), ("recursive", np.log2)]
)
def test_laws_of_growth(name: str, law: Any) -> None:
    depths = np.array([8, 16, 32, 64])
    temp = np.array([_cost(name, int(n)).temp_bytes for n in depths])
    basis = np.stack([np.ones(4), law(depths)], 1)
    (base, factor), *_ = np.linalg.lstsq(basis, temp, rcond=None)
    assert factor > 0 and base > 0
    np.testing.assert_allclose(basis @ [base, factor], temp, rtol=0.05)


# ---- where to cut ------------------------------------------------------------------------------------


def test_residual_blocks_come_out_whole() -> None:
    graph = _graph(networks.residual_network(8, channels=2), networks.batch(2, 16)[0])
    live = Liveness(graph)
    for p in live.places[1:-1]:
        before, after = (s.scope.split("/")[0] for s in graph.steps[p - 1 : p + 1])
        assert before != after
    assert (
        live.size - 1 == 8
    )  # the first convolution is with the first block, the last layers with the last


class Skips(nn.HybridBlock):
    """Dense layers with tanh; the first result is added to the last but one."""

    def __init__(self) -> None:
        super().__init__()
        for k in range(5):
            setattr(self, f"d{k}", nn.Dense(8, in_units=8, use_bias=False))

    def forward(self, x: Any) -> Any:
        a = mx.np.tanh(self.d0(x))
        y = a
        for k in range(1, 4):
            y = mx.np.tanh(getattr(self, f"d{k}")(y))
        return mx.np.tanh(self.d4(y + a))


def test_what_crosses_and_what_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mxjax.memonger.model.liveness.COARSE", 2.0
    )  # a layer and its tanh are a stretch
    net = Skips()
    net.initialize()
    net.setattr("grad_req", "add")  # such a gradient's buffer holds nothing else
    graph = _graph(net, mx.np.zeros((4, 8)))
    live = Liveness(graph)
    row = 4 * 8 * 4
    end = live.size - 1
    # After tanh of d0: only `a` crosses. After the sum: that alone.
    assert live.places == [0, 2, 9, 11]
    assert live.kept[0, 1] == live.kept[0, 2] == live.kept[1, 2] == row
    # Each dense needs its input, each tanh its result; the network's own result is no one's to keep.
    # JAX 0.12 keeps tanh's derivative, 1 - y * y, too; XLA computes it where it is read, in as many bytes as before.
    assert live.inside[0, end] == 5 * row
    assert live.kept[0, end] == 0
    products = 5 * 2 * 4 * 8 * 8  # and a bias and a tanh for each of their results, or so
    assert products < live.flops[0, end] < 1.3 * products


def test_results_wait_where_gradients_will_be() -> None:
    def crossing(rows: int, change: Any = None) -> list[int]:
        net = networks.perceptrons(6, 4)
        if change is not None:
            change(net)
        live = Liveness(_graph(net, mx.np.zeros((rows, 4))))
        return [int(live.kept[0, k]) for k in range(1, 6)]

    def accumulate(net: Any) -> None:
        net.setattr("grad_req", "add")

    def freeze(net: Any) -> None:
        for k in range(0, 6, 2):
            net[k].setattr("grad_req", "null")

    # Two weights of 256 bytes a block; what crosses has 16 bytes a row.
    assert crossing(16) == [0] * 5
    assert crossing(17) == [17 * 16] * 5
    assert crossing(16, accumulate) == [256] * 5  # the gradient's room holds what is added to
    assert crossing(16, freeze) == [
        256,
        0,
        0,
        0,
        0,
    ]  # the first has none before it, the others two blocks' two


# ---- the least peak ----------------------------------------------------------------------------------


def test_no_cuts_are_better() -> None:
    net = nn.HybridSequential()
    for width in (
        16,
        4,
        4,
        32,
        8,
        64,
        8,
        8,
    ):  # of two layers each: a place must hold back more than twice its bytes
        net.add(nn.Dense(width, activation="tanh"), nn.Dense(width, activation="tanh"))
    net.initialize()
    live = Liveness(_graph(net, mx.np.zeros((64, 16))))
    end = live.size - 1
    assert 5 <= end <= 12
    every = [
        price(live, (*cuts, end)).peak
        for n in range(end)
        for cuts in itertools.combinations(range(1, end), n)
    ]
    assert int(_peaks(live, live.inside)[0, end]) == min(every) < live.peak
    ends = tuple(live.places.index(p.stop) for p in least(live, 1))
    assert price(live, ends).peak == min(every)


def test_deeper_nesting_holds_less() -> None:
    live = Liveness(_graph(networks.perceptrons(32, 4), mx.np.zeros((64, 4))))
    peaks = [live.inside]
    for _ in range(3):
        peaks.append(_peaks(live, peaks[-1]))
    values = [int(p[0, -1]) for p in peaks]
    assert values == sorted(values, reverse=True) and values[3] < 0.6 * values[1]
    # With k ends kept and l levels a chain of binomial(k + l, l) blocks can be run (revolve).
    block = int(live.inside[1, 2])
    end = int(live.kept[0, 1])
    for levels, kept in ((2, 7), (3, 5)):
        assert values[levels] <= block + kept * end


def test_parts_cover_the_graph_in_order() -> None:
    live = Liveness(_graph(networks.perceptrons(24, 4), mx.np.zeros((64, 4))))
    n = len(live.chain.graph.steps)

    def walk(parts: Any, start: int, stop: int) -> int:
        depth = 0
        for p in parts:
            assert p.stop > start
            if p.parts:
                depth = max(depth, walk(p.parts, start, p.stop))
            start = p.stop
        assert start == stop and parts[-1].keep == ALL
        return depth + 1

    depths = [walk(memonger.policy(name).arrange(live.chain.graph), 0, n) for name in NAMES]
    assert depths[0] == 1 and depths[1] == 3 and 3 <= depths[2] <= 5
