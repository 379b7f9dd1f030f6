"""Which JAX primitives an operator consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params

from mxjax.core import SCALARS, Call
from mxjax.core.graph.primitives import COSTLY


def is_costly(primitive: str) -> bool:
    """Whether what it makes costs more to compute again than to read."""
    return primitive in COSTLY or primitive.startswith("convolution")


@lru_cache(maxsize=4096)
def holds_costly(call: Call, avals: tuple[Any, ...]) -> bool:
    """Whether one of the costly primitives is in a call on such operands (dynamic scalars stand as their kinds)."""
    structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(call.fn)(*structs)
    return any(map(is_costly, primitives(traced.jaxpr)))


def nbytes(struct: Any) -> int:
    """Bytes of an array of this shape."""
    return int(struct.size) * int(struct.dtype.itemsize)


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of a jaxpr's primitives; of those that call others the others', unless they are costly as a whole."""
    for equation in jaxpr.eqns:
        bodies = list(jaxprs_in_params(equation.params))
        if not bodies or is_costly(equation.primitive.name):
            yield equation.primitive.name
        for body in bodies:
            yield from primitives(body)


def tupled(fn: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The same function, whose result is a tuple always."""

    def run(*operands: Any) -> tuple[Any, ...]:
        out = fn(*operands)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    return run
