"""Calls: operators bound to their static attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from .aval import Aval, aval
from .compiler import for_platform, platform_of
from .stats import stats

# What `jax.checkpoint` is called in a jaxpr, by version of JAX.
AGAIN = frozenset({"checkpoint", "remat", "remat2"})
# Calls in a jaxpr that are nothing but their bodies.
INLINED = frozenset({"closed_call", "core_call", "jit", "pjit"})


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


# While a program is traced: each may put another function in an operator's place, of equal shapes and dtypes
# (precision, lowerings), and each sees every step with its operands and results (dumps, watches).
dressers: list[Callable[[Call, Callable[..., Any]], Callable[..., Any]]] = []
watchers: list[Callable[[Any, Any, Any], None]] = []


place_now = threading.local()  # .label: where the step that is traced stands; kept while there are dressers


def dressed(call: Call) -> Callable[..., Any]:
    """The function of an operator as the settings want it; a backward call dresses its forward itself."""
    fn = call.fn
    if call.op is not None and call.forward is None:
        for dress in dressers:
            fn = dress(call, fn)
    return fn


# What a dynamic scalar looks like to inference and to the program that receives it.
SCALARS = {
    "d": jax.ShapeDtypeStruct((), np.dtype("float64")),
    "q": jax.ShapeDtypeStruct((), np.dtype("int64")),
}


def differentiable(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def _make_vjp(
    call: Call, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool
) -> Callable[..., Any]:
    n = len(wants)
    plain = wanting(call.fn, wants)
    operator = None if call.op is None else call
    del call  # a graph must not be held by its derivative

    def backward(*args: Any) -> tuple[Any, ...]:
        fn = dressed(operator) if dressers and operator is not None else plain
        inputs, given = args[:n], iter(args[n:])
        out, pull = pullback(fn, inputs, wants)
        outs = list(out) if many else [out]
        cotangents = [cotangent(o, next(given) if h else None) for h, o in zip(has, outs, strict=True)]
        return tuple(pull(type(out)(cotangents) if many else cotangents[0]))

    return backward


def pullback(fn: Callable[..., Any], inputs: Sequence[Any], wants: Sequence[bool]) -> tuple[Any, Any]:
    """A function's result, and its pullback by the wanted inputs: ``jax.vjp`` with the others held fixed."""
    wanted = [i for i, w in enumerate(wants) if w]

    def of_wanted(*diff: Any) -> Any:
        full = list(inputs)
        for i, d in zip(wanted, diff, strict=True):
            full[i] = d
        return fn(*full)

    return jax.vjp(of_wanted, *[inputs[i] for i in wanted])


def held(pull: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> tuple[list[tuple[str, int]], list[Any]]:
    """What a pullback keeps, while the function is traced.

    For each of its leaves where it is: ``("in", i)`` and ``("out", i)``, operands and results themselves, or
    ``("kept", k)``, the k-th of the arrays returned besides, which exist for the pullback alone.
    """
    places = {id(x): ("in", i) for i, x in enumerate(inputs)}
    for i, x in enumerate(outs):
        places.setdefault(id(x), ("out", i))
    fresh: list[Any] = []
    plan = []
    for leaf in jax.tree_util.tree_leaves(pull):
        place = places.get(id(leaf))
        if place is None:
            place = places[id(leaf)] = ("kept", len(fresh))
            fresh.append(leaf)
        plan.append(place)
    return plan, fresh


def once(plan: Sequence[tuple[str, int]], jaxpr: Any, outs: int) -> tuple[list[tuple[str, int]], list[int]]:
    """A pullback's plan (:func:`held`) with each array in it once, though calls inside give back what they were given.

    Args:
      jaxpr: of a function that returns the arrays kept for the pullback, and then so many results.

    Returns:
      the plan, and which of the arrays are left.
    """
    makers = {id(v): e for e in jaxpr.eqns for v in e.outvars}
    results = jaxpr.outvars[len(jaxpr.outvars) - outs :]
    places = {id(v): ("in", i) for i, v in enumerate(jaxpr.invars)}
    for i, v in enumerate(results):
        places.setdefault(id(_origin(v, makers)), ("out", i))
    left: list[int] = []
    merged = []
    for kind, k in plan:
        if kind == "kept":
            origin = id(_origin(jaxpr.outvars[k], makers))
            if origin not in places:
                places[origin] = ("kept", len(left))
                left.append(k)
            kind, k = places[origin]
        merged.append((kind, k))
    return merged, left


def evaluate(
    jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], one: Callable[[Any, list[Any]], Sequence[Any]]
) -> list[Any]:
    """The results of a jaxpr, where ``one`` gives those of an equation from its operands (:func:`bound`, or others)."""
    from jax.extend.core import Literal

    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
    for e in jaxpr.eqns:
        found = one(e, [v.val if isinstance(v, Literal) else env[v] for v in e.invars])
        env.update(zip(e.outvars, found, strict=True))
    return [v.val if isinstance(v, Literal) else env[v] for v in jaxpr.outvars]


def bound(e: Any, given: Sequence[Any], params: Any) -> list[Any]:
    """The results of an equation's primitive, with these operands and parameters."""
    found: Any = e.primitive.bind(*given, **e.primitive.get_bind_params(params))
    return list(found) if e.primitive.multiple_results else [found]


def _origin(v: Any, makers: dict[int, Any]) -> Any:
    """The variable that this one is another name of, if checkpointed calls passed it on."""
    while (e := makers.get(id(v))) is not None and e.primitive.name in AGAIN:
        body = e.params["jaxpr"]
        inner = body.outvars[e.outvars.index(v)]
        place = next((i for i, w in enumerate(body.invars) if w is inner), None)
        if place is None:
            break
        v = e.invars[place]
    return v


def wanting(fn: Callable[..., Any], wants: Sequence[bool]) -> Callable[..., Any]:
    """The form of a function for its derivative by those inputs, where it has one (`interfaces.RematPolicy`)."""
    form = getattr(fn, "wanting", None)
    return fn if form is None else form(wants)


def cotangent(out: Any, given: Any) -> Any:
    """A cotangent in the form ``jax.vjp`` asks for: zeros where none came, float0 for integers."""
    if not differentiable(out.dtype):
        return np.zeros(out.shape, dtypes.float0)
    if given is None:
        return jnp.zeros(out.shape, out.dtype)
    return given.astype(out.dtype) if given.dtype != out.dtype else given


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
