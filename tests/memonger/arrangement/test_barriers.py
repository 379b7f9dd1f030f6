"""The order of the backward pass: what is tied together where a side branch begins."""

from __future__ import annotations

from typing import Any

import pytest

import mxjax as mx
from mxjax.gluon import nn
from mxjax.memonger.arrangement.barriers import branches
from mxjax.memonger.trials.session import training_chain


class Branched(nn.HybridBlock):
    """A way around as wide as what it goes around, as in a residual network's first blocks."""

    def __init__(self, around_first: bool):
        super().__init__()
        self.around_first = around_first
        self.around = nn.Conv2D(128, 1, in_channels=16, use_bias=False)
        self.body = nn.HybridSequential()
        for size, channels in ((16, 16), (16, 128)):
            self.body.add(
                nn.Conv2D(channels, 1, in_channels=size, use_bias=False),
                nn.BatchNorm(in_channels=channels),
            )
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
