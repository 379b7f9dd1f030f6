"""A trace as bytes: what NumPy's rules look at in a jaxpr, in plain objects with the names that JAX's have.

Dimensions are JAX's own, made anew. What is not known here raises: such a trace is not kept (`kept_traces.py`).
Nothing is called when bytes are read but what `_MAKES` lists.
"""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._jax_private import find
from ..run.callback import refusing
from . import dims
from .numpy_control import BODIES, TERMS, body_of

#: Larger constants are not kept.
_LARGE = 1 << 16
#: Parameters that NumPy's rules do not look at: what another parameter says, too, and where results lie.
_BESIDE = frozenset("computation layout out_sharding result_avals sharding".split())


class Kept(NamedTuple):
    """What is kept of a trace (`symbolic.Trace`).

    ``closed``: a `Closed`, or (`str`) why NumPy does not compute it. ``outs``: shape and dtype of each
    result. ``granted``: what it takes for granted of dimensions (`dims.granted`).
    """

    many: bool
    outs: tuple[Any, ...]
    size: tuple[Any, ...]
    granted: Any
    closed: Any


# ---- jaxprs without JAX


class Var:
    """A variable; of a literal, ``val`` is its value."""

    __slots__ = ("aval",)

    def __init__(self, shape: tuple[Any, ...], dtype: Any):
        self.aval = Aval(shape, dtype)


class Literal(Var):
    """A value in the place of a variable."""

    __slots__ = ("val",)

    def __init__(self, val: Any, shape: tuple[Any, ...], dtype: Any):
        super().__init__(shape, dtype)
        self.val = val


class Aval(NamedTuple):
    """Shape and dtype."""

    shape: tuple[Any, ...]
    dtype: Any


class Named(NamedTuple):
    """A primitive."""

    name: str


class Eqn:
    """An equation."""

    __slots__ = ("invars", "outvars", "params", "primitive")

    def __init__(self, name: str, params: dict[str, Any], invars: list[Var], outvars: list[Var]):
        self.primitive = Named(name)
        self.params = params
        self.invars = invars
        self.outvars = outvars


class Jaxpr:
    """Equations between variables; without effects."""

    __slots__ = ("constvars", "eqns", "invars", "outvars")
    effects = ()

    def __init__(
        self, constvars: list[Var], invars: list[Var], eqns: list[Eqn], outvars: list[Var]
    ):
        self.constvars = constvars
        self.invars = invars
        self.eqns = eqns
        self.outvars = outvars


class Closed:
    """A jaxpr with its constants."""

    __slots__ = ("consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: list[Any]):
        self.jaxpr = jaxpr
        self.consts = consts

    @property
    def in_avals(self) -> list[Aval]:
        """Of its operands."""
        return [v.aval for v in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[Aval]:
        """Of its results."""
        return [v.aval for v in self.jaxpr.outvars]


# ---- what a file's objects are made by


def _dtype(name: str) -> Any:
    return jax.dtypes.float0 if name == "float0" else np.dtype(name)


@functools.cache
def _key_dtype(name: str) -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl=name)).dtype


def _generator(name: str) -> Any:
    return find("prngs")[name]


def _array(data: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
    if not dtype.itemsize:
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape)


def _word(module: str, kind: str, name: str) -> Any:
    if not module.startswith("jax."):
        raise pickle.UnpicklingError(module)
    found = getattr(importlib.import_module(module), kind)
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise pickle.UnpicklingError(kind)
    return found[name]


