"""Calls: operators bound to their static attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .aval import Aval, aval
from .compiler import for_platform, platform_of
from .hooks import operator_wrappers
from .jaxprs import cotangent, pullback, wanting
from .stats import stats


class Call:
    """One operator with its attributes; interned by :func:`bind`, so that equality is identity.

    ``fn`` takes arrays and returns an array or a tuple of arrays. ``many`` tells which, once the
    first inference has seen it. ``effect`` marks calls that must run although nobody reads them and
    that may fail at run time: their place in the user's code is kept with every record. ``from_host``
    are the operands that ``fn`` takes from the host's memory itself, where they wait there.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "effect",
        "fn",
        "forward",
        "from_host",
        "graph",
        "infer_cache",
        "name",
        "op",
        "places",
        "policy",
        "vjps",
    )

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        attrs: tuple[tuple[str, Any], ...] = (),
        *,
        effect: bool = False,
        op: Any = None,
    ):
        self.name = name
        self.fn = fn
        self.attrs = attrs
        self.effect = effect
        self.policy: Any = None  # the rematerialisation its program must be compiled for
        self.op = op
        self.forward: Call | None = None  # of a backward: the call it is the derivative of
        self.from_host: frozenset[int] = frozenset()
        self.graph: Any = None  # the Graph of which this is a call, or half a call
        self.places: list[Any] | None = None  # where it was recorded, of a call that will end (Tree.forget)
        self.infer_cache: dict[tuple[Any, ...], tuple[tuple[Aval, ...], bool]] = {}
        self.vjps: dict[Any, Call] = {}

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in self.attrs)
        return f"{self.name}({inner})"

    def __call__(self, *arrays: Any) -> Any:
        return self.fn(*arrays)

    def infer(self, avals: tuple[Any, ...], device: Any) -> tuple[tuple[Aval, ...], bool]:
        """Output avals for input avals (scalars stand as their kind), and whether ``fn`` gives a tuple."""
        key = (avals, device)
        found = self.infer_cache.get(key)
        if found is None:
            stats.inferred += 1
            structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
            with jax.enable_x64(True), for_platform(platform_of(device)):
                out = jax.eval_shape(self.fn, *structs)
            many = isinstance(out, (tuple, list))
            outs = tuple(aval(tuple(o.shape), np.dtype(o.dtype), device) for o in (out if many else (out,)))
            if len(self.infer_cache) > 10_000:
                self.infer_cache.clear()
            found = self.infer_cache[key] = (outs, many)
        return found

    def vjp(self, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool) -> Call:
        """The call computing the gradients of the wanted inputs from (inputs, given cotangents)."""
        key = (wants, has)
        found = self.vjps.get(key)
        if found is None:
            backward = Call("_backward_" + self.name, _make_vjp(self, wants, has, many), op=self.op)
            if self.op is not None:  # operators stay; a graph must not be held by its derivative
                backward.forward = self
            found = self.vjps.setdefault(key, backward)
        return found


place_now = threading.local()  # .label: where the step that is traced stands; kept while there are wrappers


def dressed(call: Call) -> Callable[..., Any]:
    """The function of an operator as the settings want it; a backward call dresses its forward itself."""
    fn = call.fn
    if call.op is not None and call.forward is None:
        for dress in operator_wrappers:
            fn = dress(call, fn)
    return fn


# What a dynamic scalar looks like to inference and to the program that receives it.
SCALARS = {
    "d": jax.ShapeDtypeStruct((), np.dtype("float64")),
    "q": jax.ShapeDtypeStruct((), np.dtype("int64")),
}


def _make_vjp(
    call: Call, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool
) -> Callable[..., Any]:
    n = len(wants)
    plain = wanting(call.fn, wants)
    operator = None if call.op is None else call
    del call  # a graph must not be held by its derivative

    def backward(*args: Any) -> tuple[Any, ...]:
        fn = dressed(operator) if operator_wrappers and operator is not None else plain
        inputs, given = args[:n], iter(args[n:])
        out, pull = pullback(fn, inputs, wants)
        outs = list(out) if many else [out]
        cotangents = [cotangent(o, next(given) if h else None) for h, o in zip(has, outs, strict=True)]
        return tuple(pull(type(out)(cotangents) if many else cotangents[0]))

    return backward


_calls: dict[Any, Call] = {}


def bind(
    name: str,
    fn: Callable[..., Any],
    attrs: tuple[tuple[str, Any], ...] = (),
    *,
    effect: bool = False,
    op: Any = None,
) -> Call:
    """The one Call of this function with these attributes (hashable values).

    Values that compare equal but are not the same to an operator (``1``, ``1.0`` and ``True``) are
    told apart by their types.
    """
    key = (name, fn, attrs, tuple(type(v) for _, v in attrs))
    found = _calls.get(key)
    if found is None:
        if attrs:
            kwargs = dict(attrs)

            def bound(*arrays: Any) -> Any:
                return fn(*arrays, **kwargs)
        else:
            bound = fn
        if len(_calls) > 50_000:  # attributes that never repeat must not pile up
            _calls.clear()
        found = _calls.setdefault(key, Call(name, bound, attrs, effect=effect, op=op))
    return found
