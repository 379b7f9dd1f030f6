"""Calls that reduce axes: sums, extremes, their places; softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import model
from .calls import Draft, Row, add, arithmetic
from .model import Array, Refused, Wide, cast, contracted, elementwise, is_float, moved


def axes_of(g: Any, x: Array) -> Any:
    return g.rng.choice([None, *range(-x.val.ndim, x.val.ndim)]) if x.val.ndim else None


def normal(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(not -ndim <= a < ndim for a in axes):
        raise Refused("no such axis")
    return tuple(a % ndim for a in axes)


def total(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    axes = normal(axis, x.val.ndim)
    if not is_float(x.dtype):
        dtype = np.dtype("int64") if x.dtype == bool else x.dtype
        return Array(np.asarray(x.val.sum(axis=axes, keepdims=keepdims, dtype=dtype)), None, dtype)
    letters = "abcdefgh"[: x.val.ndim]
    made = contracted(
        letters + "->" + "".join(c for k, c in enumerate(letters) if k not in axes), x
    )
    if not keepdims:
        return made
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    return moved(lambda v: v.reshape(shape), made)


def average(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    n = int(np.prod([x.shape[a] for a in normal(axis, x.val.ndim)]))
    return elementwise(lambda v: v / n if n else v / Wide(0), total(x, axis, keepdims), ulps=2)


def mean(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """MXNet's is float32, whatever the array."""
    return cast(average(x if is_float(x.dtype) else cast(x, "float32"), axis, keepdims), "float32")


