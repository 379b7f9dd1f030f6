"""Maxima and minima that keep NaN in programs of a CPU, and products with bools that keep it everywhere.

XLA:CPU hands reductions of 4,096 numbers and more, products of matrices, and what is element by element around them, to
YNNPACK, whose `max` and `min` lose NaN (jaxlib 0.10.2 to 0.12): `max(x)`, but `sum(maximum(x, 0))` as well. So the
element-wise ones are selections here, which YNNPACK does not take, and to reductions belongs a second one that keeps
NaN, a sum of signs: 0.22 ms for a million numbers in rows of 1,000 where `max` alone takes 0.06, LLVM's loops 0.85.

XLA makes a selection of the product of a converted bool and a number, on every platform: `(x > 0).astype(x.dtype) * x`
is 0 where x is NaN. A bool that is converted to a float is a selection of 1 and 0 here, which XLA leaves alone.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

#: XLA's own loops, which keep NaN, compute smaller reductions (below 4,096 numbers).
_LOOPS = 1024


def _larger(x: Any, y: Any) -> Any:
    x, y = jnp.broadcast_arrays(x, y)
    return lax.select((x >= y) | (x != x), x, y)


def _smaller(x: Any, y: Any) -> Any:
    x, y = jnp.broadcast_arrays(x, y)
    return lax.select((x <= y) | (x != x), x, y)


def _between(low: Any, x: Any, high: Any) -> Any:
    return _smaller(_larger(x, low), high)


def without_nan(x: Any, axes: tuple[int, ...]) -> Any:
    """The largest numbers along axes by the fastest code there is, which may leave out NaN."""
    least = -np.inf if jnp.issubdtype(x.dtype, np.floating) else jnp.iinfo(x.dtype).min
    return lax.reduce(x, np.asarray(least, x.dtype), lambda a, b: lax.max(a, b), axes)


def _nan_along(found: Any, x: Any, *, axes: tuple[int, ...], **_: Any) -> Any:
    """What was found along axes, and NaN where there is one."""
    wide = jnp.promote_types(x.dtype, np.float32)
    return _nan_where(jnp.sum(lax.sign(x), axes, dtype=wide), found)


def _nan_in_windows(found: Any, x: Any, **window: Any) -> Any:
    """The same of windows that do not overlap."""
    wide = jnp.promote_types(x.dtype, np.float32)
    return _nan_where(
        lax.reduce_window(lax.sign(x).astype(wide), np.zeros((), wide), lax.add, **window), found
    )


def _nan_where(signs: Any, found: Any) -> Any:
    return lax.select(signs != signs, jnp.full_like(found, np.nan), found)


def _apart(out: Any, window_dimensions: Any, window_strides: Any, **_: Any) -> bool:
    """Whether windows do not overlap: YNNPACK takes those alone."""
    return all(
        s >= w or n == 1
        for n, w, s in zip(out.shape, window_dimensions, window_strides, strict=True)
    )


def rules(mlir: Any) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` of a traced function takes for them."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo as hlo

    def rule_of(primitive: Any, fn: Any) -> tuple[Any, Any]:
        """Floats by the function, everything else as JAX has it."""
        own, others = mlir.lower_fun(fn, multiple_results=False), mlir._lowerings[primitive].rule

        def rule(ctx: Any, *xs: Any, **params: Any) -> Any:
            return (own if jnp.issubdtype(ctx.avals_in[0].dtype, jnp.floating) else others)(
                ctx, *xs, **params
            )

        return primitive, rule

    def mended(primitive: Any, fn: Any, where: Any) -> tuple[Any, Any]:
        """Floats as JAX has it and then, ``where`` YNNPACK may take it, by the function."""
        then, as_jax = mlir.lower_fun(fn, multiple_results=False), mlir._lowerings[primitive].rule

        def rule(ctx: Any, x: Any, **params: Any) -> Any:
            (of,), found = ctx.avals_in, as_jax(ctx, x, **params)
            if not (
                jnp.issubdtype(of.dtype, jnp.floating)
                and of.size >= _LOOPS
                and where(ctx.avals_out[0], **params)
            ):
                return found
            return then(ctx.replace(avals_in=[*ctx.avals_out, of]), *found, x, **params)

        return primitive, rule

    reduce_as_jax = mlir._lowerings[lax.reduce_p].rule

    def reduce(ctx: Any, *values: Any, **params: Any) -> Any:
        """The body of `without_nan` stays one operation."""
        if [eqn.primitive for eqn in params["jaxpr"].jaxpr.eqns] != [lax.max_p] or len(values) != 2:
            return reduce_as_jax(ctx, *values, **params)
        start = values[1]
        out = ir.RankedTensorType.get(ctx.avals_out[0].shape, start.type.element_type)
        made = hlo.ReduceOp([out], values[:1], [start], mlir.dense_int_array(params["dimensions"]))
        block = made.regions[0].blocks.append(start.type, start.type)
        with ir.InsertionPoint(block):
            hlo.return_([hlo.MaxOp(*block.arguments).result])
        return made.results

    return (
        rule_of(lax.max_p, _larger),
        rule_of(lax.min_p, _smaller),
        rule_of(lax.clamp_p, _between),
        mended(lax.reduce_max_p, _nan_along, lambda out, **_: True),
        mended(lax.reduce_min_p, _nan_along, lambda out, **_: True),
        mended(lax.reduce_window_max_p, _nan_in_windows, _apart),
        mended(lax.reduce_window_min_p, _nan_in_windows, _apart),
        (lax.reduce_p, reduce),
    )


def rules_of_bools(mlir: Any, others: Any = None) -> tuple[tuple[Any, Any], ...]:
    """What ``lower`` takes for conversions, on any platform; ``others`` converts what is no bool."""
    others = others or mlir._lowerings[lax.convert_element_type_p].rule

    def selected(x: Any, *, new_dtype: Any, **_: Any) -> Any:
        return lax.select(x, jnp.ones(x.shape, new_dtype), jnp.zeros(x.shape, new_dtype))

    own = mlir.lower_fun(selected, multiple_results=False)

    def convert(ctx: Any, x: Any, **params: Any) -> Any:
        of_bools = ctx.avals_in[0].dtype == np.bool_ and jnp.issubdtype(
            params["new_dtype"], jnp.inexact
        )
        return (own if of_bools else others)(ctx, x, **params)

    return ((lax.convert_element_type_p, convert),)


__all__ = ["rules", "rules_of_bools", "without_nan"]
