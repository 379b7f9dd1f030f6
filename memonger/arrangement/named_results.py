"""Results that the backward pass finds by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import jaxprs_in_params

from mxjax import settings
from mxjax.core import compiler, images
from mxjax.core.graph.jaxprs import bound, differentiable, evaluate
from mxjax.core.graph.primitives import INLINED
from mxjax.core.hooks import operator_wrappers

from ..model.primitives import tupled

if TYPE_CHECKING:
    from mxjax.core import Call


def name(result: int) -> str:
    """What a policy of ``jax.checkpoint`` knows a result (or an operand) by."""
    return f"result{result}"


def run(
    call: Call, operands: Sequence[Any], keep: Mapping[int, str], label: str = ""
) -> tuple[Any, ...]:
    """The results of the call of a step with this label, of which those to ``keep`` (by place) have a name.

    The derivative of the call itself, too, reads them by their names (relu's reads the sign of its result): otherwise
    they would be computed again for it though they are kept.
    """
    if keep:
        leaves, tree = jax.tree_util.tree_flatten(list(operands))
        shapes = tuple([(x.shape, x.dtype) for x in leaves])
        label = label if operator_wrappers else ""
        pushed = _pushed(call, label, tree, shapes, *_circumstances())
        if pushed.read.intersection(keep):
            return _marked(call, label, tree, pushed, keep)(*leaves)  # type: ignore[no-any-return]
    return _named(_results(call, operands, label), keep)


def _named(found: Sequence[Any], keep: Mapping[int, str]) -> tuple[Any, ...]:
    return tuple(
        checkpoint_name(lax.optimization_barrier(x), keep[k]) if k in keep else x
        for k, x in enumerate(found)
    )


def _results(call: Call, operands: Sequence[Any], label: str) -> tuple[Any, ...]:
    return tupled(partial(images.run, call, place=label))(operands)


class _Pushed(NamedTuple):
    """The jvp of a call as a jaxpr: results, then tangents, from operands and the tangents of the ``moving`` ones;
    the ``tree`` of the results, and which of them the tangents are computed from."""

    closed: Any
    tree: Any
    moving: tuple[int, ...]
    read: frozenset[int]


def _circumstances() -> tuple[Any, ...]:
    """What a call's function depends on beside its operands."""
    wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    settled = settings.state.version if operator_wrappers else 0
    short = compiler.is_short_of_memory(), compiler.is_all_kept()
    return compiler.platform_now(), *short, wide, settled


@lru_cache(maxsize=4096)
def _pushed(
    call: Call, label: str, tree: Any, leaves: tuple[tuple[Any, Any], ...], *circumstances: Any
) -> _Pushed:
    structs = [jax.ShapeDtypeStruct(*x) for x in leaves]
    moving = tuple(k for k, x in enumerate(structs) if differentiable(x.dtype))

    def pushed(operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
        def results(*moved: Any) -> tuple[Any, ...]:
            given = list(operands)
            for k, x in zip(moving, moved, strict=True):
                given[k] = x
            return _results(call, tree.unflatten(given), label)

        return jax.jvp(results, tuple([operands[k] for k in moving]), tuple(tangents))

    closed, (results, _) = jax.make_jaxpr(pushed, return_shape=True)(
        structs, [structs[k] for k in moving]
    )
    found, results_tree = jax.tree_util.tree_flatten(results)
    wanted = closed.jaxpr.outvars[: len(found)]
    read = frozenset[int]() if closed.effects else _read(closed.jaxpr, wanted)
    return _Pushed(closed, results_tree, moving, read)


def _body(e: Any) -> Any:
    """The body of an equation that is nothing else."""
    return next(iter(jaxprs_in_params(e.params)), None) if e.primitive.name in INLINED else None


def _read(jaxpr: Any, wanted: Sequence[Any]) -> frozenset[int]:
    """Which of those variables the equations of a jaxpr read that makes them."""
    found: set[int] = set()
    for e in jaxpr.eqns:
        read = {id(v) for v in e.invars}
        found.update(k for k, v in enumerate(wanted) if id(v) in read)
        body = _body(e)
        if body is not None:
            inside = {id(v): w for v, w in zip(e.outvars, body.outvars, strict=True)}
            places = [k for k, v in enumerate(wanted) if id(v) in inside]
            found.update(places[k] for k in _read(body, [inside[id(wanted[k])] for k in places]))
    return frozenset(found)


def _marked(
    call: Call, label: str, tree: Any, pushed: _Pushed, keep: Mapping[int, str]
) -> Callable[..., tuple[Any, ...]]:
    """The call of its operands' leaves; its results have their names inside its derivative, too."""
    count = pushed.tree.num_leaves

    @jax.custom_jvp
    def marked(*leaves: Any) -> tuple[Any, ...]:
        return _named(_results(call, tree.unflatten(leaves), label), keep)

    @marked.defjvp
    def _jvp(leaves: Any, tangents: Any) -> Any:
        closed = pushed.closed
        names = {id(closed.jaxpr.outvars[k]): what for k, what in keep.items()}
        moved = [tangents[k] for k in pushed.moving]
        out = _evaluate(closed.jaxpr, closed.consts, names, (*leaves, *moved))
        return pushed.tree.unflatten(out[:count]), pushed.tree.unflatten(out[count:])

    return marked


def _evaluate(
    jaxpr: Any, consts: Sequence[Any], names: Mapping[int, str], args: Sequence[Any]
) -> list[Any]:
    """The results of a jaxpr; those variables that have names get them where they are made."""

    def one(e: Any, given: Sequence[Any]) -> Sequence[Any]:
        here = {k: names[id(v)] for k, v in enumerate(e.outvars) if id(v) in names}
        body = _body(e) if here else None
        if body is None:
            return _named(bound(e, given, e.params), here)
        return _evaluate(
            body,
            e.params["jaxpr"].consts,
            {id(body.outvars[k]): what for k, what in here.items()},
            given,
        )

    return evaluate(jaxpr, consts, args, one)
