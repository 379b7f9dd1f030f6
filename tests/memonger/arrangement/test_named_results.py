"""A result that is kept is read by its name, also by the derivative of what made it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn
from mxjax.memonger.arrangement import named_results
from mxjax.memonger.arrangement.parts import Part, lower
from tests.memonger.arrangement.test_parts import _arrays, _loss_and_gradients


def _network(last: Any) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(6, in_units=6), last)
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net.graph(mx.np.zeros((3, 6)))


def _products(fn: Any, arrays: list[Any]) -> int:
    """Matrix products in the program of a loss and its gradients."""
    which = tuple(i for i, a in enumerate(arrays) if a.dtype == "float32")
    loss = jax.value_and_grad(lambda *a: (fn(*a)[0] ** 2).sum(), argnums=which)
    return str(jax.make_jaxpr(loss)(*arrays)).count("dot_general[")


class Function(nn.HybridBlock):
    def __init__(self, function: Any):
        super().__init__()
        self._function = function

    def forward(self, x: Any) -> Any:
        return self._function(x)


READ = {
    "relu": mx.npx.relu,
    "sigmoid": mx.npx.sigmoid,
    "tanh": mx.np.tanh,
    "exp": mx.np.exp,
    "softmax": lambda x: mx.npx.softmax(x, axis=0, temperature=2.0),
    "softmax within a length": lambda x: mx.npx.softmax(x, mx.np.array([2, 6, 3]), use_length=True),
    "masked_softmax": lambda x: mx.npx.masked_softmax(x, mx.np.arange(6) < 4),
}


@pytest.mark.parametrize("which", READ)
def test_what_is_kept_is_not_computed_again_for_its_own_derivative(which: str) -> None:
    """The product forward and two backward; the first again where the activation's result is not kept."""
    graph = _network(Function(READ[which]))
    arrays, n = _arrays(graph), len(graph.steps)
    (result,) = graph.outputs
    kept, lost = (lower(graph, [Part(n, k)]) for k in (frozenset({result}), frozenset()))
    assert _products(graph.run, arrays) == _products(kept, arrays) == 3
    assert _products(lost, arrays) == 4
    expected = _loss_and_gradients(graph.run, arrays)
    for a, b in zip(expected, _loss_and_gradients(kept, arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("keep", [{2}, {2, 5}, {0, 2, 5}, {1, 2, 3}])
def test_images_are_kept_with_their_channels_last(keep: set[int]) -> None:
    """Convolution, activation and pooling, the results 0, 1, 2 and 3, 4, 5 of which some are kept."""
    net = nn.HybridSequential()
    for channels in (3, 4):
        net.add(
            nn.Conv2D(4, 3, padding=1, in_channels=channels), nn.Activation("relu"), nn.MaxPool2D()
        )
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    with autograd.train_mode():
        graph = net.graph(mx.np.zeros((2, 3, 8, 8)))
    arrays = _arrays(graph)
    arranged = lower(graph, [Part(len(graph.steps), frozenset(keep))])
    expected = _loss_and_gradients(graph.run, arrays)
    for a, b in zip(expected, _loss_and_gradients(arranged, arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def test_second_derivatives_pass_a_name() -> None:
    graph = _network(Function(READ["tanh"]))
    arrays, n = _arrays(graph), len(graph.steps)
    kept = lower(graph, [Part(n, frozenset(graph.outputs))])
    which = next(i for i, a in enumerate(arrays) if a.shape == (3, 6))

    def second(fn: Any) -> np.ndarray:
        def loss(x: Any) -> Any:
            given = list(arrays)
            given[which] = x
            return (fn(*given)[0] ** 3).sum()

        return np.asarray(jax.grad(lambda x: (jax.grad(loss)(x) ** 2).sum())(arrays[which]))

    np.testing.assert_allclose(second(kept), second(graph.run), rtol=1e-5, atol=1e-6)


def test_a_call_is_looked_at_once_for_all_layers_alike() -> None:
    graph = _network(Function(READ["tanh"]))
    arrays, n = _arrays(graph), len(graph.steps)
    lower(graph, [Part(n, frozenset(graph.outputs))])(*arrays)
    before = named_results._pushed.cache_info().misses
    lower(graph, [Part(n, frozenset(graph.outputs))])(*arrays)
    assert named_results._pushed.cache_info().misses == before
