"""Images stay channels last between calls: the same numbers, and nothing is turned in between."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core import images, jaxprs
from mxjax.core.compile.program import run_steps
from mxjax.gluon import nn
from mxjax.memonger.arrangement.parts import ALL, Part, lower


class Mixed(nn.HybridBlock):
    """Calls through which an image goes as it is, and some before which it must be turned back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2D(4, 3, padding=1, in_channels=3),
            nn.Conv2D(4, 1, in_channels=4),
        )
        self.norm, self.pool = nn.BatchNorm(in_channels=4), nn.MaxPool2D(3, 2, 1)
        self.third = nn.Conv2D(2, 3, in_channels=8)

    def forward(self, x: Any) -> Any:
        x = mx.npx.relu(self.norm(self.first(x)))
        y = mx.npx.leaky_relu(self.second(x), act_type="gelu") + 0.5 * x
        y = mx.np.concatenate([y, x], axis=1)
        y = mx.np.where(y > 0.1, y, mx.np.exp(-y))
        y = mx.np.pad(self.pool(y), ((0, 0), (1, 0), (0, 1), (0, 0)))[:, 1:]
        z = self.third(y)
        shares = (
            z.mean(axis=(1, 3)).reshape(-1),
            z.max(axis=1),
            z.sum(axis=-2),
            z.transpose(0, 3, 1, 2),
        )
        return sum(mx.np.square(s).mean() for s in shares) + mx.npx.softmax(z, axis=1)[:, 0].sum()


def _graph(net: Any, *shape: int, dtype: str = "float32") -> tuple[Any, list[Any]]:
    mx.random.seed(3)
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    x = mx.np.array(np.random.RandomState(0).randn(*shape), dtype=dtype)
    with mx.autograd.train_mode():
        graph = net.graph(x)
    rng = np.random.RandomState(1)
    with jax.enable_x64(True):
        return graph, [
            jnp.asarray(np.abs(rng.randn(*a.shape)).astype(a.dtype)) for a in graph.avals
        ]


def _plain(graph: Any) -> Any:
    """The graph's calls one after the other, each with its channels second."""

    def run(*arrays: Any) -> tuple[Any, ...]:
        n = len(graph.avals)
        env = run_steps(graph.steps, arrays[:n], arrays[n:])
        return tuple(env[k] if k >= 0 else arrays[-1 - k] for k in graph.outputs)

    return run


def _found(fn: Any, arrays: list[Any]) -> list[np.ndarray]:
    which = tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")
    with jax.enable_x64(True):
        of = jax.value_and_grad(lambda *a: fn(*a)[0].sum(), argnums=which)
        loss, grads = jax.jit(of)(*arrays)
    return [np.asarray(loss), *map(np.asarray, grads)]


@functools.cache
def _mixed(height: int, width: int) -> tuple[Any, list[Any], list[np.ndarray]]:
    """The graph of `Mixed` on two images of this size, its arrays, and its plain loss and gradients."""
    # In float64: sums in another order differ in the last digits.
    graph, arrays = _graph(Mixed(), 2, 3, height, width, dtype="float64")
    return graph, arrays, _found(_plain(graph), arrays)


@pytest.mark.parametrize("parts", [[5], [2, 7], [1, 2, 3, 4, 5, 6, 8, 9]])
@pytest.mark.parametrize(
    "keep", [pytest.param(ALL, marks=pytest.mark.slow), frozenset(), frozenset({0, 3})]
)
def test_values_and_gradients_are_the_plain_ones(parts: list[int], keep: Any) -> None:
    graph, arrays, plain = _mixed(8, 9)
    arranged = lower(graph, [Part(n, keep) for n in (*parts, len(graph.steps))])
    _same(plain, _found(arranged, arrays))


@pytest.mark.parametrize("size", [(8, 9), (5, 5)])
def test_so_are_those_of_a_graph_by_itself(size: tuple[int, int]) -> None:
    graph, arrays, plain = _mixed(*size)
    _same(plain, _found(graph.run, arrays))


def _same(expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    # A bias before BatchNorm has a gradient of zero: what sums leave of it is below the last digit of the others.
    last = 1e-16 * max(np.abs(a).max() for a in expected[1:])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=last)


