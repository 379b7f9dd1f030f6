"""Arithmetic that XLA counts once though a loop repeats it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from mxjax.memonger.trials.hlo import repeated
from mxjax.memonger.trials.measure import counts


def _compiled(fn: Any, *shapes: tuple[int, ...]) -> Any:
    return jax.jit(fn).lower(*[jax.ShapeDtypeStruct(s, "float32") for s in shapes]).compile()


@pytest.mark.parametrize("turns", [1, 2, 10])
def test_products(turns: int) -> None:
    found = _compiled(lambda x: lax.fori_loop(0, turns, lambda k, y: y @ x, x), (64, 64))
    assert counts(found)["flops"] + repeated(found) == pytest.approx(2 * 64**3 * turns, rel=1e-3)


def test_loops_in_loops() -> None:
    def inner(y: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda k, y: y @ x, y)

    found = _compiled(lambda x: lax.fori_loop(0, 5, lambda k, y: inner(y, x), x), (64, 64))
    assert counts(found)["flops"] + repeated(found) == pytest.approx(2 * 64**3 * 15, rel=1e-3)


@pytest.mark.parametrize(
    ("pads", "stride", "dilation", "base"),
    [
        ([(1, 2), (0, 1)], (1, 1), (1, 1), (1, 1)),
        ([(1, 1), (1, 1)], (2, 2), (2, 1), (1, 1)),
        ([(-1, 2), (2, 1)], (1, 1), (1, 1), (2, 2)),
    ],
    ids=["padded", "strided", "cut and spread"],
)
def test_convolutions(pads: Any, stride: Any, dilation: Any, base: Any) -> None:
    """As XLA counts one of them: what meets padding is nothing."""

    def convolution(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, stride, pads, base, dilation, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )  # fmt: skip

    def loop(x: Any, w: Any) -> Any:
        out = convolution(x, w)
        return lax.fori_loop(0, 4, lambda k, out: out + convolution(lax.optimization_barrier((x, out))[0], w), out)

    shapes = (2, 9, 8, 5), (3, 3, 5, 7)
    once = counts(_compiled(convolution, *shapes))["flops"]
    found = repeated(_compiled(loop, *shapes))
    assert found == pytest.approx(3 * once, rel=0.1) and found >= 3 * once


def test_without_loops_there_is_nothing() -> None:
    assert repeated(_compiled(lambda x: jnp.tanh(x @ x).sum(), (16, 16))) == 0


def test_of_a_loop_without_end_in_sight_one_turn_counts() -> None:
    found = _compiled(lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y @ y, x), (8, 8))
    assert repeated(found) == 0
