"""BatchNorm's derivatives, which its lowering words so that they ask for few sums and keep little."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core import compiler
from mxjax.ops.nn import batch_norm

SHAPE, EPS = (4, 3, 5, 2), 1e-3
KEPT = {
    "plain": nullcontext,
    "short of memory": compiler.short_of_memory,
    "all kept": lambda: compiler.short_of_memory(all_kept=True),
}


def ours(x: Any, gamma: Any, beta: Any) -> Any:
    zeros, ones = jnp.zeros_like(beta), jnp.ones_like(beta)
    return batch_norm(x, gamma, beta, zeros, ones, eps=EPS, fix_gamma=False, is_train=True)


def textbook(x: Any, gamma: Any, beta: Any) -> Any:
    """Ioffe and Szegedy 2015, algorithm 1."""
    mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / jnp.sqrt(var + EPS) * gamma[:, None, None] + beta[:, None, None]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("away", [0.0, 1e3])
def test_derivatives_of_both_orders_are_the_textbooks(kept: str, away: float) -> None:
    rng = np.random.RandomState(3)
    with jax.enable_x64(True):
        arrays = [
            jnp.asarray(rng.randn(*s) + a) for s, a in ((SHAPE, away), ((3,), 1.0), ((3,), 0.0))
        ]
        ct, second = (
            jnp.asarray(rng.randn(*SHAPE)),
            [jnp.asarray(rng.randn(*a.shape)) for a in arrays],
        )

        def twice(fn: Any) -> Any:
            def first(*given: Any) -> Any:
                return jax.grad(lambda *a: (fn(*a) * ct).sum(), argnums=(0, 1, 2))(*given)

            return first(*arrays), jax.vjp(first, *arrays)[1](tuple(second))

        with KEPT[kept]():
            found, moved = jax.jit(lambda: (twice(lambda *a: ours(*a)[0]), ours(*arrays)[-2:]))()
        expected = jax.jit(lambda: twice(textbook))()
        for a, b in zip(*map(jax.tree_util.tree_leaves, (found, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10 * np.abs(b).max())
        x = np.asarray(arrays[0])
        np.testing.assert_allclose(moved[0], 0.1 * x.mean((0, 2, 3)), rtol=1e-12)
        np.testing.assert_allclose(moved[1], 0.9 + 0.1 * x.var((0, 2, 3)), rtol=1e-9)


def test_the_derivative_asks_for_two_sums_over_the_data() -> None:
    """Those of the gradient, and of its product with the centred data: beta's and gamma's own gradients."""
    x, v = jax.ShapeDtypeStruct(SHAPE, "float32"), jax.ShapeDtypeStruct((3,), "float32")

    def backward(x: Any, gamma: Any, beta: Any, ct: Any) -> Any:
        return jax.vjp(lambda *a: ours(*a)[0], x, gamma, beta)[1](ct)

    text = jax.jit(backward).lower(x, v, v, x).compile().as_text()
    over_all = [
        line
        for line in text.splitlines()
        if " reduce(" in line and "f32[3]" in line.split(" reduce(")[0]
    ]
    assert len(over_all) == 2 + 2  # the mean and the variance are sums as well
