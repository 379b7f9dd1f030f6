"""What is computed again comes just before it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

from mxjax.core import keep_barriers
from mxjax.memonger.arrangement.in_place import _flat, _Writes
from mxjax.memonger.arrangement.late import late

N = 512
MATRIX = jax.ShapeDtypeStruct((N, N), "float32")


def _late(fn: Callable[..., Any], residuals: int, count: int) -> Any:
    flat = _flat(jax.make_jaxpr(fn)(*[MATRIX] * count))
    return late(flat, residuals, _Writes(flat.jaxpr, ()).arrays)


def _made(closed: Any) -> list[str]:
    return [e.primitive.name for e in closed.jaxpr.eqns]


def _again(x: Any, w: Any, g: Any) -> Any:
    """Two results are computed again, of which the first to be read is made second."""
    a, b = lax.tanh(x @ w), lax.sin(x @ w.T)
    first = (g * b) @ w
    second = (first * a) @ w
    return second, first.T @ second


def test_costly_work_waits_for_the_gradients_before_it() -> None:
    found = _late(_again, 2, 3)
    names = _made(found)
    (at,) = [k for k, name in enumerate(names) if name == "optimization_barrier"]
    assert names[:at].count("dot_general") == 2  # of what is read first, and the gradient made of it
    assert "tanh" in names[at:] and "sin" in names[:at]
    shapes = [v.aval.shape for v in found.jaxpr.eqns[at].outvars]
    assert shapes == [(N, N)] * 3  # the two operands, and the gradient


def test_its_values_are_the_same() -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=(N, N)).astype("float32") / 20 for _ in range(3)]
    found = jax.jit(jaxpr_as_fun(_late(_again, 2, 3)))(*arrays)
    for got, expected in zip(found, jax.jit(_again)(*arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("residuals", [0, 3], ids=["all gradients", "no gradient"])
def test_nothing_waits_where_there_is_nothing_to_wait_for(residuals: int) -> None:
    assert "optimization_barrier" not in _made(_late(_again, residuals, 3))


def test_small_work_does_not_wait() -> None:
    def fn(x: Any, w: Any, g: Any) -> Any:
        return ((g * lax.sin(x[:8] @ w)[:1]) @ w * lax.tanh(x[:8] @ w.T)[:1]) @ w

    assert "optimization_barrier" not in _made(_late(fn, 2, 3))


def test_barriers_stay_where_they_are() -> None:
    def fn(x: Any, w: Any, g: Any) -> Any:
        x, g = lax.optimization_barrier((x, g @ w))
        return (g * lax.sin(x @ w)) @ w

    names = _made(_late(fn, 2, 3))
    assert names.index("optimization_barrier") == 1


def test_what_has_effects_keeps_its_place() -> None:
    def fn(x: Any, w: Any, g: Any) -> Any:
        jax.debug.callback(lambda: None, ordered=True)
        a = lax.sin(x @ w)
        return (g @ w * a) @ w

    names = _made(_late(fn, 2, 3))
    assert names[0] == "debug_callback" and "optimization_barrier" in names


@pytest.mark.skipif(jax.devices()[0].platform != "cpu", reason="the order of work of XLA's CPU backend")
def test_it_takes_an_array_less() -> None:
    """Computed again at once, each of the products would wait for its turn."""

    def fn(x: Any, g: Any, *ws: Any) -> Any:
        again = [lax.sin(x @ w) for w in ws]
        for a, w in zip(again, ws, strict=True):
            g = (g * a) @ w
        return g

    def temp(run: Callable[..., Any]) -> int:
        compiled = jax.jit(run).lower(*[MATRIX] * 8).compile(keep_barriers("cpu"))
        return int(compiled.memory_analysis().temp_size_in_bytes)

    def ordered(x: Any, *rest: Any) -> Any:
        (*ws, g) = rest
        return fn(x, g, *ws)

    assert temp(jaxpr_as_fun(_late(ordered, 7, 8))) <= 3.1 * N * N * 4
