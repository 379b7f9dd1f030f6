"""What operators there are: MXNet's registry names, and their arguments."""

from __future__ import annotations

from typing import NamedTuple

from .. import errors
from ..ops.table import Op, by_internal, internal_names


def get_all_registered_operators() -> list[str]:
    """MXNet's registry names of all operators there are here, aliases included, sorted.

    >>> "Activation" in get_all_registered_operators()
    True
    """
    return sorted([*internal_names(), "Custom"])


def get_all_registered_operators_grouped() -> dict[str, list[str]]:
    """Every operator's registry name and all names that it has, its own included.

    >>> get_all_registered_operators_grouped()["elemwise_add"][:2]
    ['_add', '_elemwise_add']
    """
    found: dict[str, list[str]] = {}
    for name in get_all_registered_operators():
        found.setdefault(_first_name(name), []).append(name)
    return found


def _first_name(name: str) -> str:
    op = by_internal(name)
    own = None if op is None else op.names.internal
    return name if own is None or by_internal(own) is not op else own


class OperatorArguments(NamedTuple):
    """How many arguments an operator has, their names and their types, as MXNet words them."""

    narg: int
    names: list[str]
    types: list[str]


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """The arguments of an operator by its registry name: arrays first, then attributes.

    Raises:
      MXNetError: there is no such operator.

    >>> get_operator_arguments("LeakyReLU").names[:3]
    ['data', 'gamma', 'act_type']
    """
    op = by_internal(op_name)
    if op is None:
        raise errors.MXNetError(
            f"Cannot find operator {op_name}{errors.did_you_mean(op_name, internal_names())}"
        )
    arrays = "NDArray-or-Symbol[]" if op.variadic else "NDArray-or-Symbol"
    names = [*op.array_params, *op.attr_params]
    types = [arrays] * len(op.array_params) + [_type_of(op, name) for name in op.attr_params]
    return OperatorArguments(len(names), names, types)


_TYPES = {bool: "boolean", int: "int", float: "float", tuple: "Shape(tuple)", str: "string"}


def _type_of(op: Op, name: str) -> str:
    # Of other attributes that are words a row's samples use some.
    words = set(op.choices.get(name, ())) or {
        attrs[name]
        for attrs in (dict(s.attrs) for s in op.tests.samples)
        if isinstance(attrs.get(name), str)
    }
    default = op.attr_defaults.get(name)
    if len(words) > 1:
        word = "{" + ", ".join(repr(w) for w in sorted(words)) + "}"
    else:
        word = "any" if default is None else _TYPES.get(type(default), type(default).__name__)
    if name not in op.attr_defaults:
        return f"{word}, required"
    return f"{word}, optional, default={op.attr_defaults[name]!r}"
