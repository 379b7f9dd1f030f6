"""A network whose files real MXNet ran (`tests/record/exported.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

import mxjax as mx
from mxjax.gluon import nn


class Attention(mx.gluon.HybridBlock):
    """Indices, joins, parts, products and choices, as forwards have them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 5)
        self.norm = nn.LayerNorm()
        self.dense = nn.Dense(6, flatten=False)

    def forward(self, x: Any) -> Any:
        y = self.dense(self.norm(self.embedding(x)))
        z = mx.np.concatenate([y[:, :2], y], axis=1)
        a, b = mx.np.split(z, 2, axis=-1)
        w = mx.npx.softmax(mx.np.matmul(a, b.transpose(0, 2, 1)) / 3.0)
        chosen = mx.np.where(w > 0.2, w, 0.0)
        order = mx.np.argsort(y[:, 0], axis=-1).astype("float32")
        return (
            chosen.mean(axis=-1) + y[:, -1].sum(axis=-1, keepdims=True),
            y[:, None, 0] * 2 + 1,
            order,
        )


def network() -> tuple[Any, Any]:
    """The network with its parameters, hybridized, and its input."""
    rs = np.random.RandomState(3)
    net = Attention()
    net.initialize()
    x = mx.np.array(rs.randint(0, 10, (2, 7)), dtype="float32")
    net(x)
    for p in net.collect_params().values():
        p.set_data(mx.np.array(rs.uniform(-1, 1, p.shape), dtype="float32"))
    net.hybridize()
    return net, x
