"""Which JAX primitives an operator consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jax.extend.core import jaxprs_in_params

from mxjax.core.graph.primitives import COSTLY


def is_costly(primitive: str) -> bool:
    """Whether what it makes costs more to compute again than to read."""
    return primitive in COSTLY or primitive.startswith("convolution")


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
