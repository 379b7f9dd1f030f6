"""A trace as bytes: what NumPy's rules look at in a jaxpr, in plain objects with the names that JAX's have.

Dimensions are JAX's own, made anew. What is not known here raises: such a trace is not kept (`kept_traces.py`).

The bytes are JSON, so that reading them runs nothing of theirs: a list of objects, each the name of what makes it, one
of `_MAKES`, with its arguments. What came before in the list is an argument by its number: variables are the same ones.
"""

from __future__ import annotations

import base64
import collections
import enum
import functools
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._jax_private import find
from ..run.callback import refusing
from . import dims
from .numpy_control import BODIES, TERMS, body_of, of_scan

#: Larger constants are not kept.
_LARGE = 1 << 16
#: Parameters that NumPy's rules do not look at: what another parameter says, too, and where results lie.
_BESIDE = frozenset("computation layout out_sharding result_avals sharding".split())


class Unknown(ValueError):
    """What cannot be written, or was not written here."""


class Kept(NamedTuple):
    """What is kept of a trace (`symbolic.Trace`).

    ``closed``: a `Jaxpr`, or (`str`) why NumPy does not compute it. ``outs``: shape and dtype of each
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
    """Equations between variables, with constants where it is closed; without effects.

    One class for both, as from JAX 0.12 on: an open one is its own ``jaxpr``.
    """

    __slots__ = ("consts", "constvars", "eqns", "invars", "outvars")
    effects = ()

    def __init__(
        self,
        constvars: list[Var],
        invars: list[Var],
        eqns: list[Eqn],
        outvars: list[Var],
        consts: list[Any],
    ):
        self.constvars = constvars
        self.invars = invars
        self.eqns = eqns
        self.outvars = outvars
        self.consts = consts

    @property
    def jaxpr(self) -> Jaxpr:
        """Itself."""
        return self

    @property
    def in_avals(self) -> list[Aval]:
        """Of its operands."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Aval]:
        """Of its results."""
        return [v.aval for v in self.outvars]


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
    found = getattr(sys.modules.get(module), kind, None) if module.startswith("jax.") else None
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise Unknown(f"{module}.{kind}")
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
        *(Kept, Var, Literal, Eqn, Jaxpr),
        *(_dtype, _key_dtype, _generator, _array, _number, _plain, _refusal, _word, _record),
        *(_expression, _term, _factor),
    )
}


class _Writer:
    """Writes what is in a trace; raises `Unknown` where it meets what is not known here."""

    def __init__(self, scope: Any, tracing: Callable[[], Any]):
        self.made: list[Any] = []
        self._scope = scope  # of its dimensions
        self._tracing = tracing  # as of `body_of`
        self._numbers: dict[int, int] = {}  # of objects that were made, by identity
        self._held: list[Any] = []  # so that identities stay theirs

    def value(self, obj: Any) -> Any:
        """An argument: itself where JSON has it, else a list whose first element says what it is."""
        kind = type(obj)
        if obj is None or kind in (bool, int, float, str):
            return obj
        if kind in (list, tuple):
            return [kind.__name__, *map(self.value, obj)]
        if kind is dict:
            return ["dict", *[[self.value(k), self.value(v)] for k, v in obj.items()]]
        if kind in (set, frozenset):
            return [kind.__name__, *map(self.value, sorted(obj, key=repr))]
        if kind is bytes:
            return ["bytes", base64.b64encode(obj).decode()]
        if kind is complex:
            return ["complex", obj.real, obj.imag]
        if obj is self._scope:
            return ["scope"]
        number = self._numbers.get(id(obj))
        if number is None:
            made, args = self._parts(obj)
            written = [made.__name__, *map(self.value, args)]
            number = self._numbers[id(obj)] = len(self.made)
            self._held.append(obj)
            self.made.append(written)
        return ["made", number]

    def _parts(self, obj: Any) -> tuple[Any, tuple[Any, ...]]:
        """What makes an object, and of what."""
        kind = type(obj)
        writes = _WRITES.get(kind.__name__)
        if writes is not None and (
            kind.__module__.startswith("jax.") or kind.__module__ == __name__
        ):
            return writes(obj)  # type: ignore[no-any-return]
        if kind.__name__ == "JaxprEqn":
            return _of_equation(obj, self._tracing)  # type: ignore[no-any-return]
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
        raise Unknown(repr(kind))


