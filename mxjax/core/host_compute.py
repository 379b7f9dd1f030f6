"""A few whole numbers, computed by NumPy where they are instead of by a program.

A recorded segment of such calls is traced once and its primitives are interpreted, so dtypes are those of
the program that is not compiled. Only primitives whose results are exact are known here (of floats those that do
not round): what is computed does not depend on who computes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import settings
from . import compiler
from .aval import Aval
from .call import SCALARS
from .hooks import operator_wrappers, trace_watchers
from .program import run_steps
from .segment import Step
from .stats import stats
from .value import Value, place

#: Elements of an array that may be computed so, as in MegEngine: it has room for the lengths of a shape.
SMALL = 7
#: Longer segments are compiled without a look.
LONGEST = 32


#: Where arrays are in the host's memory anyway.
AT_HOME: tuple[str, ...] = ("cpu",)


def stays(array: np.ndarray, device: Any) -> bool:
    """Whether an array from the host waits there for its first program, because NumPy may compute with it."""
    small = array.size <= SMALL and array.dtype.kind in "iub" and array.itemsize < 8
    return small and compiler.platform_of(device) not in AT_HOME and _on()


class NotHere(Exception):
    """These numbers are left to the program."""


def _whole_division(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient (towards zero) and remainder of whole numbers."""
    if (np.asarray(y) == 0).any():
        raise NotHere  # XLA has an answer of its own
    low = np.iinfo(x.dtype).min
    if low and ((x == low) & (np.asarray(y) == -1)).any():
        raise NotHere
    rest = np.fmod(x, y)
    return (x - rest) // y, rest


def _div(x: Any, y: Any) -> Any:
    return _whole_division(x, y)[0]


def _rem(x: Any, y: Any) -> Any:
    return _whole_division(x, y)[1]


def _convert(x: Any, *, new_dtype: Any, **_: Any) -> Any:
    if x.dtype.kind == "f" and new_dtype.kind in "iu":
        info = np.iinfo(new_dtype)
        if not ((x > info.min) & (x < info.max)).all():  # NaN, too
            raise NotHere
    return x.astype(new_dtype)


def _power(x: Any, *, y: int) -> Any:
    if y < 0:
        raise NotHere
    return np.power(x, y)


def _sign(x: Any) -> Any:
    return np.where((x == 0) | np.isnan(x), x, np.copysign(1, x)) if x.dtype.kind == "f" else np.sign(x)


def _select(which: Any, *cases: Any) -> Any:
    return np.choose(which.astype(np.intp), cases)


def _broadcast(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    lengths = [1] * len(shape)
    for at, n in zip(broadcast_dimensions, x.shape, strict=True):
        lengths[at] = n
    return np.broadcast_to(x.reshape(lengths), shape)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (None,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    first = [min(max(int(i), 0), n - size) for i, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple(slice(i, i + size) for i, size in zip(first, slice_sizes, strict=True))]


def _reduced(fn: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, *, axes: Any, **_: Any) -> Any:
        return fn(x, axis=tuple(axes), dtype=x.dtype) if fn in (np.sum, np.prod) else fn(x, axis=tuple(axes))

    return reduce


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs, **_: fn(*xs)


#: What NumPy computes, by the names of JAX's primitives.
TABLE: dict[str, Callable[..., Any]] = {
    "abs": _plain(np.abs), "add": _plain(np.add), "and": _plain(np.bitwise_and), "ceil": _plain(np.ceil),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high), "copy": _plain(np.copy),
    "copy_p": _plain(np.copy), "div": _plain(_div), "eq": _plain(np.equal), "floor": _plain(np.floor),
    "ge": _plain(np.greater_equal), "gt": _plain(np.greater), "le": _plain(np.less_equal), "lt": _plain(np.less),
    "max": _plain(np.maximum), "min": _plain(np.minimum), "mul": _plain(np.multiply), "ne": _plain(np.not_equal),
    "neg": _plain(np.negative), "not": _plain(np.invert), "or": _plain(np.bitwise_or), "rem": _plain(_rem),
    "sign": _plain(_sign), "square": _plain(np.square), "sub": _plain(np.subtract), "xor": _plain(np.bitwise_xor),
    "broadcast_in_dim": _broadcast, "convert_element_type": _convert, "integer_pow": _power,
    "dynamic_slice": _dynamic_slice,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "iota": lambda *, dtype, shape, dimension, **_: _broadcast(
        np.arange(shape[dimension], dtype=dtype), shape=shape, broadcast_dimensions=(dimension,)),
    "reduce_and": _reduced(np.all), "reduce_max": _reduced(np.max), "reduce_min": _reduced(np.min),
    "reduce_or": _reduced(np.any), "reduce_prod": _reduced(np.prod), "reduce_sum": _reduced(np.sum),
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "select_n": _select, "slice": _slice,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
}  # fmt: skip
#: Primitives that only hold others.
_INNER = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}


