"""Images stay channels last from one call to the next, though MXNet's channels come second.

On a CPU convolutions and pooling work on images whose channels are last, and turn them before and after. Left to
itself XLA lays some of what lies between two of them out one way and some the other, copies, and keeps both for the
backward pass. Here what a call has turned stays an :class:`Image` through all calls for which that makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from ..calls.call import Call, Derivative, dressed
from ..graph.jaxprs import bodies, bound, evaluate
from ..graph.primitives import AGAIN, INLINED, POINTWISE, REDUCING
from ..hooks import operator_wrappers
from . import compiler

# Operators that turn images and turn them back.
TURNING = frozenset({"Convolution", "Deconvolution", "Pooling"})
_LEAST = 4  # dimensions: with fewer, other changes of order look the same


@partial(jax.tree_util.register_dataclass, data_fields=("last",), meta_fields=())
@dataclass
class Image:
    """An array of shape (N, C, *spatial) that is held as ``last``, (N, *spatial, C)."""

    last: Any

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        n, *spatial, c = self.last.shape
        return jax.ShapeDtypeStruct((n, c, *spatial), self.last.dtype)


def array(x: Any) -> Any:
    """What an image is, as an array with its channels second; any other array as it is."""
    return jnp.moveaxis(x.last, -1, 1) if isinstance(x, Image) else x


def are_made(steps: Sequence[Any]) -> bool:
    """Whether so many of a program's steps turn images that one may take what another has turned."""
    if compiler.platform_now() != "cpu":
        return False
    turning = (s for s in steps if (s.call.forward or s.call).name in TURNING)
    return next(turning, None) is not None and next(turning, None) is not None


def run_or_turn(call: Call, operands: Sequence[Any]) -> Any:
    """:func:`run` of a row's call or its derivative; any other takes arrays (the steps of a graph see to theirs)."""
    if type(call) in (Call, Derivative) and call.graph is None:
        return run(call, operands)
    return call.fn(*map(array, operands))


def run(call: Call, operands: Sequence[Any], place: str = "") -> Any:
    """What a call gives as the settings want it at that place, some operands and results being images."""
    if operator_wrappers:
        return dressed(call, place)(*map(array, operands))
    if compiler.platform_now() != "cpu":
        return call.fn(*operands)
    of_images = [isinstance(x, Image) for x in operands]
    if not any(of_images) and not any(getattr(x, "ndim", 0) >= _LEAST for x in operands):
        return call.fn(*operands)
    traced = _jitted(call, compiler.is_short_of_memory(), compiler.is_all_kept()).trace(
        *map(_struct, operands)
    )
    closed, tree = traced.jaxpr, jax.tree_util.tree_structure(traced.out_info)
    pointwise, turns = _is_pointwise(closed), _turns(closed.jaxpr)
    if pointwise and any(of_images):
        return jax.tree_util.tree_map(Image, call.fn(*[_turned(x) for x in operands]))
    if closed.effects or not (turns or any(of_images)):
        return call.fn(*map(array, operands))
    return jax.tree_util.tree_unflatten(tree, _evaluate(closed.jaxpr, closed.consts, *operands))


def _struct(x: Any) -> jax.ShapeDtypeStruct:
    return x.struct if isinstance(x, Image) else jax.ShapeDtypeStruct(x.shape, x.dtype)


@lru_cache(maxsize=4096)
def _jitted(call: Call, *circumstances: Any) -> Any:
    """A call's function, for JAX to remember its traces: one for what JAX knows nothing of."""
    return jax.jit(lambda *a: call.fn(*a))


def _is_pointwise(closed: Any) -> bool:
    """Whether all arrays have one shape, and each element of the results comes of those at the same place."""
    shapes = {a.shape for a in (*closed.in_avals, *closed.out_avals) if a.shape}
    return len(shapes) == 1 and not closed.effects and _each_by_itself(closed.jaxpr)


def _each_by_itself(jaxpr: Any) -> bool:
    for e in jaxpr.eqns:
        inner = list(bodies(e.params))
        known = e.primitive.name in POINTWISE or (
            inner and e.primitive.name in INLINED | {"custom_jvp_call"}
        )
        shapes = {v.aval.shape for v in (*e.invars, *e.outvars) if v.aval.shape}
        if not known or len(shapes) > 1 or not all(map(_each_by_itself, inner)):
            return False
    return True


