"""Sums, means, extremes, norms and products of matrices in ONNX's words."""

from __future__ import annotations

from typing import Any

import numpy as np

from .writer import Name, Step, Writer, writes


def _plain(s: Step) -> None:
    for key in ("initial", "where"):
        if s.params.get(key) is not None:
            raise s.refused(f"{key}= of a reduction")


def _axes(s: Step) -> list[int] | None:
    """The axes of a reduction; None for all."""
    axis = s.params.get("axis")
    axes = s.axes(axis)
    if s.params.get("exclude"):
        axes = [a for a in range(s.ndim()) if a not in axes] if axis not in (None, ()) else axes
    return None if len(axes) == s.ndim() else axes


def _shaped(w: Writer, s: Step, x: Name) -> Name:
    """mx.nd's reductions of everything have shape (1,)."""
    if s.out_shape() == (1,) and not s.params.get("keepdims") and s.ndim() > 0 and _axes(s) is None:
        return w.reshape(x, [1])
    return x


@writes
def reduced(w: Writer, s: Step, kind: str) -> Name:
    _plain(s)
    dtype = s.dtype()
    x = w.cast(s[0], s.in_dtype(), dtype)
    worked = np.dtype(np.int32) if dtype.kind == "b" or dtype in (np.int8, np.uint8) else dtype
    made = w.reduce(kind, w.cast(x, dtype, worked), _axes(s), bool(s.params["keepdims"]))
    return _shaped(w, s, w.cast(made, worked, dtype))


@writes
def any_all(w: Writer, s: Step, kind: str) -> Name:
    x = w.cast(w.cast(s[0], s.in_dtype(), bool), bool, np.int32)
    return w.cast(w.reduce(kind, x, _axes(s), bool(s.params["keepdims"])), np.int32, s.dtype())


@writes
def without_nan(w: Writer, s: Step, kind: str, instead: int) -> Name:
    """A reduction for which NaN counts as another number."""
    _plain(s)
    x = w.cast(s[0], s.in_dtype(), s.dtype())
    if s.dtype().kind == "f":
        x = w.op("Where", w.op("IsNaN", x), w.constant(instead, s.dtype()), x)
    return _shaped(w, s, w.reduce(kind, x, _axes(s), bool(s.params["keepdims"])))


@writes
def ptp(w: Writer, s: Step) -> Name:
    high, low = (
        w.reduce(k, s[0], _axes(s), bool(s.params["keepdims"])) for k in ("ReduceMax", "ReduceMin")
    )
    return w.op("Sub", high, low)


@writes
def count_nonzero(w: Writer, s: Step) -> Name:
    x = w.cast(w.cast(s[0], s.in_dtype(), bool), bool, np.int64)
    return w.cast(
        w.reduce("ReduceSum", x, _axes(s), bool(s.params["keepdims"])), np.int64, s.dtype()
    )


def _variance(w: Writer, s: Step) -> Name:
    axes, keep = _axes(s), bool(s.params["keepdims"])
    x = w.cast(s[0], s.in_dtype(), s.dtype())
    centred = w.op("Sub", x, w.reduce("ReduceMean", x, axes))
    mean = w.reduce("ReduceMean", w.op("Mul", centred, centred), axes, keep)
    less = s.params["ddof"] or s.params["correction"]
    if not less:
        return mean
    lengths = [s.shape()[a] for a in (axes if axes is not None else range(s.ndim()))]
    if None in lengths:
        raise s.refused("ddof over an axis whose length changes")
    n = int(np.prod(lengths))  # type: ignore[arg-type]
    return w.op("Mul", mean, w.constant(n / (n - less), s.dtype()))


@writes
def var(w: Writer, s: Step) -> Name:
    return _variance(w, s)


@writes
def std(w: Writer, s: Step) -> Name:
    return w.op("Sqrt", _variance(w, s))


@writes
def moments(w: Writer, s: Step) -> list[Name]:
    axes, keep = s.axes(s.params["axes"]), bool(s.params["keepdims"])
    mean = w.reduce("ReduceMean", s[0], axes)
    centred = w.op("Sub", s[0], mean)
    results = [
        mean if keep else w.reduce("ReduceMean", s[0], axes, False),
        w.reduce("ReduceMean", w.op("Mul", centred, centred), axes, keep),
    ]
    whole = not keep and len(axes) == s.ndim()
    return [w.reshape(r, [1]) for r in results] if whole else results


