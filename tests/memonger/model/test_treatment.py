"""What the model says a backward pass needs at once: gradients, and what convolutions hold inside."""

from __future__ import annotations

from typing import Any

import mxjax as mx
from mxjax.gluon import nn
from mxjax.memonger.model.treatment import gradients
from mxjax.memonger.trials.session import training_chain

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
    flow = [f for f in gradients(chain, add, add + 2) if f[2]]
    # The given one until relu's turn; then relu's, which the sum gives to both convolutions.
    assert sorted((until, since) for until, since, _ in flow) == [
        (2 * add, 2 * add + 2),
        (2 * add + 2, 2 * add + 4),
    ]


def test_the_weight_of_a_convolution_of_signals_is_made_of_whole_rows() -> None:
    """One row whose patches are larger than a piece: it is not cut."""
    net = nn.HybridSequential()
    net.add(
        nn.Conv1D(16, 1, in_channels=16),
        nn.Activation("relu"),
        nn.Conv1D(16, 3, padding=1, in_channels=16),
    )
    net.initialize()
    chain = training_chain(net, (mx.np.zeros((8, 16, 9216)),))
    assert chain.prices[-1].space[2] >= 0
