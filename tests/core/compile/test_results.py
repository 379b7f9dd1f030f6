"""Results that a program goes on with in another shape: made once, with NumPy's numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.core import hooks
from mxjax.core.compile import results

ROWS, COLUMNS = 600, 512  # more numbers than `results._LEAST`


def scores(x: Any, bias: Any) -> tuple[Any, Any]:
    """A result, and what is computed of it in another shape."""
    made = jax.lax.dot(x, x.T[:, :COLUMNS]) + bias
    out = made.reshape(20, -1, COLUMNS)
    return out, jnp.exp(out.reshape(-1, COLUMNS)).sum(1)


def additions(fn: Callable[..., Any], *args: Any) -> int:
    text = jax.jit(fn).lower(*args).compile().as_text() or ""
    return len(re.findall(rf"= f32\[(?:{ROWS}|20,30),{COLUMNS}\]\S* add\(", text))


def arrays(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.RandomState(0)
    return r.rand(rows, 64).astype("float32") / 8, r.rand(COLUMNS).astype("float32")


def test_made_once() -> None:
    x, bias = arrays()
    made = results.made_once(jax.make_jaxpr(scores)(x, bias))
    assert made is not None
    assert additions(made, x, bias) == 1
    out, sums = jax.jit(made)(x, bias)
    wide = x.astype("float64")
    want = wide @ wide[:COLUMNS].T + bias
    np.testing.assert_allclose(out, want.reshape(20, -1, COLUMNS), rtol=1e-5)
    np.testing.assert_allclose(sums, np.exp(want).sum(1), rtol=1e-5)


def same_shape(x: Any, bias: Any) -> tuple[Any, Any]:
    made = jax.lax.dot(x, x.T[:, :COLUMNS]) + bias
    return made, jnp.exp(made).sum(1)


def not_read(x: Any, bias: Any) -> Any:
    return (jax.lax.dot(x, x.T[:, :COLUMNS]) + bias).reshape(20, -1, COLUMNS)


def product(x: Any, bias: Any) -> tuple[Any, Any]:
    made = jax.lax.dot(x, x.T[:, :COLUMNS])
    return made.reshape(20, -1, COLUMNS), (made + bias).sum(1)


def number(x: Any, bias: Any) -> tuple[Any, ...]:
    """A number in another shape is a result, as the thresholds of quantized operators are."""
    return jax.lax.reshape(np.float32(0.5), (1,)), x + bias[0]


@pytest.mark.parametrize("fn", [same_shape, not_read, product, number])
def test_others_stay(fn: Callable[..., Any]) -> None:
    assert results.made_once(jax.make_jaxpr(fn)(*arrays())) is None


def test_small_ones_stay() -> None:
    x, bias = (a[:, :16] if a.ndim > 1 else a[:40] for a in arrays(40))
    fn = lambda x, b: (  # noqa: E731
        (made := jax.lax.dot(x, x.T) + b).reshape(20, 2, 40),
        jnp.exp(made.reshape(2, -1)).sum(),
    )
    assert results.made_once(jax.make_jaxpr(fn)(x, bias)) is None


def test_a_dense_layer_and_its_loss() -> None:
    """In a training step the scores are written by one loop, and they and the gradients are NumPy's."""
    texts: list[str] = []

    def hear(name: str, device: Any, compiled: Any, options: Any) -> None:
        texts.append(compiled.as_text())

    x, bias = arrays()
    layer: Any = gluon.nn.Dense(COLUMNS, flatten=False, in_units=64)
    layer.initialize(mx.init.Normal(0.1))
    layer.bias.set_data(mx.np.array(bias))
    layer.hybridize()
    label = np.arange(ROWS) % COLUMNS
    hooks.compile_listeners.append(hear)
    with ExitStack() as stack:
        stack.callback(hooks.compile_listeners.remove, hear)
        stack.enter_context(mx.config.scope(engine_cold="compile"))
        data, labels = mx.np.array(x.reshape(20, 30, 64)), mx.np.array(label, dtype="int32")
        with mx.autograd.record():
            out = layer(data)
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(out.reshape(-1, COLUMNS), labels)
        loss.backward()
        got = [a.asnumpy() for a in (out, loss, layer.weight.grad(), layer.bias.grad())]
        weight = layer.weight.data().asnumpy().astype("float64")
    want = x.astype("float64") @ weight.T + bias
    e = np.exp(want - want.max(1, keepdims=True))
    slope = e / e.sum(1, keepdims=True)
    losses = -np.log(slope[np.arange(ROWS), label])
    slope[np.arange(ROWS), label] -= 1
    expected = want.reshape(20, 30, -1), losses, slope.T @ x, slope.sum(0)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    (text,) = [t for t in texts if f"f32[{ROWS},{COLUMNS}]" in t]
    assert len(re.findall(rf"= f32\[(?:{ROWS}|20,30),{COLUMNS}\]\S* exponential\(", text)) == 1


def test_a_result_has_a_dying_inputs_place() -> None:
    """JAX refused: it took the result of a layout constraint for one of any layout."""
    with mx.config.scope({"engine.cold": "compile"}):
        numbers = np.random.RandomState(3).rand(700, 512).astype("float32")
        x = mx.np.array(numbers)
        y = x * 2 + 1
        other, total = y.reshape(512, 700), (y * y).sum()
        del x
        want = numbers * 2 + 1
        np.testing.assert_allclose(other.asnumpy(), want.reshape(512, 700), rtol=1e-6)
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-6)
        np.testing.assert_allclose(float(total), (want.astype("float64") ** 2).sum(), rtol=1e-5)
