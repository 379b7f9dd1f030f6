"""What one call costs to run again, and what its derivative asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.extend.core import Literal, jaxprs_in_params

from mxjax.core import SCALARS, compiler
from mxjax.core.graph.jaxprs import held, once, pullback
from mxjax.core.graph.primitives import AGAIN, CUSTOM, FREE, INLINED
from mxjax.hlo import counts

from .primitives import is_costly, nbytes, primitives, tupled

if TYPE_CHECKING:
    from mxjax.core import Call

# Operations a processor can do in the time it takes to move one byte: what has fewer per byte is paid
# for by its bytes (the roofline of Williams et al. 2009). Only ratios between calls matter.
INTENSITY = {"cpu": 8.0, "gpu": 24.0, "tpu": 120.0}

# Calls inside of which one looks.
_OPENED = AGAIN | INLINED | CUSTOM


class Price(NamedTuple):
    """One call on arrays of known shapes.

    ``flops`` is its arithmetic as XLA counts it; ``cost`` the same in the time of the processor at hand,
    as operations. Its derivative reads the operands ``ins``, the results ``outs`` and ``inner`` bytes of
    its own. Where all results are kept the last are made from the operands and results ``with_results``; elsewhere
    both are made again from the operands ``again`` at ``inner_cost``.
    """

    flops: float
    cost: float
    ins: frozenset[int]
    outs: frozenset[int]
    inner: int
    again: frozenset[int]
    with_results: tuple[frozenset[int], frozenset[int]]
    inner_flops: float
    inner_cost: float
    costly: bool


class Kept(NamedTuple):
    """What a function's pullback holds: operands, results, and bytes of anything else but constants.

    The last are made from the operands and results ``with_results`` (relu's sign from its result), or, as the
    results that it holds, from the operands ``again`` by ``primitives``.
    """

    ins: frozenset[int]
    outs: frozenset[int]
    inner: int
    again: frozenset[int]
    with_results: tuple[frozenset[int], frozenset[int]]
    primitives: frozenset[str]


@lru_cache(maxsize=4096)
def price(call: Call, avals: tuple[Any, ...], wants: tuple[bool, ...], platform: str) -> Price:
    """The price of a call.

    Args:
      avals: of the operands; dynamic scalars stand as their kinds.
      wants: the operands that are differentiated.
    """
    structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
    intensity = INTENSITY.get(platform, INTENSITY["cpu"])
    with jax.enable_x64(True), compiler.for_platform(platform):
        # A function of its own: JAX must not remember the trace for another platform.
        with compiler.counting():
            traced = jax.jit(lambda *a: call.fn(*a)).trace(*structs)
        outs = jax.tree_util.tree_leaves(traced.out_info)
        names = frozenset(primitives(traced.jaxpr.jaxpr))
        flops, moved = 0.0, 0
        if not names <= FREE:
            with compiler.counting():
                flops = counts(traced.lower()).get("flops", 0.0)
            moved = sum(nbytes(s) for s in (*structs, *outs))
        cost = max(flops, moved * intensity)
        costly = any(map(is_costly, names))
        if not any(wants):
            none: frozenset[int] = frozenset()
            return Price(flops, cost, none, none, 0, none, (none, none), 0.0, 0.0, costly)
        with compiler.short_of_memory(all_kept=True):
            found = kept(call.fn, structs, wants)
    inner_flops = inner_cost = 0.0
    if found.inner or found.outs:
        if any(map(is_costly, found.primitives)):
            inner_flops, inner_cost = flops, cost
        else:
            # Fused into the loops that need it, which have read what it is made of: no bytes are moved for it.
            inner_flops = 0.0 if costly or found.primitives <= FREE else flops
            inner_cost = inner_flops
    return Price(flops, cost, *found[:5], inner_flops, inner_cost, costly)


def kept(fn: Callable[..., Any], structs: Sequence[Any], wants: Sequence[bool]) -> Kept:
    """What the derivative of a function keeps, found without running it."""
    plan: list[tuple[str, int]] = []

    def probe(*inputs: Any) -> Any:
        out, pull = pullback(tupled(fn), inputs, wants)
        plan[:], fresh = held(pull, inputs, out)
        return fresh, out

    with jax.enable_x64(True):
        jaxpr, (rest, results) = jax.make_jaxpr(probe, return_shape=True)(*structs)
    plan, left = once(plan, jaxpr.jaxpr, len(results))
    inner = []
    turned: set[int] = set()
    for k in left:
        operands, _, by = sliced(jaxpr.jaxpr, [k])
        if by == {"transpose"}:  # the operand itself: XLA gives it the order that is read
            turned |= operands
        elif (
            operands
        ):  # where relu's derivative is zero it reads zeros, which are nowhere kept in a program
            inner.append(k)
    outs = frozenset(i for kind, i in plan if kind == "out")
    again, _, names = sliced(jaxpr.jaxpr, [*inner, *[len(rest) + i for i in outs]])
    less, read, _ = sliced(jaxpr.jaxpr, inner, len(results))
    return Kept(
        frozenset(turned.union(i for kind, i in plan if kind == "in")),
        outs,
        sum(nbytes(rest[k]) for k in inner),
        frozenset(again),
        (frozenset(less), frozenset(read)),
        frozenset(names),
    )


def sliced(jaxpr: Any, outs: Iterable[int], given: int = 0) -> tuple[set[int], set[int], set[str]]:
    """The inputs on which some outputs of a jaxpr, and its effects, depend, the last outputs (so many are ``given``)
    that spare the way to what they are made of, and the primitives in between."""
    known = {id(v): k for k, v in enumerate(jaxpr.outvars[len(jaxpr.outvars) - given :])}
    wanted = {id(jaxpr.outvars[k]) for k in outs}
    names: set[str] = set()
    found: set[int] = set()
    for equation in reversed(jaxpr.eqns):
        used = [k for k, v in enumerate(equation.outvars) if id(v) in wanted]
        found.update(
            known[id(equation.outvars[k])] for k in used if id(equation.outvars[k]) in known
        )
        used = [k for k in used if id(equation.outvars[k]) not in known]
        if not used and not equation.effects:
            continue
        bodies = list(jaxprs_in_params(equation.params))
        reads = range(len(equation.invars))
        name = equation.primitive.name
        if name in _OPENED and len(bodies) == 1:
            reads, _, inner = sliced(bodies[0], used)  # type: ignore[assignment]
            names |= inner
        else:
            names.add(name)
            for body in bodies:
                names.update(primitives(body))
        wanted.update(
            id(equation.invars[k]) for k in reads if not isinstance(equation.invars[k], Literal)
        )
    return {k for k, v in enumerate(jaxpr.invars) if id(v) in wanted}, found, names
