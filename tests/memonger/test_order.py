"""The order of the backward pass, by bytes and by the gradients themselves."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.core import keep_barriers
from mxjax.gluon import nn
from mxjax.memonger._order import branches, fork
from mxjax.memonger._session import training_chain

RNG = np.random.default_rng(11)
SHAPES = [(8, 64, 64), (64, 1, 257, 3), (1, 509, 48), (521, 127), (16384,), (0, 5), (), (3,)]


def _twice(x: Any, w: Any, apart: Any) -> Any:
    a, b = apart(x)
    return (jnp.sin(a) * w).sum() + (jnp.exp(-b * b) / (1 + w * w)).sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_a_sum(shape: tuple[int, ...]) -> None:
    x, w = (jnp.asarray(RNG.normal(size=shape), jnp.float32) for _ in range(2))

    def gradients(apart: Any) -> Any:
        first = jax.grad(_twice, (0, 1))
        return jax.jit(lambda x, w: (first(x, w, apart), jax.grad(lambda x: first(x, w, apart)[0].sum())(x)))(x, w)

    leaves = [jax.tree_util.tree_leaves(gradients(apart)) for apart in (fork, lambda x: (x, x))]
    for got, expected in zip(*leaves, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(jax.devices()[0].platform != "cpu", reason="other backends of XLA reuse the place of an operand")
def test_a_sum_takes_no_third_place() -> None:
    """Both gradients and their sum lie between products and barriers: three arrays, or two where they are added so."""
    n = 512
    size = n * n * 4
    struct = jax.ShapeDtypeStruct((n, n), "float32")

    def loss(x: Any, w: Any, apart: Any) -> Any:
        a, b = (lax.optimization_barrier(y) for y in apart(lax.optimization_barrier(x @ w[0])))
        return (a @ w[1] * w[2]).sum() + (b @ w[3] * w[4]).sum()

    def temp(apart: Any) -> int:
        step = jax.jit(lambda x, *w: jax.grad(loss)(x, w, apart))
        compiled = step.lower(*[struct] * 6).compile(keep_barriers("cpu"))
        return int(compiled.memory_analysis().temp_size_in_bytes)

    assert temp(fork) <= temp(lambda x: (x, x)) - size // 2


class Branched(nn.HybridBlock):
    """A way around as wide as what it goes around, as in a residual network's first blocks."""

    def __init__(self, around_first: bool):
        super().__init__()
        self.around_first = around_first
        self.around = nn.Conv2D(128, 1, in_channels=16, use_bias=False)
        self.body = nn.HybridSequential()
        for size, channels in ((16, 16), (16, 128)):
            self.body.add(nn.Conv2D(channels, 1, in_channels=size, use_bias=False), nn.BatchNorm(in_channels=channels))
        self.norm = nn.BatchNorm(in_channels=128)

    def forward(self, x: Any) -> Any:
        x = mx.npx.relu(x)
        if self.around_first:
            around = self.norm(self.around(x))
            return mx.npx.relu(self.body(x) + around)
        return mx.npx.relu(self.body(x) + self.norm(self.around(x)))


def _chain(around_first: bool) -> Any:
    net = Branched(around_first)
    net.initialize()
    return net, training_chain(net, [mx.np.zeros((8, 16, 16, 16))])


@pytest.mark.parametrize("around_first", [False, True])
def test_side_branches_are_tied(around_first: bool) -> None:
    _, chain = _chain(around_first)
    steps = chain.steps
    wanted = {s.first for s in steps}
    readers = [at for at, s in enumerate(steps) if steps[0].first in s.args]
    assert len(readers) == 2
    # Where the second branch begins: what both read, and the end of the first.
    tied = branches(steps, wanted)
    assert [at for at, t in enumerate(tied) if t] == [readers[1]]
    assert tied[readers[1]] == (steps[0].first, steps[readers[1] - 1].first)
    assert branches(steps, {steps[0].first}) == [()] * len(steps)


def test_a_residual_sum_is_no_branch() -> None:
    class Block(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(8, in_units=8), nn.Dense(8, in_units=8))

        def forward(self, x: Any) -> Any:
            x = mx.npx.relu(x)
            return self.body(x) + x

    net = Block()
    net.initialize()
    chain = training_chain(net, [mx.np.zeros((4, 8))])
    assert not any(branches(chain.steps, {s.first for s in chain.steps}))