def _turns(jaxpr: Any) -> bool:
    return any(
        _gives_image(e) or (e.primitive.name in INLINED and any(map(_turns, bodies(e.params))))
        for e in jaxpr.eqns
    )


def _gives_image(e: Any) -> bool:
    n = len(e.invars[0].aval.shape) if e.primitive.name == "transpose" else 0
    return n >= _LEAST and tuple(e.params["permutation"]) == (0, n - 1, *range(1, n - 1))


def _turned(x: Any) -> Any:
    """The array with its channels last; one number is the same either way."""
    if isinstance(x, Image):
        return x.last
    return jnp.moveaxis(x, 1, -1) if jnp.ndim(x) else x


def _evaluate(jaxpr: Any, consts: Sequence[Any], *args: Any) -> list[Any]:
    return evaluate(jaxpr, consts, args, _one)


def _one(e: Any, given: list[Any]) -> Sequence[Any]:
    name, params = e.primitive.name, e.params
    if _gives_image(e) and not isinstance(given[0], Image):
        return [Image(given[0])]
    if name in INLINED and "jaxpr" in params:
        return _evaluate(params["jaxpr"].jaxpr, params["jaxpr"].consts, *given)
    if any(isinstance(x, Image) for x in given):
        if name in AGAIN:
            inner = partial(_evaluate, params["jaxpr"], getattr(params["jaxpr"], "consts", ()))
            again: Any = jax.checkpoint(
                inner, policy=params["policy"], prevent_cse=params["prevent_cse"]
            )
            return list(again(*given))
        rule = _RULES.get(name)
        found = rule(e, given) if rule else None
        if found is not None:
            return found
    return bound(e, [array(x) for x in given], params)


# ---- what becomes of images: results, or None where they are turned back first --------------------------


def _pointwise_rule(e: Any, given: Sequence[Any]) -> Sequence[Any] | None:
    rank = len(e.outvars[0].aval.shape)
    if any(len(v.aval.shape) not in (0, rank) for v in e.invars):
        return None
    return [Image(x) for x in bound(e, [_turned(x) for x in given], e.params)]


def _transpose_rule(e: Any, given: Sequence[Any]) -> Sequence[Any] | None:
    n = len(e.invars[0].aval.shape)
    return [given[0].last] if tuple(e.params["permutation"]) == (0, *range(2, n), 1) else None


def _place(axis: int, rank: int) -> int:
    """Where an axis of an image lies when its channels are last."""
    return {0: 0, 1: rank - 1}.get(axis, axis - 1)


def _reduce_rule(e: Any, given: Sequence[Any]) -> Sequence[Any]:
    rank = len(e.invars[0].aval.shape)
    left = [d for d in range(rank) if d not in e.params["axes"]]
    axes = tuple(sorted(_place(d, rank) for d in e.params["axes"]))
    (out,) = bound(e, [given[0].last], {**e.params, "axes": axes})
    places = sorted(_place(d, rank) for d in left)
    return [jnp.transpose(out, [places.index(_place(d, rank)) for d in left])]


def _concatenate_rule(e: Any, given: Sequence[Any]) -> Sequence[Any]:
    at = _place(e.params["dimension"], len(e.outvars[0].aval.shape))
    return [Image(x) for x in bound(e, [_turned(x) for x in given], {**e.params, "dimension": at})]


def _pad_rule(e: Any, given: Sequence[Any]) -> Sequence[Any]:
    n, c, *spatial = e.params["padding_config"]
    config = (n, *spatial, c)
    return [
        Image(x)
        for x in bound(
            e, [_turned(given[0]), array(given[1])], {**e.params, "padding_config": config}
        )
    ]


def _slice_rule(e: Any, given: Sequence[Any]) -> Sequence[Any]:
    params = dict(e.params)
    for key in ("start_indices", "limit_indices", "strides"):
        if params[key] is not None:
            n, c, *spatial = params[key]
            params[key] = (n, *spatial, c)
    return [Image(x) for x in bound(e, [given[0].last], params)]


_RULES: dict[str, Callable[[Any, Sequence[Any]], Sequence[Any] | None]] = {
    **dict.fromkeys(POINTWISE, _pointwise_rule),
    **dict.fromkeys(REDUCING, _reduce_rule),
    "transpose": _transpose_rule,
    "concatenate": _concatenate_rule,
    "pad": _pad_rule,
    "slice": _slice_rule,
}
