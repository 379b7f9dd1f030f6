"""Updates from gradients of which only some rows are kept: of the rows alone where an optimizer is lazy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mxjax.array.handle import store
from mxjax.array.sparse import BaseSparseNDArray, dense_value, made
from mxjax.core import MeshDevice, Row, record

from . import moving, rules
from .sending import counted

if TYPE_CHECKING:
    from .optimizer import Optimizer

__all__ = ["divided", "made", "plain"]

Lists = tuple[list[Any], list[Any], list[Any], list[Any]]


def plain(array: Any) -> Any:
    """The array; a dense one of the same numbers where it is sparse."""
    return type(array)._wrap(dense_value(array)) if isinstance(array, BaseSparseNDArray) else array


def updated(
    numbers: jax.Array, weight: jax.Array, data: jax.Array, indices: jax.Array, *states: jax.Array,
    rule: rules.Rule, statics: tuple[tuple[str, Any], ...], whole: bool, master: bool, done: Any = True,
    **more: Any,
) -> tuple[jax.Array, ...]:  # fmt: skip
    """The weight and its states with the rows that a row_sparse gradient has updated, all others as they were.

    Args:
      numbers: rescale_grad first, then the rule's.
      data, indices: the gradient's rows (k, ...) and their numbers (k,); those beyond the end are left out.
      whole: the rule has to see all of the weight and of the gradient.
      master: the first state is a float32 copy of the weight.
      done: whether anything is updated at all.
      more: those of the rule's keyword arguments that come as operands.
    """
    bound = partial(rule, **dict(statics), **more)
    step = rules.with_master if master else rules.one
    each = [numbers[k] for k in range(numbers.shape[0])]

    def rows(x: jax.Array) -> jax.Array:
        return jnp.take(x, indices, axis=0, mode="fill", fill_value=0)

    if whole:
        grad = jnp.zeros(weight.shape, data.dtype).at[indices].set(data, mode="drop")
        new, after = step(bound, weight, grad, states, *each)
        new, after = rows(new), tuple(map(rows, after))
    else:
        new, after = step(bound, rows(weight), data, tuple(map(rows, states)), *each)
    old = (weight, *states)
    if done is not True:
        new, *after = (jnp.where(done, r, rows(x)) for x, r in zip(old, (new, *after), strict=True))
    return tuple(x.at[indices].set(r, mode="drop") for x, r in zip(old, (new, *after), strict=True))


def guarded(
    given: jax.Array, finite: jax.Array, inverse: jax.Array, skipped: jax.Array, *arrays: jax.Array,
    numbers: Callable[..., tuple[Any, ...]], **how: Any,
) -> tuple[jax.Array, ...]:  # fmt: skip
    """`updated`, or nothing where a gradient overflowed: what `rules.guarded` is to `rules.many`."""
    lr, wd, t = (given[1 + k].astype("float64") for k in range(3))
    worked = [given[0] * inverse.astype(given.dtype), *numbers(lr, wd, t - skipped)]
    packed = jnp.stack([jnp.asarray(x).astype(given.dtype) for x in worked])
    return updated(packed, *arrays, done=finite, **how)


@cache
def _row(name: str, guards: bool, numbers: tuple[str, ...]) -> Row:
    return Row(name, guarded if guards else updated, numbers=numbers)


def divided(
    optimizer: Optimizer,
    indices: Sequence[Any],
    weights: Sequence[Any],
    grads: Sequence[Any],
    states: Sequence[Any],
) -> Lists:
    """Update weights with sparse gradients, or sparse themselves; gives what is left: dense weights and gradients."""
    left: Lists = ([], [], [], [])
    for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
        stored = isinstance(weight, BaseSparseNDArray)
        if (
            grad.stype == "row_sparse"
            and _can(optimizer, weight)
            and optimizer.updates_rows(index, weight)
        ):
            _update(optimizer, index, weight, grad, state)
        elif stored:
            dense = plain(weight)
            optimizer._of_copies = True
            try:
                optimizer._record_step([index], [dense], [plain(grad)], [state])
            finally:
                optimizer._of_copies = False
            weight._renew(dense._value())
        else:
            for of, item in zip(left, (index, weight, plain(grad), state), strict=True):
                of.append(item)
    return left


def _can(optimizer: Optimizer, weight: Any) -> bool:
    """Whether rows can be updated where this weight is."""
    of = weight._aval
    return of.memory is None and type(of.device) is not MeshDevice


def _update(optimizer: Optimizer, index: Any, weight: Any, grad: Any, state: Any) -> None:
    rules.whole_or_not(optimizer, weight, partial(_record, optimizer, index, weight, grad, state))


def _record(optimizer: Optimizer, index: Any, weight: Any, grad: Any, state: Any) -> None:
    """Record the update of the gradient's rows."""
    from .optimizer import flatten

    leaves = flatten(state)
    device = weight._aval.device
    given = counted(
        optimizer, [index], np.float64 if weight.dtype == np.float64 else np.float32, device
    )
    guard, items = optimizer.guard, optimizer._static_items()
    optimizer._fixed_statics()
    shared, names = (items, ()) if guard is not None else optimizer._moving.divided(items)
    statics = (*shared, *optimizer._own_statics(index))
    attrs: tuple[tuple[str, Any], ...] = (
        ("master", optimizer.has_master_copy(weight)), ("rule", optimizer._rule()), ("statics", statics),
        ("whole", optimizer.rows_need_all),
    )  # fmt: skip
    if guard is not None:
        attrs = (*attrs, ("numbers", optimizer.numbers))
    name = f"{type(optimizer).__name__.lower()}_update_rows"
    call = _row(name, guard is not None, optimizer._statics).bind(attrs, varying=names)
    kept = grad._stored.cast(weight.dtype)
    inputs = [
        given,
        *(guard or ()),
        dense_value(weight),
        *kept.parts,
        *[x._value() for x in leaves],
    ]
    inputs += moving.inputs(names, items)
    with rules.not_taped():
        outs = record(call, inputs)
    del inputs  # a buffer that only the segment still refers to is overwritten in place
    if isinstance(weight, BaseSparseNDArray):
        weight._renew(outs[0])
        store(leaves, outs[1:])
    else:
        store((weight, *leaves), outs)
