"""Which JAX primitives an operator consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params


def primitives(fn: Callable[..., Any], structs: Sequence[Any]) -> frozenset[str]:
    """The names of all primitives in a function of these shapes, those of inner functions included."""
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(fn)(*structs)
    found: set[str] = set()
    _walk(traced.jaxpr, found)
    return frozenset(found)


def _walk(jaxpr: Any, found: set[str]) -> None:
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for inner in jaxprs_in_params(equation.params):
            _walk(inner, found)
