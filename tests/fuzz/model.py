"""Arrays of NumPy that know how far other implementations may be from them.

An `Array` has values, rounded to its dtype after each operator and computed in `numpy.longdouble`, and a bound of the
error of each: what rounding may have made of it anywhere before. An operator moves the bounds on by looking at
its function at both ends of each operand's interval, and adds its own rounding. A bound of infinity says that
nothing is known; a bound of zero that every implementation has this very number. So whole numbers stay exact, and
a comparison, a floor or an index may be asked of exact numbers only: `Ambiguous` says that rounding would decide.

Views are NumPy's views. The tape has for each operator how a gradient, with its bound, goes back.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = (np.dtype("float16"), BFLOAT16)
Wide = np.longdouble

Function = Callable[..., Any]


class Ambiguous(Exception):
    """Rounding would decide about a result that is not continuous."""


class Refused(Exception):
    """The call is an error in MXNet."""


class Limits:
    """What the model needs to know about a float dtype."""

    def __init__(self, dtype: np.dtype):
        info = ml_dtypes.finfo(dtype)
        self.eps, self.tiny, self.max = (
            Wide(float(info.eps)),
            Wide(float(info.smallest_normal)),
            Wide(float(info.max)),
        )


_LIMITS = {np.dtype(d): Limits(np.dtype(d)) for d in ("float16", BFLOAT16, "float32", "float64")}


def is_float(dtype: np.dtype) -> bool:
    return dtype in _LIMITS


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype in which two arrays meet: of a float and an integer it is the float's."""
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if BFLOAT16 in (a, b) and a != b:
        other = a if b == BFLOAT16 else b
        return np.dtype("float32") if other == "float16" else other
    found = np.promote_types(a, b)
    if is_float(found) and not is_float(a):
        raise Refused("no integer holds both")
    return found


def beside(a: np.dtype, number: object) -> np.dtype:
    """The dtype of an array with a Python number."""
    if is_float(a):
        return a
    if isinstance(number, float):
        return np.dtype("float64")
    return np.dtype("int64") if a.kind == "b" else a


class Array:
    """``val``: of floats in longdouble, else in the dtype; ``err``: the bound, None but for floats."""

    __slots__ = ("dtype", "err", "family", "grad", "node", "req", "val")

    def __init__(self, val: Any, err: Any, dtype: np.dtype):
        self.val, self.err, self.dtype = (
            np.asarray(val),
            None if err is None else np.asarray(err),
            dtype,
        )
        self.node: tuple[Node, int] | Leaf | None = None
        self.grad: Array | None = None
        self.req = "null"
        self.family: list[Array] = [self]  # those that may share the memory

    @property
    def shape(self) -> tuple[int, ...]:
        return self.val.shape  # type: ignore[no-any-return]

    @property
    def exact(self) -> bool:
        return self.err is None or not self.err.any()

    def sharing(self, val: Any, err: Any) -> Array:
        """This array, made another look at the memory of ``val``."""
        self.val, self.err = val, err
        return self

    def joins(self, other: Array) -> Array:
        """The two share memory."""
        self.family = other.family
        self.family.append(self)
        return self


class Leaf:
    """A variable of the tape."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array


_numbers = itertools.count()


class Node:
    """An operator on the tape: ``pull(gradients)`` gives a gradient and its bound, or None, for each input."""

    __slots__ = ("ins", "number", "outs", "pull", "spent")

    def __init__(
        self, ins: list[Any], outs: list[tuple[tuple[int, ...], np.dtype]], pull: Function
    ):
        self.ins, self.outs, self.pull = ins, outs, pull
        self.number = next(_numbers)
        self.spent = False


class Tape:
    """Whether calls are recorded. ``groups``: first and last number of nodes that may be one node to others."""

    on = False
    training = False
    groups: list[tuple[int, int]] = []  # noqa: RUF012


@contextlib.contextmanager
def together() -> Iterator[None]:
    """The nodes that are made here may be one operator's: a backward that goes through one of them ends them all."""
    first = next(_numbers)
    try:
        yield
    finally:
        if Tape.on:
            Tape.groups.append((first, next(_numbers)))


def array(values: Any, dtype: Any) -> Array:
    """An exact array."""
    dtype = np.dtype(dtype)
    if is_float(dtype):
        val = np.array(values).astype(dtype).astype(Wide)
        return Array(val, np.zeros(val.shape, Wide), dtype)
    return Array(np.array(values).astype(dtype), None, dtype)


