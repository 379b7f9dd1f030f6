"""Tools for functions under JAX: their pullbacks and what these keep, and jaxprs evaluated equation by equation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.lax import convert_element_type_p

from ..._jax_private import find
from ..interpret.dims import are_same, symbolic_in
from . import tracing
from .primitives import AGAIN


def bodies(params: Any) -> Iterator[Any]:
    """The jaxprs among an equation's parameters (``jax.extend``, which has this too, takes 20 ms: Pallas is in it)."""
    for value in params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield inner


def differentiable(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def pullback(
    fn: Callable[..., Any], inputs: Sequence[Any], wants: Sequence[bool]
) -> tuple[Any, Any]:
    """A function's result, and its pullback by the wanted inputs: ``jax.vjp`` with the others held fixed."""
    found = tracing.pullback(fn, inputs, wants)
    if found is not None:
        return found
    wanted = [i for i, w in enumerate(wants) if w]

    def of_wanted(*diff: Any) -> Any:
        full = list(inputs)
        for i, d in zip(wanted, diff, strict=True):
            full[i] = d
        return fn(*full)

    return jax.vjp(of_wanted, *[inputs[i] for i in wanted])


def held(
    pull: Any, inputs: Sequence[Any], outs: Sequence[Any]
) -> tuple[list[tuple[str, int]], list[Any]]:
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


def once(
    plan: Sequence[tuple[str, int]], jaxpr: Any, outs: int
) -> tuple[list[tuple[str, int]], list[int]]:
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


def narrowed(
    plan: Sequence[tuple[str, int]], jaxpr: Any, lasting: range
) -> dict[int, tuple[int, Any]]:
    """Which arrays of a plan (:func:`held`) are 16-bit copies of these operands: the operand, and the dtype.

    A weight is there for the backward pass anyway, and to make it narrow again costs one look at it.
    """
    makers = {id(v): e for e in jaxpr.eqns for v in e.outvars}
    operands = {id(v): k for k, v in enumerate(jaxpr.invars)}
    found: dict[int, tuple[int, Any]] = {}
    for at, (kind, k) in enumerate(plan):
        made = makers.get(id(_origin(jaxpr.outvars[k], makers))) if kind == "kept" else None
        if made is not None and made.primitive is convert_element_type_p:
            of = operands.get(id(made.invars[0]))
            narrow = made.outvars[0].aval.dtype
            if (
                of is not None
                and of in lasting
                and narrow.itemsize == 2
                and made.invars[0].aval.dtype.itemsize > 2
            ):
                found[at] = of, narrow
    return found


def evaluate(
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[Any],
    one: Callable[[Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """The results of a jaxpr, where ``one`` gives those of an equation from its operands (:func:`bound`, or others)."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def value(v: Any) -> Any:
        return v.val if hasattr(v, "val") else env[v]  # a literal has its value with it

    for e in jaxpr.eqns:
        env.update(zip(e.outvars, one(e, list(map(value, e.invars))), strict=True))
    return list(map(value, jaxpr.outvars))


def bound(e: Any, given: Sequence[Any], params: Any) -> list[Any]:
    """The results of an equation's primitive, with these operands and parameters."""
    found: Any = e.primitive.bind(*given, **e.primitive.get_bind_params(params))
    return list(found) if e.primitive.multiple_results else [found]


def named(e: Any) -> AbstractContextManager[Any]:
    """While an equation is bound anew: the names that profiles show it under."""
    context, current = find("user_context"), find("current_name_stack")
    if context is None or current is None:
        return nullcontext()
    return context(None, name_stack=current() + e.source_info.name_stack)  # type: ignore[no-any-return]


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
    """The form of a function for its derivative by those inputs, where it has one (`hooks.RematPolicy`)."""
    form = getattr(fn, "wanting", None)
    return fn if form is None else form(wants)


def cotangent(out: Any, given: Any) -> Any:
    """A cotangent in the form ``jax.vjp`` asks for: zeros where none came, float0 for integers."""
    if not differentiable(out.dtype):
        return np.zeros(out.shape, dtypes.float0)
    if given is None:
        return jnp.zeros(out.shape, out.dtype)
    if symbolic_in((*out.shape, *given.shape)) and not are_same(out.shape, given.shape):
        # It has the result's shape, which follows from the operands': JAX is not to compare symbols of its own with it.
        given = jax.lax.reshape_p.bind(
            given, new_sizes=tuple(out.shape), dimensions=None, sharding=None
        )
    return given.astype(out.dtype) if given.dtype != out.dtype else given


def whole_gradients(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    wants: Sequence[bool],
    has: Sequence[bool],
    given: Sequence[Any],
) -> tuple[Any, ...]:
    """The gradients of the wanted inputs where they, or results with a cotangent, are integers or bools.

    MXNet has the formula of the derivative run in the array's own dtype. Here it is run in float64 and cut down to
    whole numbers; zeros where the function takes none but integers.
    """
    full = [_as_float(x) if w else x for x, w in zip(inputs, wants, strict=True)]
    moving = [w and differentiable(x.dtype) for x, w in zip(full, wants, strict=True)]
    found: Any = iter(())
    if any(moving):
        # Two tries: the others may be indices, or have to be of one dtype with those that are wanted.
        for operands in (full, [_as_float(x) for x in full]):
            try:
                out, pull = pullback(fn, operands, moving)
                break
            except (TypeError, ValueError, IndexError, NotImplementedError):
                if any(not isinstance(n, int) for x in full for n in x.shape):
                    raise  # for lengths that are symbols alone: with numbers it may do
        else:
            moving = [False] * len(moving)
        if any(moving):
            outs, cts = (out if isinstance(out, (list, tuple)) else [out]), iter(given)
            made = [cotangent(o, next(cts) if h else None) for o, h in zip(outs, has, strict=True)]
            found = iter(pull(type(out)(made) if isinstance(out, (list, tuple)) else made[0]))
    return tuple([
        next(found).astype(x.dtype) if m else jnp.zeros(x.shape, x.dtype)
        for x, m, w in zip(inputs, moving, wants, strict=True) if w
    ])  # fmt: skip


def _as_float(x: Any) -> Any:
    return x.astype("float64") if x.dtype.kind in "biu" else x


TRACES = 2048  # where JAX bounds its other caches


def bound_traces() -> None:
    """Let JAX forget what it traced, where that is much: this cache of its has no bound of its own.

    It has an entry for each function of jnp and of ours, and each shape that it ever took: of small networks, each of
    another size, half a megabyte apiece. What is compiled stays, and so does what is inferred of our calls.
    """
    context, traces = find("trace_ctx"), find("trace_to_jaxpr")
    try:
        if traces.cache_info().currsize > TRACES and context.is_top_level():
            traces.cache_clear()
    except AttributeError:  # another JAX
        pass


def is_staged() -> bool:
    """Whether JAX is tracing a function that it will run later, again and again."""
    return type(_trace()).__name__ == "DynamicJaxprTrace"


def is_shared_out() -> bool:
    """Whether ``jax.shard_map`` runs a function as it is, outside of jax.jit: nothing may be put on a device then.

    So it does where it differentiates or vectorises that function, too.
    """
    trace = _trace()
    while trace is not None and type(trace).__name__ != "ShardMapTrace":
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def _trace() -> Any:
    return getattr(find("trace_ctx"), "trace", None)


def are_used(fn: Callable[..., Any], avals: Sequence[Any], first: int) -> bool:
    """Whether some result of a function depends on one of its first arguments, as its jaxpr says."""
    jaxpr = jax.make_jaxpr(fn)(*[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]).jaxpr
    live = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    for e in reversed(jaxpr.eqns):
        if e.effects or not live.isdisjoint(e.outvars):
            live.update(v for v in e.invars if not hasattr(v, "val"))
    return not live.isdisjoint(jaxpr.invars[:first])


#: JAX's primitives of scans; on GPUs they are windows that reach to the beginning.
_SCANS = frozenset(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"))


def keeps_apart(jaxpr: Any) -> bool:
    """Whether a gradient in it is to stay apart from its forward pass (`jax.checkpoint`)."""
    for e in jaxpr.eqns:
        if e.primitive.name in AGAIN and e.params.get("differentiated"):
            return True
        if any(map(keeps_apart, bodies(e.params))):
            return True
    return False


def count_scans(jaxpr: Any) -> int:
    """How many running sums, products and the like are in it."""
    found = 0
    for e in jaxpr.eqns:
        found += e.primitive.name in _SCANS
        found += sum(map(count_scans, bodies(e.params)))
    return found


def draws(jaxpr: Any) -> bool:
    """Whether random bits are drawn in it."""
    return any(
        e.primitive.name == "random_bits" or any(map(draws, bodies(e.params))) for e in jaxpr.eqns
    )


def arrays_in(jaxpr: Any) -> tuple[int, int]:
    """The bytes of the largest array that is computed in it, and of all; bodies of calls and loops included."""
    largest = total = 0
    for e in jaxpr.eqns:
        sizes = [_bytes(v.aval) for v in e.outvars]
        inner = list(map(arrays_in, bodies(e.params)))
        largest = max([largest, *sizes, *(a for a, _ in inner)])
        total += sum(b for _, b in inner) if inner else sum(sizes)
    return largest, total


def _bytes(aval: Any) -> int:
    lengths = [n for n in getattr(aval, "shape", ()) if isinstance(n, int)]
    return math.prod(lengths) * int(getattr(getattr(aval, "dtype", None), "itemsize", 0))


def computes_complex(jaxpr: Any) -> bool:
    """Whether there are complex numbers in it."""
    for e in jaxpr.eqns:
        if any(getattr(getattr(v.aval, "dtype", None), "kind", None) == "c" for v in e.outvars):
            return True
        if any(map(computes_complex, bodies(e.params))):
            return True
    return False
