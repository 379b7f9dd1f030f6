"""Which JAX primitives an operator consists of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
from jax.extend.core import Literal, jaxprs_in_params

from mxjax.core.graph.jaxprs import differentiable, held, pullback
from mxjax.core.graph.primitives import COSTLY, KEPT


def is_costly(primitive: str) -> bool:
    """Whether what it makes costs more to compute again than to read."""
    return primitive in COSTLY or primitive.startswith("convolution")


def nbytes(struct: Any) -> int:
    """Bytes of an array of this shape."""
    return int(struct.size) * int(struct.dtype.itemsize)


def primitives(fn: Callable[..., Any], structs: Sequence[Any]) -> frozenset[str]:
    """The names of all primitives in a function of these shapes, those of inner functions included."""
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(fn)(*structs)
    found: set[str] = set()
    _walk(traced.jaxpr, found)
    return frozenset(found)


def tupled(fn: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The same function, whose result is a tuple always."""

    def run(*operands: Any) -> tuple[Any, ...]:
        out = fn(*operands)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    return run


def slow_bytes(fn: Callable[..., Any], structs: Sequence[Any]) -> int:
    """Bytes of the :data:`KEPT` results inside a function that its results and its derivative both come of.

    The function's own results are not counted, nor what lies before another such result.
    """

    def both(*inputs: Any) -> Any:
        wants = [differentiable(x.dtype) for x in inputs]

        out, pull = pullback(tupled(fn), inputs, wants)
        return out, held(pull, inputs, out)[1]

    with jax.enable_x64(True), jax.disable_jit():  # inner functions are opened
        traced, (outs, fresh) = jax.make_jaxpr(both, return_shape=True)(*structs)
    jaxpr = traced.jaxpr
    results = {id(v) for v in jaxpr.outvars[: len(outs)]}
    forward = _needed(jaxpr, results, frozenset())
    slow = {
        id(v): v.aval.size * v.aval.dtype.itemsize * KEPT[e.primitive.name]
        for e in jaxpr.eqns
        if e.primitive.name in KEPT
        for v in e.outvars
        if id(v) in forward and id(v) not in results
    }
    asked = _needed(jaxpr, {id(v) for v in jaxpr.outvars[len(outs) :]}, slow.keys() | results)
    return int(sum(nbytes for v, nbytes in slow.items() if v in asked))


def _needed(jaxpr: Any, wanted: set[int], known: Collection[int]) -> set[int]:
    """All that these values come of, not looking behind what is known."""
    wanted = set(wanted)
    for e in reversed(jaxpr.eqns):
        if any(id(v) in wanted and id(v) not in known for v in e.outvars):
            wanted.update(id(v) for v in e.invars if not isinstance(v, Literal))
    return wanted


def _walk(jaxpr: Any, found: set[str]) -> None:
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for inner in jaxprs_in_params(equation.params):
            _walk(inner, found)