def rounded(val: Any, err: Any, dtype: np.dtype, ulps: float = 0) -> Array:
    """A result: longdoubles and their bounds, to be rounded to a float dtype by a function good to so many ulps."""
    of = _LIMITS[dtype]
    with np.errstate(all="ignore"):
        val = np.asarray(val, Wide)
        size = np.abs(val)
        out = (
            val.astype(np.float32).astype(BFLOAT16).astype(Wide)
            if dtype == BFLOAT16
            else val.astype(dtype).astype(Wide)
        )
        err = np.asarray(err, Wide) + of.eps * size * ((out != val) + Wide(ulps))
        err = np.where((size < 4 * of.tiny) & (val != 0), err + 4 * of.tiny, err)
        finite = np.isfinite(val)
        edge = of.max / 4 if dtype in HALVES else of.max * Wide(0.999)
        unknown = finite & (size + err > edge)
        if dtype not in HALVES and not ulps:
            unknown &= ~(size - err > of.max * Wide(1.001))
        err = np.where(np.isnan(err), Wide(np.inf), err)
        err = np.where(unknown, Wide(np.inf), np.where(finite | np.isinf(err), err, 0))
    return Array(out, np.broadcast_to(err, out.shape).copy(), dtype)


def recorded(made: list[Array], ins: Sequence[Any], pull: Function) -> None:
    """Put an operator on the tape if one of its inputs is there."""
    if not Tape.on:
        return
    nodes = [x.node if isinstance(x, Array) else None for x in ins]
    if any(n is not None for n in nodes):
        node = Node(nodes, [(m.shape, m.dtype) for m in made], pull)
        for k, m in enumerate(made):
            m.node = (node, k)


def connected(made: Array, ins: Sequence[Any]) -> None:
    """What has no derivative is on the tape all the same: its gradients are zeros."""
    if made.node is None and Tape.on:
        zeros = [
            (np.zeros(x.shape, Wide), np.zeros(x.shape, Wide)) if isinstance(x, Array) else None
            for x in ins
        ]
        recorded([made], ins, lambda grads: zeros)


def _differences(fn: Function, vals: list[Any], errs: list[Any], mid: Any) -> Any:
    """How far a function's values move when each operand goes to the ends of its interval."""
    total: Any = 0.0
    for k, err in enumerate(errs):
        if err is None or not err.any():
            continue
        worst: Any = 0.0
        for end in (vals[k] + err, vals[k] - err):
            moved = fn(*vals[:k], end, *vals[k + 1 :])
            if np.asarray(mid).dtype.kind in "biu":
                if (np.asarray(moved) != mid).any():
                    raise Ambiguous
                continue
            d = np.where(
                (moved == mid) | (np.isnan(moved) & np.isnan(mid)), Wide(0), np.abs(moved - mid)
            )
            worst = np.maximum(worst, np.where(np.isnan(d), Wide(np.inf), d))
        total = total + worst
        if np.isinf(err).any():
            if np.asarray(mid).dtype.kind in "biu":
                raise Ambiguous
            total = total + np.where(np.isinf(err), Wide(np.inf), 0) + np.zeros(np.shape(mid))
    return total