def _parts(value: Any) -> Any:
    data = np.asarray(value)
    if data.nbytes > _LARGE or data.dtype.hasobject:
        raise Unknown("a large constant")
    return data.tobytes(), data.dtype, data.shape


def _of_var(v: Any) -> Any:
    return Var, (v.aval.shape, v.aval.dtype)


def _of_literal(v: Any) -> Any:
    value = np.asarray(v.val, v.aval.dtype)
    return Literal, (value, v.aval.shape, v.aval.dtype)


def _of_jaxpr(j: Any) -> Any:
    """Of an open one or, with its constants, a closed one."""
    if j.effects:
        raise Unknown("effects")
    consts = [np.asarray(k) for k in getattr(j, "consts", ())]
    j = getattr(j, "jaxpr", j)
    return Jaxpr, ([*j.constvars], [*j.invars], [*j.eqns], [*j.outvars], consts)


def _of_equation(e: Any, tracing: Callable[[], Any]) -> Any:
    name, params = e.primitive.name, e.params
    if name in TERMS:
        name, params = "closed_call", {"jaxpr": body_of(e, tracing)}
    elif name == "scan":
        params = of_scan(params)
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
    "ClosedJaxpr": _of_jaxpr,
    "KeyTy": lambda d: (_key_dtype, (d._impl.name,)),
    "PRNGImpl": lambda g: (_generator, (g.name,)),
    "_DimExpr": lambda n: (_expression, (n._sorted_terms, n._scope)),
    "_DimTerm": lambda t: (_term, (t._factors,)),
    "_DimFactor": lambda f: (_factor, (f.var, f.operation, *f.operands)),
    "Kept": lambda t: (Kept, tuple(t)),
}


_OF_SEVERAL: dict[Any, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class _Reader:
    """Reads a trace; ``scope``: of its dimensions."""

    def __init__(self, scope: Any):
        self.made: list[Any] = []
        self._scope = scope

    def value(self, written: Any) -> Any:
        """The argument that stands so."""
        if type(written) is not list:
            return written
        what, *rest = written
        if what == "made":
            (number,) = rest
            return self.made[number]
        several = _OF_SEVERAL.get(what)
        if several is not None:
            return several([self.value(v) for v in rest])
        if what == "dict":
            return {self.value(k): self.value(v) for k, v in rest}
        if what == "bytes":
            (text,) = rest
            return base64.b64decode(text, validate=True)
        if what == "complex":
            return complex(*rest)
        if what == "scope":
            return self._scope
        raise Unknown(repr(what))


def packed(trace: Kept, symbols: Sequence[Any], tracing: Callable[[], Any]) -> bytes:
    """A trace as bytes; raises where there is something in it that is not known here."""
    writer = _Writer(symbols[0].scope if symbols else None, tracing)
    last = writer.value(trace)
    return json.dumps([*writer.made, last], separators=(",", ":")).encode()


def unpacked(data: bytes, bounds: Sequence[tuple[int, int]]) -> Kept:
    """The trace that was packed, whose symbols have these bounds.

    Raises:
      Exception: of any kind, where the bytes were not written here.
    """
    reader = _Reader(_scope(tuple(bounds)))
    whole = json.loads(data)
    if type(whole) is not list:
        raise Unknown(type(whole).__name__)
    *made, last = whole
    for name, *args in made:
        reader.made.append(_MAKES[name](*map(reader.value, args)))
    found: Kept = reader.value(last)
    return found


@functools.lru_cache(256)
def _scope(bounds: tuple[tuple[int, int], ...]) -> Any:
    return dims.symbols(bounds)[0].scope if bounds else None