def _fits(a: Any) -> bool:
    """Whole numbers up to SMALL; of others one, which no order of summing can change."""
    dtype, size = a.dtype, math.prod(a.shape)
    if getattr(a, "memory", None) is not None or not isinstance(dtype, np.dtype):
        return False
    return size <= SMALL if dtype.kind in "iub" else size == 1 and dtype in (np.float32, np.float64)


#: What XLA may round otherwise in floats: a product and a sum at once, a quotient as a product.
_ROUNDING = frozenset({"add", "sub", "mul", "div", "rem", "square", "integer_pow"})


def _known(jaxpr: Any) -> bool:
    """Whether NumPy computes this to the last bit."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _INNER:
            if not _known(eqn.params[_INNER[name]].jaxpr):
                return False
        elif name not in TABLE or (name in _ROUNDING and eqn.outvars[0].aval.dtype.kind == "f"):
            return False
        if not all(_fits(v.aval) for v in (*eqn.invars, *eqn.outvars)):
            return False
    return True


class HostPlan:
    """A segment as NumPy computes it; made by :func:`plan`."""

    __slots__ = ("_jaxpr", "_outs", "fmt")

    def __init__(self, jaxpr: Any, outs: Sequence[Aval], fmt: str):
        self._jaxpr = jaxpr
        self._outs = outs
        self.fmt = fmt

    def run(self, arrays: Sequence[Any], scalars: Sequence[Any], live: Sequence[int]) -> list[np.ndarray] | None:
        """The live results, or None: an input is not in the host's memory yet, or the program must decide."""
        given = []
        for a in arrays:
            if type(a) is not np.ndarray:
                if compiler.platform_of(a.sharding) != "cpu" or not a.is_ready():
                    return None
                a = np.asarray(a)
            given.append(a)
        given += [np.asarray(s, SCALARS[kind].dtype) for s, kind in zip(scalars, self.fmt, strict=True)]
        try:
            with np.errstate(all="ignore"):
                env = _interpret(self._jaxpr.jaxpr, self._jaxpr.consts, given)
        except NotHere:
            return None
        # Copies: what is broadcast or sliced shares memory that is no array of its own.
        return [np.array(env[k], self._outs[k].dtype, order="C") for k in live]


def _interpret(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = {}

    def value(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype) if hasattr(v, "val") else env[v]

    env.update(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))
    env.update(zip(jaxpr.invars, given, strict=True))
    for eqn in jaxpr.eqns:
        args = [value(v) for v in eqn.invars]
        inner = _INNER.get(eqn.primitive.name)
        if inner is not None:
            closed = eqn.params[inner]
            outs = _interpret(closed.jaxpr, closed.consts, args)
        else:
            outs = [np.asarray(TABLE[eqn.primitive.name](*args, **eqn.params))]
        env.update(zip(eqn.outvars, outs, strict=True))
    return [value(v) for v in jaxpr.outvars]


def plan(step: Step, device: Any) -> HostPlan | None:
    """How NumPy computes the segment that ends with this step; None where a program does."""
    if step.effects or step.depth > LONGEST or not isinstance(device, jax.Device):
        return None
    if operator_wrappers or trace_watchers:
        return None
    path = step.path()
    outs = [a for s in path for a in s.avals]
    avals = [a for s in path for a in s.new_ins]
    if any(s.call.graph is not None for s in path) or not all(map(_fits, (*outs, *avals))):  # type: ignore[union-attr]
        return None
    structs = [a.struct for a in avals] + [SCALARS[kind] for kind in step.fmt]

    def run(*arrays: Any) -> list[Any]:
        env = run_steps(path, arrays[: len(avals)], arrays[len(avals) :])
        return [env[k] for k in range(step.n_outs)]

    with jax.enable_x64(True), compiler.for_platform(compiler.platform_of(device)):
        jaxpr = jax.make_jaxpr(run)(*structs)
    return HostPlan(jaxpr, outs, step.fmt) if _known(jaxpr.jaxpr) else None


_on = settings.snapshot("engine.host_compute")


def computed_here(
    step: Step, outs: Sequence[Value], arrays: Sequence[Any], scalars: Sequence[Any], live: Sequence[int], device: Any
) -> bool:
    """Compute what is live of a segment by NumPy; False where a program must (`engine.host_compute`)."""
    if not _on():
        return False
    if step.host is None:
        step.host = plan(step, device) or False
    results = step.host.run(arrays, scalars, live) if step.host else None
    if results is None:
        return False
    stats.on_host += 1
    for v, r in zip(outs, results, strict=True):
        # Programs take NumPy's 64-bit numbers in JAX's 64-bit mode only: these travel now.
        v.arr = r if r.itemsize < 8 else place(r, device)
        v.shared = True  # NumPy's memory: no program may write over it
        v.step = step
        v.seg = None
    return True
