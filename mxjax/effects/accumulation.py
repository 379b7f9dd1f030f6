"""What sums are kept in while they grow: wider than their dtype, or in it alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..core.calls.call import Call
from ..ops.table import Op

Fn = Callable[..., Any]

_WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}


def accumulating(call: Call, fn: Fn, how: str | None) -> Fn:
    """The operator's function with its sums kept as `how` says: None leaves it as it is."""
    name = call.name.partition("@")[0]
    sums = call.row.precision.sums if isinstance(call.row, Op) else None
    if how == "wide" and sums == "axes":
        return _wide(fn, _WIDER)
    if how == "wide" and sums == "products":
        return _wide(fn, {k: v for k, v in _WIDER.items() if v == "float32"})
    if how == "narrow" and name in ("sum", "mean"):
        return _narrow_sum(call, fn, name == "mean")
    if how == "narrow" and name in ("FullyConnected", "dot"):
        return _narrow_product(fn, transposed=name == "FullyConnected")
    return fn


def _wide(fn: Fn, wider: dict[str, str]) -> Fn:
    def run(*args: Any) -> Any:
        promised = jax.eval_shape(fn, *args)
        out = fn(*[a.astype(wider[str(a.dtype)]) if str(a.dtype) in wider else a for a in args])
        return jax.tree_util.tree_map(lambda o, p: o.astype(p.dtype), out, promised)

    return run


def _narrow_sum(call: Call, fn: Fn, mean: bool) -> Fn:
    """One number after the other is added, in the operand's dtype."""
    attrs = dict(call.attrs)

    def run(x: Any, *rest: Any) -> Any:
        promised = jax.eval_shape(fn, x, *rest)
        if rest or attrs.get("exclude") or not jnp.issubdtype(x.dtype, jnp.floating):
            return fn(x, *rest)
        axis = attrs.get("axis")
        axes = (
            range(x.ndim)
            if axis is None or axis == ()
            else (axis,)
            if isinstance(axis, int)
            else axis
        )
        axes = tuple(k % x.ndim for k in axes)
        rows = jnp.moveaxis(x, axes, range(len(axes)))
        kept = rows.shape[len(axes) :]
        rows = rows.reshape(-1, *kept)
        total, _ = jax.lax.scan(lambda s, row: (s + row, None), jnp.zeros(kept, x.dtype), rows)
        total = total.reshape(promised.shape).astype(promised.dtype)
        return total / rows.shape[0] if mean else total

    return run


def _narrow_product(fn: Fn, transposed: bool) -> Fn:
    """The sum over the shared axis, rounded at each step; of two matrices in 16 bits."""

    def run(a: Any, b: Any, *rest: Any) -> Any:
        promised = jax.eval_shape(fn, a, b, *rest)
        flat = a.reshape(a.shape[0], -1) if transposed and promised.ndim == 2 else a
        columns = b.T if transposed else b
        fits = flat.ndim == 2 and columns.ndim == 2 and flat.shape[1] == columns.shape[0]
        if (
            not fits
            or promised.dtype.itemsize != 2
            or promised.shape != (flat.shape[0], columns.shape[1])
        ):
            return fn(a, b, *rest)
        start = jnp.zeros(promised.shape, promised.dtype)
        pairs = flat.T.astype(promised.dtype), columns.astype(promised.dtype)
        total, _ = jax.lax.scan(
            lambda s, pair: (s + pair[0][:, None] * pair[1], None), start, pairs
        )
        return total + rest[0] if transposed and rest else total

    return run