def extreme(largest: bool) -> Any:
    def apply(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        axes = normal(axis, x.val.ndim)
        if any(x.shape[a] == 0 for a in axes) or not x.val.size:
            raise Refused("of nothing")
        rest = [k for k in range(x.val.ndim) if k not in axes]

        def flat(v: Any) -> Any:
            return np.transpose(v, [*rest, *axes]).reshape([x.shape[k] for k in rest] + [-1])

        val = flat(x.val)
        at = np.expand_dims((np.argmax if largest else np.argmin)(val, axis=-1), -1)
        shape = (
            tuple(1 if k in axes else n for k, n in enumerate(x.shape))
            if keepdims
            else tuple(x.shape[k] for k in rest)
        )
        unsure = None
        if x.err is not None:
            err = flat(x.err)
            best = np.take_along_axis(val, at, -1)
            with np.errstate(invalid="ignore"):
                near = (
                    (np.abs(val - best) <= 2 * err.max(-1, keepdims=True))
                    | np.isnan(val)
                    | (val == best)
                )
            near &= near.sum(-1, keepdims=True) > 1
            order = [*rest, *axes]
            unsure = near.reshape([x.shape[k] for k in order]).transpose(np.argsort(order))
        made = moved(lambda v: np.take_along_axis(flat(v), at, -1).reshape(shape), x, unsure=unsure)
        if x.err is not None:
            made.err[...] = err.max(-1).reshape(shape)
        return made

    return apply


def _places(largest: bool) -> Any:
    def apply(x: Array, axis: Any = None) -> Array:
        if not x.val.size:
            raise Refused("of nothing")
        if not x.exact:
            val = np.sort(x.val, axis=axis)
            n = val.shape[-1 if axis is None else axis]
            ends = (
                val.take([n - 2, n - 1] if largest else [0, 1], axis=-1 if axis is None else axis)
                if n > 1
                else val
            )
            gap = np.diff(ends, axis=-1 if axis is None else axis)
            if n > 1 and not (gap > 2 * x.err.max()).all():
                raise model.Ambiguous
        return Array(
            np.asarray((np.argmax if largest else np.argmin)(x.val, axis=axis)),
            None,
            np.dtype("int64"),
        )

    return apply


def reduction(
    names: str,
    apply: Any,
    wants: Any = None,
    keepdims: bool = True,
    weight: float = 1.0,
    **row: Any,
) -> None:
    def draw(g: Any) -> Draft | None:
        x = g.array(wants)
        if x is None:
            return None
        attrs = {"axis": axes_of(g, g.of(x))}
        if keepdims and g.rng.random() < 0.3:
            attrs["keepdims"] = True
        return (x,), attrs

    for name in names.split():
        add(Row(name, apply, draw, weight=weight, **row))


def _no_nan(a: Array) -> bool:
    return not (is_float(a.dtype) and np.isnan(a.val).any())


def deviation(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    off = arithmetic(np.subtract)(x, average(x, axis, True))
    return average(elementwise(lambda v: v * v, off), axis, keepdims)


def product(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    axes = normal(axis, x.val.ndim)
    if x.val.size > 24:
        raise model.Ambiguous
    if not is_float(x.dtype):
        dtype = np.dtype("int64") if x.dtype == bool else x.dtype
        return Array(np.asarray(x.val.prod(axis=axes, keepdims=keepdims, dtype=dtype)), None, dtype)
    rest = [k for k in range(x.val.ndim) if k not in axes]
    shape = tuple(x.shape[k] for k in rest)
    flat = moved(
        lambda v: np.transpose(v, [*rest, *axes]).reshape(
            [*shape, int(np.prod([x.shape[a] for a in axes]))]
        ),
        x,
    )
    made = model.array(np.ones(shape), x.dtype)
    for k in range(flat.shape[-1]):
        made = elementwise(np.multiply, made, moved(lambda v, k=k: v[..., k], flat))
    final = tuple(1 if k in axes else n for k, n in enumerate(x.shape)) if keepdims else shape
    return moved(lambda v: v.reshape(final), made)


reduction("np.sum .sum", total, weight=1.5)
reduction("np.mean .mean", mean)
reduction("np.max .max", extreme(True), weight=0.7)
reduction("np.min", extreme(False), weight=0.7)
reduction("np.argmax .argmax", _places(True), wants=_no_nan, keepdims=False, weight=0.4)
reduction("np.argmin", _places(False), wants=_no_nan, keepdims=False, weight=0.4)
reduction("np.prod", product, weight=0.5)
reduction("np.var", deviation, wants=lambda a: is_float(a.dtype), weight=0.4, taped=False)
reduction(
    "np.any",
    lambda x, axis=None, keepdims=False: Array(
        np.asarray(x.val.any(axis=axis, keepdims=keepdims)), None, np.dtype(bool)
    ),
    wants=lambda a: a.exact and _no_nan(a),
    weight=0.3,
)
reduction(
    "np.all",
    lambda x, axis=None, keepdims=False: Array(
        np.asarray(x.val.all(axis=axis, keepdims=keepdims)), None, np.dtype(bool)
    ),
    wants=lambda a: a.exact and _no_nan(a),
    weight=0.3,
)


def _cumsum(x: Array, axis: Any = None) -> Array:
    if axis is None:
        x, axis = moved(np.ravel, x), 0
    if not is_float(x.dtype):
        dtype = np.dtype("int64") if x.dtype == bool else x.dtype
        return Array(np.cumsum(x.val, axis=axis, dtype=dtype), None, dtype)
    n = x.shape[axis]
    upper = model.array(np.triu(np.ones((n, n))), x.dtype)
    letters = "abcdefgh"[: x.val.ndim]
    at = letters[axis]
    return contracted(f"{letters},{at}z->{letters.replace(at, 'z')}", x, upper)


reduction(
    "np.cumsum",
    _cumsum,
    wants=lambda a: a.exact or np.isfinite(a.val).all(),
    keepdims=False,
    weight=0.6,
)


def _norm(x: Array) -> Array:
    return elementwise(np.sqrt, total(elementwise(lambda v: v * v, x)), ulps=2)


add(
    Row(
        "np.linalg.norm",
        _norm,
        lambda g: (x := g.array(lambda a: is_float(a.dtype) and a.val.size)) and ((x,), {}),
        weight=0.4,
    )
)


def softmax(x: Array, axis: int = -1) -> Array:
    if not is_float(x.dtype):
        raise Refused("not for integers")
    normal(axis, x.val.ndim)
    largest = np.max(x.val, axis=axis, keepdims=True)
    e = elementwise(lambda v: np.exp(v - largest), x, ulps=8)
    return arithmetic(lambda a, b: a / b, ulps=4)(e, total(e, axis, True))


def log_softmax(x: Array, axis: int = -1) -> Array:
    if not is_float(x.dtype):
        raise Refused("not for integers")
    largest = np.max(x.val, axis=axis, keepdims=True)
    off = elementwise(lambda v: v - largest, x)
    e = elementwise(np.exp, off, ulps=8)
    return arithmetic(np.subtract)(off, elementwise(np.log, total(e, axis, True), ulps=8))


def _draw_softmax(g: Any) -> Draft | None:
    x = g.array(
        lambda a: (
            is_float(a.dtype) and a.val.ndim > 0 and a.val.size > 0 and np.isfinite(a.val).all()
        )
    )
    return x and ((x,), {"axis": g.rng.choice([-1, 0])})


add(Row("npx.softmax", softmax, _draw_softmax))
add(Row("npx.log_softmax", log_softmax, _draw_softmax))