def _number(data: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
    return _array(data, dtype, shape)[()]


def _plain(number: float) -> Any:
    return number


def _refusal(message: str) -> Any:
    ask = refusing(message)
    return lambda holds: [ask(holds)]


@functools.cache
def _tuple_of(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)  # noqa: PYI024  (its fields are JAX's)


def _record(name: str, fields: tuple[str, ...], *values: Any) -> Any:
    return _tuple_of(name, fields)(*values)


def _expression(terms: tuple[Any, ...], scope: Any) -> Any:
    return _POLY._DimExpr(terms, scope)


def _term(factors: tuple[Any, ...]) -> Any:
    return _POLY._DimTerm(factors)


def _factor(var: str | None, operation: str | None, *operands: Any) -> Any:
    return _POLY._DimFactor(*operands, var=var, operation=operation)


_POLY: Any = find("shape_poly")
_MAKES: dict[str, Any] = {
    made.__name__: made
    for made in (
        *(Kept, Var, Literal, Eqn, Jaxpr, Closed),
        *(_dtype, _key_dtype, _generator, _array, _number, _plain, _refusal, _word, _record),
        *(_expression, _term, _factor),
    )
}


class _Pickler(pickle.Pickler):
    """Writes a trace; raises where it meets what is not known here."""

    scope: Any = None  # of its dimensions
    tracing: Callable[[], Any]  # as of `body_of`

    def persistent_id(self, obj: Any) -> Any:
        return "scope" if obj is self.scope and obj is not None else None

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if callable(obj) and _MAKES.get(getattr(obj, "__name__", "")) is obj:
            return NotImplemented
        writes = _WRITES.get(kind.__name__)
        if writes is not None and (
            kind.__module__.startswith("jax.") or kind.__module__ == __name__
        ):
            return writes(obj)
        if kind.__name__ == "JaxprEqn":
            return _of_equation(obj, self.tracing)
        if isinstance(obj, np.dtype):
            return _dtype, ("float0" if obj == jax.dtypes.float0 else obj.name,)
        if isinstance(obj, np.ndarray):
            return _array, _parts(obj)
        if isinstance(obj, np.generic):
            return _number, _parts(obj)
        if kind.__module__.startswith("jax.") and isinstance(obj, int | float):
            return _plain, (int(obj) if isinstance(obj, int) else float(obj),)
        message = getattr(getattr(obj, "callback_func", None), "refuses", None)
        if isinstance(message, str):
            return _refusal, (message,)
        if isinstance(obj, enum.Enum):
            return _word, (kind.__module__, kind.__qualname__, obj.name)
        if isinstance(obj, tuple) and hasattr(obj, "_fields"):
            return _record, (kind.__name__.lstrip("_"), obj._fields, *obj)
        raise pickle.PicklingError(repr(kind))


def _parts(value: Any) -> Any:
    data = np.asarray(value)
    if data.nbytes > _LARGE or data.dtype.hasobject:
        raise pickle.PicklingError("a large constant")
    return data.tobytes(), data.dtype, data.shape


def _of_var(v: Any) -> Any:
    return Var, (v.aval.shape, v.aval.dtype)


def _of_literal(v: Any) -> Any:
    value = np.asarray(v.val, v.aval.dtype)
    return Literal, (value, v.aval.shape, v.aval.dtype)


def _of_jaxpr(j: Any) -> Any:
    if j.effects:
        raise pickle.PicklingError("effects")
    return Jaxpr, ([*j.constvars], [*j.invars], [*j.eqns], [*j.outvars])


def _of_closed(c: Any) -> Any:
    return Closed, (c.jaxpr, [np.asarray(k) for k in c.consts])


def _of_equation(e: Any, tracing: Callable[[], Any]) -> Any:
    name, params = e.primitive.name, e.params
    if name in TERMS:
        name, params = "closed_call", {"jaxpr": body_of(e, tracing)}
    elif name in BODIES:
        params = {k: params[k] for k in BODIES[name] if k in params}
    else:
        params = {k: v for k, v in params.items() if k not in _BESIDE}
    return Eqn, (name, params, [*e.invars], [*e.outvars])


_WRITES: dict[str, Callable[[Any], Any]] = {
    "Var": _of_var,
    "DropVar": _of_var,
    "Literal": _of_literal,
    "Jaxpr": _of_jaxpr,
    "ClosedJaxpr": _of_closed,
    "KeyTy": lambda d: (_key_dtype, (d._impl.name,)),
    "PRNGImpl": lambda g: (_generator, (g.name,)),
    "_DimExpr": lambda n: (_expression, (n._sorted_terms, n._scope)),
    "_DimTerm": lambda t: (_term, (t._factors,)),
    "_DimFactor": lambda f: (_factor, (f.var, f.operation, *f.operands)),
    "Kept": lambda t: (Kept, tuple(t)),
}


class _Unpickler(pickle.Unpickler):
    """Reads a trace; ``scope``: of its dimensions."""

    scope: Any = None

    def persistent_load(self, pid: Any) -> Any:
        return self.scope

    def find_class(self, module: str, name: str) -> Any:
        found = _MAKES.get(name)
        if found is None or module != __name__:
            raise pickle.UnpicklingError(name)
        return found


def packed(trace: Kept, symbols: Sequence[Any], tracing: Callable[[], Any]) -> bytes:
    """A trace as bytes; raises where there is something in it that is not known here."""
    out = io.BytesIO()
    pickler = _Pickler(out, 5)
    pickler.scope = symbols[0].scope if symbols else None
    pickler.tracing = tracing
    pickler.dump(trace)
    return out.getvalue()


def unpacked(data: bytes, bounds: Sequence[tuple[int, int]]) -> Kept:
    """The trace that was packed, whose symbols have these bounds."""
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.scope = _scope(tuple(bounds))
    found: Kept = unpickler.load()
    return found


@functools.lru_cache(256)
def _scope(bounds: tuple[tuple[int, int], ...]) -> Any:
    return dims.symbols(bounds)[0].scope if bounds else None