@writes
def average(w: Writer, s: Step) -> Any:
    p = s.params
    axes = None if p["axis"] is None else s.axes(p["axis"])
    x = w.cast(s[0], s.in_dtype(), s.dtype())
    if not s.has("weights") or p["returned"]:
        if p["returned"]:
            raise s.refused("returned=True")
        return w.reduce("ReduceMean", x, axes, False)
    weights = w.cast(s[1], s.in_dtype(1), s.dtype())
    if s.ndim(1) == 1 and s.ndim() > 1 and axes is not None:
        weights = w.reshape(weights, [-1 if a == axes[0] else 1 for a in range(s.ndim())])
    total = w.reduce("ReduceSum", w.op("Mul", x, weights), axes, False)
    whole = w.op("Expand", weights, w.op("Shape", x))
    return w.op("Div", total, w.reduce("ReduceSum", whole, axes, False))


@writes
def norm(w: Writer, s: Step) -> Name:
    p, dtype = s.params, s.dtype()
    worked = s.in_dtype() if s.in_dtype().kind == "f" else np.dtype(np.float64)
    x = w.cast(s[0], s.in_dtype(), worked)
    axes = s.axes(p["axis"])
    made = w.reduce("ReduceL1" if p["ord"] == 1 else "ReduceL2", x, axes, bool(p["keepdims"]))
    made = w.cast(made, worked, dtype)
    return w.reshape(made, [1]) if len(axes) == s.ndim() and not p["keepdims"] else made


@writes
def linalg_norm(w: Writer, s: Step, of_matrices: bool = True) -> Name:
    p = s.params
    axes = None if p["axis"] is None else s.axes(p["axis"])
    order = p["ord"]
    matrix = of_matrices and len(axes or range(s.ndim())) == 2 and order is not None
    if matrix and order != "fro" or order not in (None, 1, 2, "fro", float("inf"), float("-inf")):
        raise s.refused(f"ord={order!r}")
    x = w.cast(s[0], s.in_dtype(), s.dtype())
    if order in (float("inf"), float("-inf")):
        kind, x = "ReduceMax" if order > 0 else "ReduceMin", w.op("Abs", x)
    else:
        kind = "ReduceL1" if order == 1 else "ReduceL2"
    return w.reduce(kind, x, axes, bool(p["keepdims"]))


@writes
def position(w: Writer, s: Step, kind: str) -> Name:
    axis, x = s.params["axis"], s[0]
    keep = int(bool(s.params["keepdims"]))
    dtype = s.in_dtype()
    if dtype.kind == "b":
        x = w.cast(x, dtype, np.int32)
    if axis is None:
        made = w.op(kind, w.reshape(x, [-1]), axis=0, keepdims=0)
        made = w.reshape(made, list(s.out_shape())) if s.out_shape() else made  # type: ignore[arg-type]
    else:
        made = w.op(kind, x, axis=s.axis(axis), keepdims=keep)
        if len(s.out_shape()) > s.ndim() - 1 + keep:
            made = w.reshape(made, [1])
    return w.cast(made, np.int64, s.dtype())


@writes
def argmax_channel(w: Writer, s: Step) -> Name:
    return w.cast(
        w.op("ArgMax", s[0], axis=1 if s.ndim() > 1 else 0, keepdims=0), np.int64, s.dtype()
    )


@writes
def cumsum(w: Writer, s: Step) -> Name:
    axis, dtype = s.params["axis"], s.dtype()
    x = w.cast(s[0], s.in_dtype(), dtype)
    if axis is None:
        x, axis = w.reshape(x, [-1]), 0
    return w.op("CumSum", x, w.constant(axis, np.int64))


@writes
def diff(w: Writer, s: Step) -> Name:
    if len(s) > 1:
        raise s.refused("prepend and append")
    axis, x = s.axis(s.params["axis"]), s[0]
    for _ in range(s.params["n"]):
        x = w.op("Sub", w.slice(x, axis, 1, np.iinfo(np.int64).max), w.slice(x, axis, 0, -1))
    return x


# ---- products ------------------------------------------------------------------------------------


def _pair(w: Writer, s: Step) -> tuple[Name, Name]:
    a, b = (w.cast(s[k], s.in_dtype(k), s.dtype()) for k in (0, 1))
    return a, b


def _last_swapped(w: Writer, x: Name, n: int) -> Name:
    return w.transpose(x, [*range(n - 2), n - 1, n - 2])


@writes
def matmul(w: Writer, s: Step) -> Name:
    return w.op("MatMul", *_pair(w, s))


