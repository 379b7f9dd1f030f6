"""Graphs whose gradients go through integers: MXNet has a formula for each call, JAX's derivative of the whole is 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..calls.aval import SCALARS
from ..calls.call import Call
from ..calls.segment import SCALAR, Step
from ..compile.compiler import wide_types
from .jaxprs import are_used

if TYPE_CHECKING:
    from .graph import Graph

Passes = Callable[[Step, int, int], bool]


def go_through_integers(graph: Graph, wants: Sequence[bool]) -> bool:
    """Whether a float result has a gradient by a wanted input that arrives there through integers.

    That a call passes gradients on is assumed between floats, at first; with integers, and where these are on a way,
    its own derivative is asked. A comparison, the place of a maximum and an index pass none.
    """
    known: dict[Any, bool] = {}
    avals: dict[int, Any] = {-1 - i: a for i, a in enumerate(graph.avals)}
    for step in graph.steps:
        avals.update(enumerate(step.avals, step.first))

    def asked(step: Step, i: int, k: int) -> bool:
        call = step.call
        if call is None or call.graph is not None or call.row.python is not None or call.effect:
            return False
        kinds: tuple[Any, ...] = tuple(
            [graph.fmt[n - SCALAR] if n >= SCALAR else avals[n] for n in step.args]
        )
        key = call, i, k, tuple([a if type(a) is str else (a.dtype, len(a.shape)) for a in kinds])
        if key not in known:
            known[key] = _passes(call, kinds, step, i, k)
        return known[key]

    def assumed(step: Step, i: int, k: int) -> bool:
        floats = avals[step.args[i]].differentiable and step.avals[k].differentiable
        return floats or asked(step, i, k)

    return _arrives(graph, wants, avals, assumed) and _arrives(graph, wants, avals, asked)


def _arrives(graph: Graph, wants: Sequence[bool], avals: Mapping[int, Any], passes: Passes) -> bool:
    # The numbers that have a gradient by a wanted input: whether there are integers on the way.
    there = {-1 - i: False for i, w in enumerate(wants) if w}
    for step in graph.steps:
        moving = [i for i, n in enumerate(step.args) if n in there]
        for k, made in enumerate(step.avals):
            ways = [step.args[i] for i in moving if passes(step, i, k)]
            if ways:
                there[step.first + k] = not made.differentiable or any([there[n] for n in ways])
    return any([there.get(k, False) and avals[k].differentiable for k in graph.outputs])


def _passes(call: Call, kinds: Sequence[Any], step: Step, i: int, k: int) -> bool:
    """Whether the gradient of the i-th operand depends on that of the k-th result."""
    if not call.row.differentiable:
        return False
    made = step.avals[k]
    many = call.infer(tuple(kinds), made.device)[1]
    wants = tuple([n == i for n in range(len(kinds))])
    has = tuple([n == k for n in range(len(step.avals))])
    derivative = call.vjp(wants, has, many)
    structs = [SCALARS[a] if type(a) is str else a.struct for a in kinds]
    with wide_types():
        return are_used(
            lambda given, *operands: derivative.fn(*operands, given), [made.struct, *structs], 1
        )
