"""Sorting, and products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import model
from .calls import TABLE, Draft, Row, add
from .model import Ambiguous, Array, Refused, contracted, is_float, moved
from .moves import some_axis
from .reductions import average


def _sort(x: Array, axis: int = -1) -> Array:
    order = np.argsort(x.val, axis=axis, kind="stable")
    unsure = None
    if x.err is not None:
        val = np.take_along_axis(x.val, order, axis)
        with np.errstate(invalid="ignore"):
            near = ~(np.abs(np.diff(val, axis=axis)) > 2 * x.err.max(initial=0))
        ends = [(0, 0)] * x.val.ndim
        ends[axis] = (0, 1)
        unsure = np.pad(near, ends)
        ends[axis] = (1, 0)
        unsure |= np.pad(near, ends)
        unsure = np.take_along_axis(unsure, np.argsort(order, axis=axis), axis)
    made = moved(lambda v: np.take_along_axis(v, order, axis), x, unsure=unsure)
    if x.err is not None and x.val.size:
        made.err[...] = x.err.max(axis=axis, keepdims=True)
    return made


def _argsort(x: Array, axis: int = -1) -> Array:
    order = np.argsort(x.val, axis=axis, kind="stable")
    val = np.take_along_axis(x.val, order, axis)
    if (
        val.size
        and x.shape[axis] > 1
        and not (np.diff(val, axis=axis) > (2 * x.err.max() if x.err is not None else 0)).all()
    ):
        raise Ambiguous
    return Array(order, None, np.dtype("int64"))


def sortable(a: Array) -> bool:
    return a.dtype != bool and not (is_float(a.dtype) and np.isnan(a.val).any())


for _name, _apply in (("np.sort", _sort), ("np.argsort", _argsort)):
    add(
        Row(
            _name,
            _apply,
            lambda g: (x := some_axis(sortable)(g)) and ((x,), {"axis": g.rng.choice([-1, 0])}),
            weight=0.6,
        )
    )


def _topk(x: Array, k: int, ret_typ: str, axis: int = -1) -> Array:
    if k > x.shape[axis]:
        raise Refused("fewer than k")
    rows = moved(lambda v: np.flip(v, axis), _sort(x, axis))
    return moved(lambda v: v.take(np.arange(k), axis=axis), rows)


add(
    Row(
        "npx.topk",
        _topk,
        lambda g: (
            (
                x := some_axis(
                    lambda a: (
                        is_float(a.dtype) and a.val.size > 0 and sortable(a) and a.shape[-1] > 1
                    )
                )(g)
            )
            and ((x,), {"k": 2, "ret_typ": "value", "axis": -1})
        ),
        weight=0.5,
    )
)


def _unique(x: Array) -> Array:
    if not x.exact:
        raise Ambiguous
    val = np.unique(x.val)
    return model.array(val, x.dtype)


add(
    Row(
        "np.unique",
        _unique,
        lambda g: (x := g.array(lambda a: a.exact and a.val.size and sortable(a))) and ((x,), {}),
        weight=0.3,
        taped=False,
        pure=False,
    )
)

# Products.


def _same_floats(a: Array, b: Array) -> np.dtype:
    if a.dtype != b.dtype or not is_float(a.dtype):
        raise Refused("one float dtype is needed")
    return a.dtype


def matmul(a: Array, b: Array) -> Array:
    _same_floats(a, b)
    if not a.val.ndim or not b.val.ndim:
        raise Refused("no matrix")
    if a.shape[-1] != b.shape[-2 if b.val.ndim > 1 else 0]:
        raise Refused("lengths differ")
    if a.val.ndim > 2 or b.val.ndim > 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        letters = "abcd"[: len(batch)]
        if a.val.ndim < 2 or b.val.ndim < 2:
            raise Ambiguous
        a, b = (moved(lambda v: np.broadcast_to(v, batch + v.shape[-2:]), x) for x in (a, b))
        return contracted(f"{letters}ik,{letters}kj->{letters}ij", a, b)
    left, right = ("ik"[2 - a.val.ndim :], "kj"[: b.val.ndim])
    return contracted(f"{left},{right}->{left.strip('k')}{right.strip('k')}", a, b)


def dot(a: Array, b: Array) -> Array:
    _same_floats(a, b)
    if not a.val.ndim or not b.val.ndim:
        raise Ambiguous
    if a.shape[-1] != b.shape[-2 if b.val.ndim > 1 else 0]:
        raise Refused("lengths differ")
    left, right = "abcd"[: a.val.ndim - 1], "efgh"[: b.val.ndim - 1]
    second = f"{right[:-1]}k{right[-1]}" if right else "k"
    return contracted(f"{left}k,{second}->{left}{right}", a, b)


def draw_product(g: Any) -> Draft | None:
    a = some_axis(lambda x: is_float(x.dtype) and x.val.ndim <= 3 and x.val.size < 1500)(g)
    if a is None:
        return None
    x = g.of(a)
    n = x.shape[-1] + (1 if g.wrong() else 0)
    shape = (n, g.length()) if g.rng.random() < 0.7 else (n,)
    if x.val.ndim == 3 and len(shape) == 1:
        shape = (n, 2)
    b = g.array(
        lambda y: (
            y.dtype == x.dtype
            and 0 < y.val.ndim <= 2
            and y.shape[0] == n
            and y.val.size < 1500
            and (x.val.ndim < 3 or y.val.ndim == 2)
        ),
        make=(str(x.dtype), shape),
    )
    return b and ((a, b), {})


for _name, _apply in (("np.dot", dot), ("np.matmul", matmul), ("@", matmul)):
    add(Row(_name, _apply, draw_product))


def _fully_connected(
    x: Array, w: Array, b: Array, num_hidden: int, no_bias: bool, flatten: bool
) -> Array:
    made = contracted("abcd"[: x.val.ndim - 1] + "k,ok->" + "abcd"[: x.val.ndim - 1] + "o", x, w)
    return TABLE["np.add"].apply(made, b)


def _draw_dense(g: Any) -> Draft | None:
    x = g.array(
        lambda a: (
            is_float(a.dtype)
            and a.dtype not in model.HALVES
            and 2 <= a.val.ndim <= 3
            and 0 < a.val.size < 1500
        )
    )
    if x is None:
        return None
    dtype, n, m = str(g.of(x).dtype), max(g.length(), 1), g.of(x).shape[-1]
    w = g.array(lambda a: a.dtype == dtype and a.shape == (n, m), make=(dtype, (n, m)))
    b = w and g.array(lambda a: a.dtype == dtype and a.shape == (n,), make=(dtype, (n,)))
    return b and ((x, w, b), {"num_hidden": n, "no_bias": False, "flatten": False})


add(Row("npx.fully_connected", _fully_connected, _draw_dense, weight=0.8))


def _batch_dot(a: Array, b: Array) -> Array:
    _same_floats(a, b)
    return contracted("bik,bkj->bij", a, b)


def _draw_batch_dot(g: Any) -> Draft | None:
    x = g.array(lambda a: is_float(a.dtype) and a.val.ndim == 3 and 0 < a.val.size < 800)
    if x is None:
        return None
    n, _, m = g.of(x).shape
    dtype = str(g.of(x).dtype)
    y = g.array(
        lambda a: a.val.ndim == 3 and a.dtype == dtype and a.shape[:2] == (n, m),
        make=(dtype, (n, m, 2)),
    )
    return y and ((x, y), {})


add(Row("npx.batch_dot", _batch_dot, _draw_batch_dot, weight=0.5))


def _layer_norm(x: Array, gamma: Array, beta: Array, axis: int, eps: float) -> Array:
    minus, times, plus = (TABLE[f"np.{n}"].apply for n in ("subtract", "multiply", "add"))
    off = minus(x, average(x, axis, True))
    var = average(model.elementwise(lambda v: v * v, off), axis, True)
    scale = model.elementwise(lambda v: 1 / np.sqrt(v + np.longdouble(eps)), var, ulps=8)
    return plus(times(times(off, scale), gamma), beta)


def _draw_layer_norm(g: Any) -> Draft | None:
    x = some_axis(
        lambda a: (
            is_float(a.dtype) and a.dtype not in model.HALVES and a.shape[-1] > 1 and a.val.size > 0
        )
    )(g)
    if x is None:
        return None
    dtype, n = str(g.of(x).dtype), g.of(x).shape[-1]
    gamma = g.array(lambda a: a.dtype == dtype and a.shape == (n,), make=(dtype, (n,)))
    beta = gamma and g.array(lambda a: a.dtype == dtype and a.shape == (n,), make=(dtype, (n,)))
    return beta and ((x, gamma, beta), {"axis": -1, "eps": 0.01})


add(Row("npx.layer_norm", _layer_norm, _draw_layer_norm, weight=0.5))
