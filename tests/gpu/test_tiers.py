"""What is compiled when: small code by NumPy until it comes back, large code and hybridized networks as programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.run.constants import FETCHED

SMALL, LARGE = 100, 2 * FETCHED


def counts() -> dict[str, Any]:
    mx.waitall()
    return mx.engine.stats()


@pytest.fixture(autouse=True)
def from_zero(card: Any, measured: None) -> None:
    mx.waitall()
    mx.engine.reset()


def expression(x: Any, number: float) -> float:
    y = mx.np.sqrt(x * number + 1.5)
    return float((y - y.mean()).sum())


def test_small_code_that_runs_once_compiles_nothing(card: Any) -> None:
    for n in range(10, 20):
        expression(mx.np.ones(n), 2.0)
    found = counts()
    assert found["compiled"] == 0 and found["interpreted"] > 0


def test_small_code_in_a_loop_is_compiled_once(card: Any) -> None:
    x = mx.np.ones(SMALL)
    for _ in range(20_000):
        expression(x, 2.0)
        if mx.engine.stats()["compiled"]:
            break
    for _ in range(100):
        expression(x, 2.0)
    found = counts()
    assert 1 <= found["compiled"] <= 3


def test_large_code_is_not_fetched(real_card: Any) -> None:
    x = mx.np.ones(LARGE)
    for _ in range(3):
        assert expression(x, 2.0) == pytest.approx(0, abs=1e-3 * LARGE)
    assert counts()["interpreted"] == 0


@pytest.mark.parametrize("layer", ["products", "convolutions"])
def test_products_are_compiled_quickly_at_first_and_convolutions_never(
    real_card: Any, layer: str
) -> None:
    net = (
        gluon.nn.Dense(128, in_units=1024)
        if layer == "products"
        else gluon.nn.Conv2D(8, 3, in_channels=3)
    )
    net.initialize()
    net.hybridize()
    x = mx.np.ones((4096, 1024) if layer == "products" else (64, 3, 64, 64))
    mx.waitall()
    mx.engine.reset()  # weights and images are made by programs of their own
    for _ in range(3):
        net(x).wait_to_read()
    assert counts()["quick"] == (layer == "products")


def test_a_hybridized_network_is_one_program(card: Any) -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(256, in_units=256, activation="relu"), gluon.nn.Dense(256, in_units=256))
    net.initialize()
    net.hybridize()
    x = mx.np.ones((256, 256))
    net.optimize_for(x)
    mx.waitall()
    mx.engine.reset()
    for _ in range(5):
        net(x).wait_to_read()
    found = counts()
    assert found["compiled"] <= 1 and found["programs"] == 5


def test_a_training_step_is_one_program(card: Any) -> None:
    mx.config.set({"engine.cold": "compile"})
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, in_units=32, activation="relu"), gluon.nn.Dense(8, in_units=64))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    x, y = mx.np.ones((16, 32)), mx.np.zeros((16, 8))
    losses = []
    for step in range(8):
        with autograd.record():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        trainer.step(16)
        losses.append(float(loss))
        if step == 3:
            mx.engine.reset()
    found = counts()
    assert found["compiled"] == 0 and found["programs"] == 4 and found["donated"] >= 4 * 4
    assert np.isfinite(losses).all() and losses[2] < losses[0]