@pytest.mark.programs
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_step_gives_what_its_calls_give_one_by_one(hybrid: bool) -> None:
    """Losses and gradients of a training step, beside those of the graph's calls under JAX."""
    net = Mixed()
    net.initialize()
    net.cast("float64")
    graph, arrays, (_, *grads) = _mixed(8, 9)
    if hybrid:
        net.hybridize()
    for name, a in zip(graph.inputs, arrays, strict=True):
        if name in net.collect_params():
            net.collect_params()[name].set_data(mx.np.array(np.asarray(a), dtype="float64"))
    x = mx.np.array(np.asarray(arrays[0]), dtype="float64")
    x.attach_grad()
    with mx.autograd.record():
        loss = net(x)
    loss.backward()
    of = dict(
        zip(
            [n for n, a in zip(graph.inputs, arrays, strict=True) if a.dtype.kind == "f"],
            grads,
            strict=True,
        )
    )
    learnt = {
        n: p.grad().asnumpy() for n, p in net.collect_params().items() if p.grad_req != "null"
    }
    _same([of[n] for n in learnt] + [of[graph.inputs[0]]], [*learnt.values(), x.grad.asnumpy()])


def test_all_results_of_a_graph_are_as_they_are_elsewhere() -> None:
    class Two(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2D(4, 3, in_channels=3)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            return y, mx.npx.relu(y), y > 0

    graph, arrays = _graph(Two(), 2, 3, 5, 6)
    arranged = lower(graph, [Part(len(graph.steps), ALL)])
    for a, b in zip(graph.run(*arrays), arranged(*arrays), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-6)


def test_no_images_at_all() -> None:
    graph, arrays = _graph(Mixed(), 0, 3, 8, 9)
    out = jax.jit(lower(graph, [Part(len(graph.steps), ALL)]))(*arrays)
    assert out[0].shape == jax.jit(graph.run)(*arrays)[0].shape


def test_only_the_batch_and_the_result_are_turned() -> None:
    """Of a stack of convolutions and what stands between them no result changes its order."""
    net = nn.HybridSequential()
    for k in range(3):
        net.add(nn.Conv2D(4, 3, padding=1, in_channels=4 if k else 3))
        net.add(nn.BatchNorm(in_channels=4), nn.Activation("relu"))
    net.add(nn.MaxPool2D(2), nn.Conv2DTranspose(4, 2, 2, in_channels=4), nn.Activation("relu"))
    graph, arrays = _graph(net, 2, 3, 8, 8)
    ends = [Part(n, ALL) for n in range(3, len(graph.steps), 3)] + [Part(len(graph.steps), ALL)]

    def turned(fn: Any) -> int:
        """How many arrays of the batch's length change their order."""
        with core.compiler.for_platform("cpu"):
            jaxpr = jax.make_jaxpr(lambda *a: fn(*a))(*arrays).jaxpr
        large = [
            e.outvars[0].aval.shape for e in _equations(jaxpr) if e.primitive.name == "transpose"
        ]
        return sum(len(shape) == 4 and shape[0] == 2 for shape in large)

    assert turned(lower(graph, ends)) == 2
    assert turned(graph.run) == 2
    assert (
        turned(_plain(graph)) == 10
    )  # before and after each convolution, the pooling, and the transposed convolution


def _equations(jaxpr: Any) -> Iterator[Any]:
    for e in jaxpr.eqns:
        yield e
        for inner in jaxprs.bodies(e.params):
            yield from _equations(inner)


def test_where_one_call_turns_images_nothing_is_arranged() -> None:
    graph, _ = _graph(nn.Conv2D(4, 1, in_channels=3), 2, 3, 8, 9)
    with core.compiler.for_platform("cpu"):
        assert not images.are_made(graph.steps) and images.are_made(graph.steps * 2)
    with core.compiler.for_platform("gpu"):
        assert not images.are_made(graph.steps * 2)


def test_elsewhere_than_on_a_cpu_nothing_is_touched() -> None:
    graph, arrays = _graph(nn.Conv2D(4, 1, in_channels=3), 2, 3, 8, 9)
    (step,) = graph.steps
    operands = [arrays[-1 - i] for i in step.args]
    with core.compiler.for_platform("cpu"):
        found = images.run(step.call, operands)
    assert isinstance(found, images.Image) and found.last.shape == (2, 8, 9, 4)
    with core.compiler.for_platform("gpu"):
        assert images.run(step.call, operands).shape == (2, 4, 8, 9)