def _contracted(
    w: Writer, a: Name, b: Name, n: int, m: int, left: list[int], right: list[int]
) -> Name:
    """The sum over pairs of axes, as an einsum."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    one, other = list(letters[:n]), list(letters[n : n + m])
    for i, j in zip(left, right, strict=True):
        other[j] = one[i]
    out = [c for k, c in enumerate(one) if k not in left] + [
        c for k, c in enumerate(other) if k not in right
    ]
    return w.op("Einsum", a, b, equation=f"{''.join(one)},{''.join(other)}->{''.join(out)}")


@writes
def dot(w: Writer, s: Step) -> Name:
    (a, b), n, m = _pair(w, s), s.ndim(0), s.ndim(1)
    if n == 0 or m == 0:
        return w.op("Mul", a, b)
    if n <= 2 and m <= 2 or m <= 2:
        return w.op("MatMul", a, b)
    return _contracted(w, a, b, n, m, [n - 1], [m - 2])


@writes
def dot_nd(w: Writer, s: Step) -> Name:
    """The last axis of the first with the first axis of the second; transposed, axes are reversed by one turn."""
    (a, b), n, m = _pair(w, s), s.ndim(0), s.ndim(1)
    left = 0 if s.params["transpose_a"] else n - 1
    right = m - 1 if s.params["transpose_b"] else 0
    if n == 1 and m == 1:
        return (
            w.reshape(w.op("MatMul", a, b), [1]) if s.out_shape() == (1,) else w.op("MatMul", a, b)
        )
    if n == 2 and m == 2:
        a = w.transpose(a, [1, 0]) if left == 0 else a
        b = w.transpose(b, [1, 0]) if right == 1 else b
        return w.op("MatMul", a, b)
    return _contracted(w, a, b, n, m, [left], [right])


@writes
def batch_dot(w: Writer, s: Step, with_third: bool = False) -> Name:
    p = s.params
    if p.get("axis", -2) != -2:
        raise s.refused("axis= of a matrix product")
    a, b = _pair(w, s)
    a = _last_swapped(w, a, s.ndim(0)) if p["transpose_a"] else a
    b = _last_swapped(w, b, s.ndim(1)) if p["transpose_b"] else b
    made = w.op("MatMul", a, b)
    if p.get("alpha", 1.0) != 1.0:
        made = w.op("Mul", made, w.constant(p["alpha"], s.dtype()))
    if with_third:
        third = s[2] if p["beta"] == 1.0 else w.op("Mul", s[2], w.constant(p["beta"], s.dtype()))
        made = w.op("Add", made, third)
    return made


@writes
def syrk(w: Writer, s: Step) -> Name:
    turned = _last_swapped(w, s[0], s.ndim())
    pair = (turned, s[0]) if s.params["transpose"] else (s[0], turned)
    return w.op("Mul", w.op("MatMul", *pair), w.constant(s.params["alpha"], s.dtype()))


@writes
def tensordot(w: Writer, s: Step) -> Name:
    axes, n, m = s.params["axes"], s.ndim(0), s.ndim(1)
    if isinstance(axes, int):
        left, right = list(range(n - axes, n)), list(range(axes))
    else:
        left, right = ([a] if isinstance(a, int) else list(a) for a in axes)
    return _contracted(w, *_pair(w, s), n, m, [a % n for a in left], [a % m for a in right])


@writes
def inner(w: Writer, s: Step) -> Name:
    n, m = s.ndim(0), s.ndim(1)
    if n == 0 or m == 0:
        return w.op("Mul", *_pair(w, s))
    return _contracted(w, *_pair(w, s), n, m, [n - 1], [m - 1])


@writes
def outer(w: Writer, s: Step) -> Name:
    a, b = _pair(w, s)
    return w.op("Mul", w.reshape(a, [-1, 1]), w.reshape(b, [1, -1]))


@writes
def vdot(w: Writer, s: Step) -> Name:
    a, b = (w.reshape(x, [-1]) for x in _pair(w, s))
    return w.op("MatMul", a, b)


@writes
def einsum(w: Writer, s: Step) -> Name:
    given = [w.cast(x, s.in_dtype(k), s.dtype()) for k, x in enumerate(s.names)]
    return w.op("Einsum", *given, equation=str(s.params["subscripts"]).replace(" ", ""))


@writes
def det(w: Writer, s: Step) -> Name:
    made = w.op("Det", s[0])
    return w.reshape(made, [1]) if s.ndim() == 2 and s.out_shape() == (1,) else made
