"""What the settings say of precision holds in every way in which an operator runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from tests.memonger.helpers import dtr_for_small_arrays
from tests.memonger.helpers import network as chain

X = np.random.RandomState(0).randn(8, 16).astype("float32")
OPTIONS = [{"precision_matmul": "bfloat16"}, {"precision_amp": "bfloat16"}]


def network(**hybridized: Any) -> Any:
    net = chain(layers=2, width=16)
    if hybridized:
        net.hybridize(**hybridized)
    return net


def step(net: Any) -> list[np.ndarray]:
    """The loss and the gradients."""
    with autograd.record():
        loss = (net(mx.np.array(X)) ** 2).mean()
    loss.backward()
    return [loss.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]]


def one_by_one() -> list[np.ndarray]:
    with mx.engine.bulk(1):
        return step(network())


def under_dtr() -> list[np.ndarray]:
    with dtr_for_small_arrays():
        return one_by_one()


def traced() -> list[np.ndarray]:
    net = network()
    return [np.asarray(jax.jit(lambda a: (net(a) ** 2).mean().jax)(X))]


WAYS: dict[str, Callable[[], list[np.ndarray]]] = {
    "hybridized": lambda: step(network(active=True)),
    "mirrored": lambda: step(network(mirror=True)),
    "nested": lambda: step(network(mirror="nested")),
    "one_by_one": one_by_one,
    "under_dtr": under_dtr,
    "traced": traced,
}


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("way", WAYS)
def test_every_way_computes_in_as_many_bits(way: str, options: dict[str, str]) -> None:
    exact = step(network())
    with mx.config.scope(engine_cold="compile", **options):
        want, found = step(network()), WAYS[way]()
    # Numbers of bfloat16 differ by 4e-3 of their size, sums in another order by 1e-6.
    assert all(np.abs(a - b).max() > 1e-5 for a, b in zip(want, exact, strict=True))
    for a, b in zip(found, want, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_the_backward_pass_of_a_loop_too(options: dict[str, str]) -> None:
    """It takes what the forward pass kept, in a network that is not hybridized."""

    def losses(hybridize: bool) -> list[np.ndarray]:
        net = gluon.nn.HybridSequential()
        net.add(gluon.rnn.LSTM(16, input_size=16))
        mx.random.seed(3)
        net.initialize(mx.init.Xavier())
        if hybridize:
            net.hybridize()
        with autograd.record():
            loss = (net(mx.np.array(X.reshape(4, 2, 16))) ** 2).mean()
        loss.backward()
        return [p.grad().asnumpy() for p in net.collect_params().values()]

    exact = losses(False)
    with mx.config.scope(engine_cold="compile", **options):
        rounded = losses(False), losses(True)
    for a, b, c in zip(*rounded, exact, strict=True):
        assert np.abs(a - c).max() > 1e-6
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


def test_what_was_compiled_before_is_not_used() -> None:
    net = network(mirror=True)
    exact = step(net)
    with mx.config.scope(precision_matmul="bfloat16"):
        rounded = step(net)
    again = step(net)
    assert np.abs(rounded[1] - exact[1]).max() > 1e-5
    np.testing.assert_allclose(again[1], exact[1], rtol=1e-5, atol=1e-7)
