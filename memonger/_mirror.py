"""Mirroring: the backward pass computes cheap results again instead of finding them kept."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import jax
from jax import lax
from jax.extend.core import jaxprs_in_params

from mxjax.core import SCALAR, SCALARS, Step

from ._cut import Unit, units

if TYPE_CHECKING:
    from mxjax.core import Graph

# Their results are kept: costly to compute again, and random bits must be the same.
KEPT = frozenset(
    {
        "conv_general_dilated",
        "convolution",
        "dot_general",
        "ragged_dot_general",
        "concatenate",
        "random_bits",
        "threefry2x32",
        "rng_bit_generator",
        "rng_uniform",
        "pure_callback",
        "io_callback",
        "cholesky",
        "eigh",
        "svd",
        "qr",
        "lu",
        "fft",
        "sort",
        "while",
        "scan",
    }
)
# A reduction to less than this share of its input is kept as well: it costs nothing to hold.
SMALL = 1 / 16


class Mirror:
    """MXNet's mirroring, on the graph's units (``core.interfaces.RematPolicy``).

    Results of convolutions, matrix products, concatenations and random bits are kept, and what crosses
    from unit to unit; everything else is computed again when the backward pass reaches its unit.
    """

    def lower(self, graph: Graph) -> Callable[..., Any]:
        """A function equal to ``graph.run`` that keeps less for its backward pass."""
        parts = [(u, jax.checkpoint(_runner(u), policy=keep)) for u in units(graph, _Keeps(graph))]
        n = len(graph.avals)

        def run(*arrays: Any) -> tuple[Any, ...]:
            inputs, scalars = arrays[:n], arrays[n:]
            env: dict[int, Any] = {}

            def operand(i: int) -> Any:
                return (
                    env[i] if 0 <= i < SCALAR else inputs[-1 - i] if i < 0 else scalars[i - SCALAR]
                )

            for unit, part in parts:
                out = part(*[operand(i) for i in unit.takes])
                # Without the barrier XLA fuses, and so keeps, across the boundary.
                env.update(zip(unit.gives, lax.optimization_barrier(out), strict=True))
            return tuple(operand(k) for k in graph.outputs)

        return run

    def compiler_options(self, platform: str) -> dict[str, Any]:
        """On CPUs XLA drops barriers early and then merges both computations into one: not here."""
        if platform != "cpu":
            return {}
        return {"xla_disable_hlo_passes": "cse_barrier_expander"}

    def key(self) -> str:
        return "mirror"

    def __repr__(self) -> str:
        return "memonger.policy('mirror')"


def keep(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Whether the result of this primitive is kept (a policy for ``jax.checkpoint``)."""
    name = primitive.name
    if _is_costly(name):
        return True
    if name.startswith("reduce_") and "axes" in params:
        gone = prod(avals[0].shape[d] for d in params["axes"])
        return gone * SMALL >= 1
    return False


def _is_costly(name: str) -> bool:
    return name in KEPT or name.startswith("convolution")


class _Keeps:
    """Whether a step's result is kept: whether one of the costly primitives is in it."""

    def __init__(self, graph: Graph):
        self._avals = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
        self._avals |= {-1 - i: a for i, a in enumerate(graph.avals)}
        self._fmt = graph.fmt
        self._known: dict[Any, bool] = {}

    def __call__(self, step: Step) -> bool:
        call = step.call
        assert call is not None
        found = self._known.get(call)
        if found is None:
            structs = [
                SCALARS[self._fmt[i - SCALAR]] if i >= SCALAR else self._avals[i].struct
                for i in step.args
            ]
            with jax.enable_x64(True):
                traced = jax.make_jaxpr(call.fn)(*structs)
            found = self._known[call] = _costly(traced.jaxpr)
        return found


def _costly(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        if _is_costly(equation.primitive.name):
            return True
        for inner in jaxprs_in_params(equation.params):
            if _costly(inner):
                return True
    return False


def _runner(unit: Unit) -> Callable[..., tuple[Any, ...]]:
    """The unit as a function of what it takes."""

    def run(*given: Any) -> tuple[Any, ...]:
        env = dict(zip(unit.takes, given, strict=True))
        for step in unit.steps:
            with jax.named_scope(step.label):
                out = step.call.fn(*[env[i] for i in step.args])  # type: ignore[union-attr]
            for k, o in enumerate(out if step.many else (out,)):
                env[step.first + k] = o
        return tuple(env[k] for k in unit.gives)

    return run
