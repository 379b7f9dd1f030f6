"""Operators under mixed precision: what each computes in, by the column `amp` of its row.

A row on the list of low precision takes its float32 arrays rounded and gives a rounded result, which the next
operator takes as it is: casts lie where precision changes, not around each operator. What is rounded twice (a weight
in forward and backward) XLA computes once. The parameters themselves stay float32, so they are their own master copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mxjax import core
from mxjax.core.hooks import row_listeners
from mxjax.errors import MXNetError, MXNetValueError, did_you_mean
from mxjax.ops.table import TABLE, Op, by_internal, internal_names

Fn = Callable[..., Any]
Conditions = Sequence[tuple[str, str, Sequence[str]]]

_LOW = ("float16", "bfloat16")
#: The functions that were there before `apply`, by row.
_before: dict[Op, Fn] = {}


class Lists(NamedTuple):
    """Which operators, by MXNet's registry names, compute in low precision, in float32, and in it on a condition."""

    low: tuple[str, ...]
    full: tuple[str, ...]
    conditional: tuple[tuple[str, str, tuple[str, ...]], ...]


def named(amp: str | None) -> list[str]:
    """The registry names of the operators with this word in their column `amp` and no condition, sorted.

    >>> named("low")[:3]
    ['Convolution', 'Deconvolution', 'FullyConnected']
    """
    return sorted(
        {
            op.names.internal
            for op in TABLE.values()
            if op.precision.amp == amp and op.precision.amp_full_if is None and op.names.internal
        }
    )


def conditional() -> list[tuple[str, str, list[str]]]:
    """Registry name, attribute and values of the operators that compute in float32 where it has one of these."""
    found = {
        (op.names.internal, *op.precision.amp_full_if)
        for op in TABLE.values()
        if op.precision.amp_full_if is not None and op.names.internal
    }
    return [(name, attribute, list(values)) for name, attribute, values in sorted(found)]


def lists(
    low: Iterable[str] | None = None,
    full: Iterable[str] | None = None,
    conditions: Conditions | None = None,
) -> Lists:
    """The lists, with the given ones in place of those of the table.

    Raises:
      ValueError: an operator is on two of them.
    """
    found = Lists(
        tuple(named("low") if low is None else low),
        tuple(named("full") if full is None else full),
        tuple(
            (n, a, tuple(v)) for n, a, v in (conditional() if conditions is None else conditions)
        ),
    )
    given = [set(found.low), set(found.full), {name for name, _, _ in found.conditional}]
    twice = (given[0] & given[1]) | (given[0] & given[2]) | (given[1] & given[2])
    if twice:
        raise MXNetValueError(
            f"{', '.join(sorted(twice))}: an operator can be on one of the lists only"
        )
    return found


def words(given: Lists) -> dict[Op, tuple[str, tuple[str, tuple[str, ...]] | None]]:
    """What each row does: a word, and where it is ``"full"`` on a condition only, attribute and values.

    Raises:
      MXNetError: a list names an operator that there is not.
    """
    by_name: dict[str, list[Op]] = {}
    for op in TABLE.values():
        for name in {op.names.internal, *op.names.aliases} - {None}:
            by_name.setdefault(str(name), []).append(op)

    def rows(name: str) -> list[Op]:
        found = by_name.get(name)
        if found is None:
            one = by_internal(name)
            if one is None:
                near = did_you_mean(name, internal_names())
                raise MXNetError(f"mixed precision: there is no operator {name!r}{near}")
            found = [one]
        return found

    made: dict[Op, tuple[str, tuple[str, tuple[str, ...]] | None]] = {
        op: ("widest", None) for op in TABLE.values() if op.precision.amp == "widest"
    }
    # MXNet has no operators of their own for these: they follow the table.
    for op in TABLE.values():
        if op.names.internal is None and op.precision.amp is not None:
            made[op] = op.precision.amp, None
    for name in given.full:
        made.update(dict.fromkeys(rows(name), ("full", None)))
    for name, attribute, values in given.conditional:
        made.update(dict.fromkeys(rows(name), ("full", (attribute, values))))
    for name in given.low:
        made.update(dict.fromkeys(rows(name), ("low", None)))
    return made


def apply(dtype: str, given: Lists) -> None:
    """Let the operators compute so from now on.

    Args:
      dtype: ``float16`` or ``bfloat16``.
      given: the lists.
    """
    found = words(given)
    restore()
    for op, (word, condition) in found.items():
        _before[op] = op.fn
        op.become(mixed(op, op.fn, word, condition, dtype))
    _changed()


def restore() -> None:
    """Let the operators compute in the dtypes of their arrays again."""
    if not _before:
        return
    for op, fn in _before.items():
        op.become(fn)
    _before.clear()
    _changed()


def _changed() -> None:
    core.drop_programs()
    for hear in row_listeners:
        hear()


def mixed(
    op: Op, fn: Fn, word: str, condition: tuple[str, tuple[str, ...]] | None, dtype: str
) -> Fn:
    """A row's function with its arrays cast as `word` says."""
    low, first = jnp.dtype(dtype), 3 * op.keyed
    narrow = op.precision.amp_narrow and dtype == "bfloat16" and word == "full"
    default = None if condition is None else op.attr_defaults.get(condition[0])

    def run(*args: Any, **attrs: Any) -> Any:
        if condition is not None and attrs.get(condition[0], default) not in condition[1]:
            return fn(*args, **attrs)
        arrays = [a for a in args if _is_float(a)]
        if word == "low":
            return fn(
                *[a.astype(low) if _is_float(a) and a.dtype == jnp.float32 else a for a in args],
                **attrs,
            )
        if not any(a.dtype.name in _LOW for a in arrays):
            return fn(*args, **attrs)
        if word == "widest" and len({a.dtype for a in arrays}) == 1:
            return fn(*args, **attrs)
        out = fn(
            *[a.astype(jnp.float32) if _is_float(a) and a.dtype.name in _LOW else a for a in args],
            **attrs,
        )
        data = args[first]
        if narrow and _is_float(data) and data.dtype.name in _LOW:
            return jax.tree.map(
                lambda o: o.astype(data.dtype) if o.dtype == jnp.float32 else o, out
            )
        return out

    return run


def _is_float(a: Any) -> bool:
    """Whether an operand is an array of floats, and no number that takes the dtypes of arrays."""
    return (
        isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jnp.floating) and not a.aval.weak_type
    )


def losses() -> list[str]:
    """The registry names of outputs whose gradient is that of a loss, whatever the head's: they have `grad_scale`."""
    return sorted(
        str(op.names.internal) for op in TABLE.values()
        if op.names.internal and op.names.internal.endswith("Output") and "grad_scale" in op.attr_params
    )  # fmt: skip
