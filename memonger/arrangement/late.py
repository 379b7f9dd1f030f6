"""A backward pass in which what is computed again comes just before it is read.

Left to itself XLA's CPU backend computes again early what depends on no gradient, and has it wait. Here costly work of
that kind waits itself: what it reads passes a barrier together with the gradients that are made before its turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import jax
from jax import lax
from jax.extend.core import Literal

from mxjax.core.graph.jaxprs import bound

from ..model.primitives import is_costly, nbytes

WORTH = 2**16  # bytes of an array that is worth a barrier


def late(closed: Any, residuals: int, arrays: Set[Any]) -> Any:
    """A closed jaxpr without calls in another order of work.

    Args:
      residuals: so many of its operands come first and are no gradients.
      arrays: what XLA would have in memory: nothing else passes a barrier.
    """
    jaxpr = closed.jaxpr
    given = _given(jaxpr, residuals)
    order = _order(jaxpr, given)
    ties = _ties(jaxpr, order, given, arrays)
    if not ties:
        return closed

    def run(*args: Any) -> list[Any]:
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

        def value(v: Any) -> Any:
            return v.val if isinstance(v, Literal) else env[v]

        for at in order:
            e = jaxpr.eqns[at]
            with jax.named_scope(str(e.source_info.name_stack)):
                if at in ties:
                    env.update(zip(ties[at], lax.optimization_barrier([env[v] for v in ties[at]]), strict=True))
                env.update(zip(e.outvars, bound(e, [value(v) for v in e.invars], e.params), strict=True))
        return [value(v) for v in jaxpr.outvars]

    return jax.make_jaxpr(run)(*closed.in_avals)


def _given(jaxpr: Any, residuals: int) -> set[Any]:
    """The gradients, and what is made of any."""
    found = set(jaxpr.invars[residuals:])
    for e in jaxpr.eqns:
        if _is_barrier(e):  # each passes by itself
            pairs = zip(e.invars, e.outvars, strict=True)
            found.update(w for v, w in pairs if not isinstance(v, Literal) and v in found)
        elif not found.isdisjoint(_reads(e)):
            found.update(e.outvars)
    return found


def _waits(e: Any, given: Set[Any]) -> bool:
    """Whether an equation is done as late as may be, for what reads it. What has effects keeps its place."""
    return not _is_barrier(e) and not e.effects and given.isdisjoint(e.outvars)


def _order(jaxpr: Any, given: Set[Any]) -> list[int]:
    """The equations in order of work."""
    eqns = jaxpr.eqns
    turns = list(range(len(eqns)))
    first = {v: len(eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}  # at whose turn it is read first
    for at in reversed(turns):
        e = eqns[at]
        if _waits(e, given):
            turns[at] = min((first[v] for v in e.outvars if v in first), default=at)
        for v in _reads(e):
            first[v] = min(first.get(v, turns[at]), turns[at])
    return sorted(range(len(eqns)), key=lambda at: (turns[at], at))


def _ties(jaxpr: Any, order: Sequence[int], given: Set[Any], arrays: Set[Any]) -> dict[int, list[Any]]:
    """What passes a barrier, by the equations before which it does."""
    eqns = jaxpr.eqns
    last = {v: turn for turn, at in enumerate(order) for v in _reads(eqns[at])}
    last |= {v: len(eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}
    found: dict[int, list[Any]] = {}
    fresh: list[Any] = []  # gradients since the last barrier
    group: list[int] = []  # of equations that wait, and that one follows the other
    for turn, at in enumerate(order):
        e = eqns[at]
        if _waits(e, given):
            group.append(at)
            continue
        if any(is_costly(eqns[k].primitive.name) and nbytes(eqns[k].outvars[0].aval) >= WORTH for k in group):
            made = {v for k in group for v in eqns[k].outvars}
            reads = dict.fromkeys(v for k in group for v in _reads(eqns[k]) if v not in made)
            taken = [v for v in reads if v in arrays and nbytes(v.aval) >= WORTH]
            fresh = [v for v in fresh if last.get(v, -1) >= turn - len(group) and nbytes(v.aval) >= WORTH]
            if taken and fresh:
                found[group[0]] = list(dict.fromkeys((*taken, *fresh)))
        group = []
        own = [v for v in e.outvars if v in given]
        fresh = own if _is_barrier(e) else fresh + [v for v in own if v in arrays]
    return found


def _is_barrier(e: Any) -> bool:
    return bool(e.primitive.name == "optimization_barrier")


def _reads(e: Any) -> Iterator[Any]:
    return (v for v in e.invars if not isinstance(v, Literal))