def given_back(grad: Any, err: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
    """The gradient of what was broadcast from ``shape``."""
    axes = tuple(range(grad.ndim - len(shape)))
    axes += tuple(
        k for k in range(len(axes), grad.ndim) if shape[k - len(axes)] == 1 and grad.shape[k] != 1
    )
    if axes:
        n = int(np.prod([grad.shape[k] for k in axes]))
        with np.errstate(all="ignore"):
            err = err.sum(axes) + sum_error(n, dtype) * np.abs(grad).sum(axes)
            grad = grad.sum(axes)
    return grad.reshape(shape), err.reshape(shape)


def sum_error(n: int, dtype: np.dtype) -> Any:
    """The error of a sum of n numbers, as a part of the sum of their sizes: n roundings add up like sqrt(n)."""
    return _LIMITS[dtype].eps * (2 + 2 * Wide(n) ** 0.5) if n > 1 else Wide(0)


STEP = Wide(5e-7)


def derivative(
    fn: Function, vals: list[Any], k: int, slope_of: Function | None = None
) -> tuple[Any, Any]:
    """The derivative by one operand, by differences where no function is given, and infinity where it has a jump."""
    x = vals[k]
    if slope_of is not None:
        return slope_of(x), np.zeros(np.shape(x), Wide)
    h = STEP * np.maximum(np.abs(x), Wide(1e-2))

    def at(moved: Any) -> Any:
        return fn(*vals[:k], moved, *vals[k + 1 :])

    mid, up, down = at(x), at(x + h), at(x - h)
    slope = (up - down) / (2 * h)
    curved = (
        slope - (at(x + 2 * h) - at(x - 2 * h)) / (4 * h)
    ) / 3  # what the next term of the series makes of it
    right, left = (up - mid) / h, (mid - down) / h
    off = np.abs(right - left)
    steep = np.abs(curved) > 1e-2 * np.abs(slope) + 1e-6  # a root at 0
    if fn is np.power:
        steep = steep | (np.asarray(vals[0]) == 0)  # MXNet's is 0 / 0 for an exponent of zero
    jump = steep | ~(off <= 1e-4 + 1e-3 * np.maximum(np.abs(right), np.abs(left)))
    noise = 4 * np.finfo(Wide).eps * np.abs(mid) / h
    return slope + curved, np.where(
        jump, Wide(np.inf), 1e-11 * np.abs(slope) + np.abs(curved) + noise
    )


def elementwise(
    fn: Function,
    *xs: Array | float,
    dtype: Any = None,
    ulps: float = 0,
    jumps: bool = False,
    slack: float = 0,
    slope: Function | None = None,
) -> Array:
    """``fn`` of numbers; ``jumps``: it is not continuous, and its derivative is zero.

    A result that is a float has ``dtype`` (else the first float operand's). ``ulps``: how good implementations are
    beyond rounding. ``slack``: the error of the derivative in roundings of one, where it is 1 minus something.
    ``slope``: the derivative of a function that is not good enough for differences.
    """
    vals = [x.val if isinstance(x, Array) else (Wide(x) if isinstance(x, float) else x) for x in xs]
    errs = [x.err if isinstance(x, Array) else None for x in xs]
    with np.errstate(all="ignore"):
        try:
            mid = np.asarray(fn(*vals))
        except ValueError:
            raise Refused("shapes do not broadcast") from None
        err = _differences(fn, vals, errs, mid)
    if jumps and np.any(err):
        raise Ambiguous
    if mid.dtype.kind in "biu":
        return Array(mid, None, mid.dtype)
    if dtype is None:
        dtype = next(x.dtype for x in xs if isinstance(x, Array) and is_float(x.dtype))
    made = rounded(mid, err, np.dtype(dtype), ulps)
    if not jumps and Tape.on:
        kept = [v.copy() if isinstance(v, np.ndarray) else v for v in vals]
        kept_errs = [None if e is None else e.copy() for e in errs]

        def pull(grads: list[Any]) -> list[Any]:
            ((g, g_err),) = grads
            out: list[Any] = []
            for k, x in enumerate(xs):
                if not isinstance(x, Array) or x.err is None:
                    out.append(
                        (np.zeros(x.shape, Wide), np.zeros(x.shape, Wide))
                        if isinstance(x, Array)
                        else None
                    )
                    continue
                by, off = derivative(fn, kept, k, slope)
                off = off + _differences(
                    lambda *vs, k=k: derivative(fn, list(vs), k, slope)[0], kept, kept_errs, by
                )
                off = np.where(np.isnan(off), Wide(np.inf), off)
                of = _LIMITS[made.dtype]
                unknown = np.isinf(off)
                by = np.where(unknown, Wide(0), by)
                value, most = (
                    g * by,
                    np.abs(g) + g_err,
                )  # twice saturated, the errors' product is all there is
                error = (
                    g_err * np.abs(by)
                    + most * np.where(unknown, 0, off)
                    + of.eps * ((2 + ulps) * np.abs(value) + slack * most)
                )
                error = np.where(unknown | np.isnan(error), Wide(np.inf), error)
                out.append(given_back(value, error, x.val.shape, made.dtype))
            return out

        recorded([made], xs, pull)
    return made


def moved(fn: Function, *xs: Array, unsure: Any = None) -> Array:
    """``fn`` only moves numbers: transposes, takes, joins; it may add zeros.

    ``unsure``: which numbers of the first array have a gradient that is not known.
    """
    first = xs[0]
    val = np.array(fn(*(x.val for x in xs)))
    err = None if first.err is None else np.array(fn(*(x.err for x in xs)))
    made = Array(val, err, first.dtype)
    if Tape.on and err is not None:
        starts, at = [], 1
        for x in xs:
            starts.append(np.arange(at, at + x.val.size).reshape(x.val.shape))
            at += x.val.size
        places = np.array(fn(*starts)).ravel()

        def pull(grads: list[Any]) -> list[Any]:
            ((g, g_err),) = grads
            total, size, error = np.zeros(at, Wide), np.zeros(at, Wide), np.zeros(at, Wide)
            count = np.bincount(places, minlength=at)
            np.add.at(total, places, g.ravel())
            np.add.at(size, places, np.abs(g).ravel())
            np.add.at(error, places, g_err.ravel())
            error += np.where(
                count > 1, size * _LIMITS[made.dtype].eps * (2 + 2 * np.sqrt(count)), 0
            )
            out = []
            for s in starts:
                part = slice(s.flat[0], s.flat[0] + s.size) if s.size else slice(0, 0)
                out.append((total[part].reshape(s.shape), error[part].reshape(s.shape)))
            if unsure is not None:
                out[0] = (out[0][0], np.where(unsure, Wide(np.inf), out[0][1]))
            return out

        recorded([made], xs, pull)
    return made


def _is_lattice(sizes: Any, dtype: np.dtype, *vals: Any) -> bool:
    """Whether every partial sum is exact: multiples of 1/16 whose sizes add up to little."""
    return all(np.isfinite(v).all() and (v * 4 == np.rint(v * 4)).all() for v in vals) and bool(
        (sizes * 16 * 4 <= 1 / _LIMITS[dtype].eps).all()
    )


def contracted(spec: str, *xs: Array, dtype: Any = None) -> Array:
    """`numpy.einsum` of one or two arrays of floats."""
    operands, _, result = spec.partition("->")
    names = operands.split(",")
    dtype = np.dtype(dtype) if dtype else xs[0].dtype
    vals, errs = [x.val for x in xs], [x.err for x in xs]
    lengths: dict[str, int] = {}
    for name, x in zip(names, xs, strict=True):
        for c, length in zip(name, x.shape, strict=True):
            if lengths.setdefault(c, length) != length:
                raise Refused("lengths differ")
    n = int(np.prod([lengths[c] for c in set(lengths) - set(result)]))
    with np.errstate(all="ignore"):
        val = np.einsum(spec, *vals)
        sizes = [np.abs(v) for v in vals]
        size = np.einsum(spec, *sizes)
        err: Any = 0.0
        for k, e in enumerate(errs):
            if e.any():
                beside = [
                    np.maximum(s, e2) if j != k else e
                    for j, (s, e2) in enumerate(zip(sizes, errs, strict=True))
                ]
                part = np.einsum(spec, *beside)
                err = err + np.where(np.isnan(part), Wide(np.inf), part)
        exact = not np.any(err) and _is_lattice(size, dtype, *vals)
        if not exact:
            err = err + np.where(np.isfinite(size), sum_error(max(n, 2), dtype) * size, 0)
            err = np.where(np.isfinite(val) & (size > _LIMITS[dtype].max / 2), Wide(np.inf), err)
    made = rounded(val, err, dtype)
    if Tape.on:
        kept = [(v.copy(), e.copy()) for v, e in zip(vals, errs, strict=True)]

        def pull(grads: list[Any]) -> list[Any]:
            ((g, g_err),) = grads
            out = []
            for k, name in enumerate(names):
                others = [j for j in range(len(names)) if j != k]
                lost = [
                    c for c in name if c not in result and all(c not in names[j] for j in others)
                ]
                back = (
                    ",".join([result, *(names[j] for j in others)])
                    + "->"
                    + "".join(c for c in name if c not in lost)
                )
                rest, rest_err = [kept[j][0] for j in others], [kept[j][1] for j in others]
                value = np.einsum(back, g, *rest)
                size = np.einsum(back, np.abs(g), *map(np.abs, rest))
                error = np.einsum(back, g_err, *map(np.abs, rest))
                for e in rest_err:
                    error = error + np.einsum(back, np.abs(g) + g_err, e)
                m = int(np.prod([lengths[c] for c in set(back) - {",", "-", ">"} - set(name)]))
                error = error + (sum_error(m, dtype) + 2 * _LIMITS[dtype].eps) * size
                shape = [1 if c in lost else lengths[c] for c in name]
                full = [lengths[c] for c in name]
                out.append(
                    (
                        np.broadcast_to(value.reshape(shape), full),
                        np.broadcast_to(error.reshape(shape), full),
                    )
                )
            return out

        recorded([made], xs, pull)
    return made


def cast(x: Array, dtype: Any) -> Array:
    """``x.astype(dtype)``; floats that become integers must be exact and fit."""
    dtype = np.dtype(dtype)
    if dtype == x.dtype:
        return moved(lambda v: v, x)
    if is_float(dtype):
        return elementwise(lambda v: np.asarray(v, Wide), x, dtype=dtype)
    if not is_float(x.dtype):
        return Array(x.val.astype(dtype), None, dtype)
    if Tape.on and x.node is not None:
        raise Ambiguous  # MXNet's gradient goes through whole numbers
    if dtype.kind == "b":
        return elementwise(lambda v: v != 0, x)
    info = np.iinfo(dtype)
    if not (np.isfinite(x.val) & (x.val >= info.min) & (x.val <= info.max)).all():
        raise Ambiguous
    return elementwise(lambda v: np.trunc(v).astype(dtype), x)


def attach(x: Array, req: str) -> None:
    """``x.attach_grad(grad_req=req)``."""
    x.req = req
    x.node = Leaf(x)
    zeros = np.zeros(x.shape, Wide)
    x.grad = Array(zeros, zeros.copy(), x.dtype)


def detached(x: Array) -> Array:
    """The same memory without a history."""
    return Array(x.val, x.err, x.dtype).joins(x)


_doubtful: set[tuple[int, int]] = set()


def begin() -> None:
    """A program begins."""
    Tape.on = Tape.training = False
    Tape.groups.clear()
    _doubtful.clear()


def backward(heads: list[Array], head_grads: list[Array | None], retain: bool) -> None:
    """Gradients of the heads, into the variables' ``grad``."""
    if all(h.node is None for h in heads):
        raise Refused("not in a graph")
    at: dict[Any, Any] = {}
    todo: dict[int, Node] = {}
    before, Tape.on = Tape.on, False

    def give(where: Any, grad: Any) -> None:
        if where is None or grad is None:
            return
        key = where if isinstance(where, Leaf) else (where[0].number, where[1])
        dtype = where.array.dtype if isinstance(where, Leaf) else where[0].outs[where[1]][1]
        if not isinstance(where, Leaf):
            todo[where[0].number] = where[0]
        known = at.get(key)
        total = grad if known is None else (known[0] + grad[0], known[1] + grad[1])
        made = rounded(*total, dtype) if is_float(dtype) else None
        at[key] = total if made is None else (made.val, made.err)

    with np.errstate(all="ignore"):
        for h, g in zip(heads, head_grads, strict=True):
            ones = (np.ones(h.shape, Wide), np.zeros(h.shape, Wide))
            give(h.node, ones if g is None else (g.val.copy(), g.err.copy()))
        visited = []
        while todo:
            node = todo.pop(max(todo))
            visited.append(node)
            if node.spent:
                raise Refused("backward went through here already")
            zeros = [(np.zeros(s, Wide), np.zeros(s, Wide)) for s, _ in node.outs]
            grads = [at.pop((node.number, k), z) for k, z in enumerate(zeros)]
            for where, grad in zip(node.ins, node.pull(grads), strict=True):
                give(where, grad)
        for leaf, (val, err) in list(at.items()):
            x = leaf.array
            if x.grad is None or x.req == "null":
                continue
            if x.req == "add":
                total = rounded(x.grad.val + val, x.grad.err + err, x.dtype)
                val, err = total.val, total.err
            x.grad.val[...], x.grad.err[...] = val, err
        for node in visited:
            if any(a < node.number < b for a, b in _doubtful):
                raise Ambiguous
        if not retain:
            for node in visited:
                node.spent = True
                _doubtful.update(g for g in Tape.groups if g[0] < node.number < g[1])
    Tape.on = before
