"""What tests of memory share, here and in tests/gpu: a chain of layers, a batch for it, and DTR for small arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import mxjax as mx
from mxjax import core
from mxjax.gluon import nn

LAYERS, WIDTH, BATCH = 8, 64, 512


def network(layers: int = LAYERS, width: int = WIDTH) -> nn.HybridSequential:
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(width, activation="tanh", in_units=width))
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net


def data(batch: int = BATCH, width: int = WIDTH) -> Any:
    return mx.np.array(np.random.RandomState(0).randn(batch, width).astype("float32"))


@contextmanager
def dtr_for_small_arrays() -> Iterator[None]:
    """DTR on without a limit, for small arrays too; off afterwards."""
    mx.waitall()
    mx.config.set(memory_dtr_evictee_minimum_size="1KB")
    mx.dtr.enable()
    mx.dtr.stats(reset=True)
    yield
    for name in ("auto_drop", "drop", "swap", "eviction_threshold", "evictee_minimum_size"):
        mx.config.reset(f"memory.dtr_{name}")
    mx.waitall()
    assert not core.hooks.memory_managers
