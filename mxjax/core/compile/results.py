"""Results of a CPU's program that it goes on with in another shape, made once.

A dense layer over (35, 20, 200) adds its bias to rows, and gives them as (35, 20, 5000); a loss takes the rows. XLA
joins the addition to the change of shape, which is free, and so makes it twice: one loop writes the result, one what
the loss reads. ms of one core with AVX-512, jax 0.10.2, for the bias, cross entropy and their gradients: 7.3 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ..graph.jaxprs import bound, evaluate, named
from ..graph.primitives import CHEAP, FREE
from .cpu_product import materialize

#: Numbers of an array from which it is worth it: a megabyte of float32.
_LEAST = 1 << 18


def made_once(closed: Any) -> Callable[..., list[Any]] | None:
    """The function of a jaxpr with such results in memory where they are made; None where there are none."""
    jaxpr = closed.jaxpr
    written = _written_twice(jaxpr)
    if not written:
        return None

    def one(e: Any, args: list[Any]) -> list[Any]:
        with named(e):
            made = bound(e, args, e.params)
            return [
                materialize(a) if v in written else a for v, a in zip(e.outvars, made, strict=True)
            ]

    return lambda *args: evaluate(jaxpr, closed.consts, args, one)


def _written_twice(jaxpr: Any) -> set[Any]:
    """What cheap element-wise equations make that is a result in another shape, and read besides."""
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    found: dict[Any, set[Any]] = {}  # what is made: it and the results that it is in other shapes
    for result in jaxpr.outvars:
        if hasattr(result, "val"):
            continue
        v, names = result, set()
        while not hasattr(v, "val") and v in made and made[v].primitive.name in FREE:
            names.add(v)
            v = made[v].invars[0]
        e = None if hasattr(v, "val") else made.get(v)  # a number has no name
        if names and e is not None and e.primitive.name in CHEAP and _is_large(v):
            found.setdefault(v, {v}).update(names)
    if not found:
        return set()
    of = {name: v for v, names in found.items() for name in names}
    read = set()
    for e in jaxpr.eqns:
        for v in e.invars:
            base = None if hasattr(v, "val") else of.get(v)
            if base is None:
                continue
            if e.primitive.name not in FREE:
                read.add(base)
            else:  # another name of it, which somebody may read
                of.update((out, base) for out in e.outvars)
    return read


def _is_large(v: Any) -> bool:
    shape = v.aval.shape
    return all(isinstance(n, int) for n in shape) and prod(shape) >= _LEAST


__all__ = ["made_once"]
