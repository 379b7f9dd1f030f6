"""Calls of mx.nd."""

from __future__ import annotations

from typing import Any

import numpy as np

from .calls import TABLE, Draft, Row, add
from .model import Ambiguous, Array, cast, is_float, moved
from .moves import axis_of, draw_concatenate, join, some_axis
from .products import dot, draw_product, sortable
from .program import Call
from .reductions import average


def nd(name: str, apply: Any, draw: Any, weight: float = 1.0, **row: Any) -> None:
    add(Row(name, apply, draw, weight=weight, front="nd", **row))


def _like_first(fn: Any) -> Any:
    """nd: two arrays of one dtype; what compares gives numbers of that dtype."""

    def apply(a: Any, b: Any) -> Array:
        x = a if isinstance(a, Array) else b
        if isinstance(a, Array) and isinstance(b, Array) and a.dtype != b.dtype:
            raise Ambiguous
        made = fn(a, b)
        return cast(made, x.dtype) if made.dtype != x.dtype else made

    return apply


def _draw_pair(numbers: Any) -> Any:
    def draw(g: Any) -> Draft | None:
        pair = g.pair(numbers, same=True)
        return pair and (pair, {})

    return draw


for _name in (
    "add",
    "sub:subtract",
    "mul:multiply",
    "div:true_divide",
    "maximum",
    "minimum",
    "equal",
    "lesser:<",
    "greater:>",
):
    _nd, _, _np = _name.partition(":")
    _row = TABLE.get(f"np.{_np or _nd}") or TABLE[{"equal": "=="}.get(_np or _nd, _np)]
    nd(f"nd.broadcast_{_nd}", _like_first(_row.apply), _draw_pair(()), weight=0.7)
for _op in ("+", "-", "*", "/", "<"):
    nd(f"{_op}#nd", _like_first(TABLE[_op].apply), _draw_pair((0.5, 2.0, -1.5, 3.0)))
for _name in (
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sin",
    "square",
    "negative",
    "abs",
    "sign",
    "floor",
    "rint",
    "sigmoid",
    "relu",
):
    _row = TABLE.get(f"np.{_name}") or TABLE[f"npx.{_name}"]
    nd(
        f"nd.{_name}",
        _row.apply,
        lambda g: (x := g.array(lambda a: is_float(a.dtype))) and ((x,), {}),
        weight=0.4,
    )


def _nd_reduction(name: str, of: str, wants: Any = None, weight: float = 0.8) -> None:
    apply = average if name == "nd.mean" else TABLE[of].apply

    def draw(g: Any) -> Draft | None:
        x = some_axis(
            lambda a: is_float(a.dtype) and a.val.size > 0 and (wants is None or wants(a))
        )(g)
        return x and ((x,), {"axis": axis_of(g, x), "keepdims": g.rng.random() < 0.5})

    def applied(x: Array, axis: int, keepdims: bool) -> Array:
        made = apply(x, axis, keepdims)
        return moved(lambda v: v.reshape(1), made) if not made.shape else made

    nd(name, applied, draw, weight=weight)


_nd_reduction("nd.sum", "np.sum")
_nd_reduction("nd.mean", "np.mean")
_nd_reduction("nd.max", "np.max", wants=sortable)
_nd_reduction("nd.min", "np.min", wants=sortable)


def _slice_axis(x: Array, axis: int, begin: int, end: int) -> Array:
    return moved(lambda v: v.take(np.arange(begin, end), axis=axis), x)


def _draw_slice_axis(g: Any) -> Draft | None:
    x = some_axis(lambda a: a.shape[0] > 2)(g)
    return x and ((x,), {"axis": 0, "begin": 1, "end": g.of(x).shape[0] - 1})


nd("nd.slice_axis", _slice_axis, _draw_slice_axis)
nd(
    "nd.concat",
    lambda *xs, dim: join(np.concatenate)(*xs, axis=dim),
    lambda g: (d := draw_concatenate(g)) and (d[0], {"dim": d[1]["axis"]}),
    weight=0.8,
)
nd(
    "nd.transpose",
    lambda x: moved(np.transpose, x),
    lambda g: (x := some_axis()(g)) and ((x,), {}),
    weight=0.6,
)


def _nd_dot(a: Array, b: Array) -> Array:
    made = dot(a, b)
    return moved(lambda v: v.reshape(1), made) if not made.shape else made


nd("nd.dot", _nd_dot, lambda g: (d := draw_product(g)) and g.of(d[0][0]).val.ndim < 3 and d)
nd("nd.softmax", TABLE["npx.softmax"].apply, TABLE["npx.softmax"].draw, weight=0.5)


class NdReshape(Row):
    """A view of the same memory."""

    def model(self, machine: Any, call: Call) -> None:
        x, shape = machine.get(call.ins[0]), call.attrs["shape"]
        made = moved(lambda v: v.reshape(shape), x)
        if not machine.inside:
            made.sharing(
                x.val.reshape(shape), None if x.err is None else x.err.reshape(shape)
            ).joins(x)
        machine.put(call, made)


add(
    NdReshape(
        ".reshape#nd",
        None,
        lambda g: (
            (x := g.array(lambda a: a.val.size > 1))
            and ((x,), {"shape": g.rng.choice([(-1,), (1, -1), (-1, 1)])})
        ),
        front="nd",
    )
)
