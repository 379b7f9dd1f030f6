"""Parts: the same numbers whatever is kept, and exactly that is kept."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import nn
from mxjax.memonger.arrangement.parts import ALL, MIRROR, Part, function, last_uses, lower, unit

KEEPS = [ALL, MIRROR, frozenset(), frozenset({2})]


def _graph() -> Any:
    """Four times tanh(dense): eight steps, results 0..7."""
    net = nn.HybridSequential()
    for _ in range(4):
        net.add(nn.Dense(6, activation="tanh", in_units=6))
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net.graph(mx.np.array(np.random.RandomState(0).randn(3, 6).astype("float32")))


def _arrays(graph: Any) -> list[Any]:
    rng = np.random.RandomState(1)
    return [
        np.int64(0) if a.dtype == "int64" else rng.randn(*a.shape).astype("float32")
        for a in graph.avals
    ]


def _loss_and_gradients(fn: Any, arrays: list[Any]) -> list[np.ndarray]:
    which = tuple(i for i, a in enumerate(arrays) if a.dtype == "float32")
    loss, grads = jax.value_and_grad(lambda *a: (fn(*a)[0] ** 2).sum(), argnums=which)(*arrays)
    return [np.asarray(loss), *map(np.asarray, grads)]


def _arrangements(n: int) -> list[list[Part]]:
    flat = [[Part(n // 2, k), Part(n, k)] for k in KEEPS]
    named = [[Part(n // 2, frozenset({0, 2})), Part(n, ALL)]]
    inner = (Part(n // 4, frozenset()), Part(n // 2, MIRROR))
    nested = [
        [Part(n // 2, frozenset(), inner), Part(n, frozenset(), (Part(3 * n // 4), Part(n, ALL)))]
    ]
    return flat + named + nested


@pytest.mark.parametrize("which", range(6))
def test_values_and_gradients_are_the_plain_ones(which: int) -> None:
    graph = _graph()
    parts = _arrangements(len(graph.steps))[which]
    arrays = _arrays(graph)
    plain = _loss_and_gradients(graph.run, arrays)
    arranged = _loss_and_gradients(lower(graph, parts), arrays)
    for a, b in zip(plain, arranged, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


def _kept(fn: Any, arrays: list[Any]) -> int:
    """Bytes that the derivative keeps besides the arguments."""
    which = [i for i, a in enumerate(arrays) if a.dtype == "float32"]

    def residuals(*args: Any) -> Any:
        def of(*diff: Any) -> Any:
            full = list(args)
            for i, d in zip(which, diff, strict=True):
                full[i] = d
            return fn(*full)

        _, pull = jax.vjp(of, *[args[i] for i in which])
        given = {id(a) for a in args}
        return [x for x in jax.tree_util.tree_leaves(pull) if id(x) not in given]

    return sum(r.size * r.dtype.itemsize for r in jax.eval_shape(residuals, *arrays))


def test_what_is_named_is_what_is_kept() -> None:
    graph = _graph()
    n = len(graph.steps)
    whole = unit(graph.steps, 0, n, last_uses(graph.steps, graph.outputs))
    shapes = {-1 - i: a for i, a in enumerate(graph.avals)}
    given = [shapes[i].struct for i in whole.takes]
    row = 3 * 6 * 4  # bytes of one result
    assert _kept(function(whole, frozenset()), given) == 0
    assert _kept(function(whole, frozenset({1})), given) == row
    assert _kept(function(whole, frozenset({1, 3})), given) == 2 * row
    assert _kept(function(whole, ALL), given) >= 4 * row


@pytest.mark.parametrize("nested", [False, True])
def test_of_statistics_a_segment_keeps_those_that_are_next_to_nothing(nested: bool) -> None:
    """BatchNorm's mean and variance are sums of 1024 elements each, LayerNorm's of 4."""
    net = nn.HybridSequential()
    for _ in range(2):
        net.add(nn.Dense(4, in_units=4, flatten=False), nn.BatchNorm(axis=-1, in_channels=4))
        net.add(nn.LayerNorm(in_channels=4))
    net.initialize()
    with autograd.train_mode():
        graph = net.graph(mx.np.zeros((1024, 4)))
    n = len(graph.steps)
    inner = (Part(n // 2), Part(n)) if nested else ()
    statistics = 2 * 2 * 4 * 4  # two blocks, mean and variance, four channels, four bytes
    assert _kept(lower(graph, [Part(n, frozenset(), inner)]), _arrays(graph)) == statistics


def test_nested_parts_keep_what_crosses_the_outer_ends_only() -> None:
    graph = _graph()
    n = len(graph.steps)
    inner = tuple(Part(k) for k in range(1, n // 2 + 1))
    arrays = _arrays(graph)
    flat = _kept(lower(graph, [Part(k) for k in range(1, n + 1)]), arrays)
    nested = _kept(lower(graph, [Part(n // 2, frozenset(), inner), Part(n)]), arrays)
    row = 3 * 6 * 4
    assert nested == row and flat >= (n - 1) * row


@pytest.mark.parametrize("first", ["plain", "arranged"])
def test_convolutions_are_lean_between_barriers_alone(first: str) -> None:
    net = nn.Conv2D(4, 3, in_channels=3)
    net.initialize()
    graph = net.graph(mx.np.zeros((2, 3, 8, 8)))

    def lean(fn: Any) -> bool:
        found = str(jax.make_jaxpr(fn)(*_arrays(graph)))
        assert "convolution[" in found
        return "lean=True" in found

    ways = {"plain": graph.run, "arranged": lower(graph, [Part(len(graph.steps), ALL)])}
    order = sorted(ways, key=lambda name: name != first)  # neither remembers the other's trace
    assert {name: lean(ways[name]) for name in order} == {"plain": False, "arranged": True}
