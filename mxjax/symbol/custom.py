"""Custom operators, written in Python, on symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import attribute, errors, name
from ..operator.custom_op import registry
from . import attributes
from .compose import missing, one_entry
from .node import Entry, Node
from .symbol import Symbol, _Symbol


def prop_of(params: Mapping[str, Any]) -> Any:
    """The description of a registered operator with these options."""
    options = {k: str(v) for k, v in params.items() if k not in ("op_type", "num_args")}
    kind = str(params["op_type"])
    cls: Any = registry.get(kind)
    if cls is None:
        raise errors.MXNetError(
            f"Cannot find custom operator {kind}{errors.did_you_mean(kind, registry)}. "
            "Register it with @mx.operator.register(name)"
        )
    with errors.told(kind):
        return cls(**options)


def custom(*data: Any, op_type: str, **kwargs: Any) -> Any:
    """A custom operator registered with ``mx.operator.register``; inputs that are missing become variables."""
    given = {k: kwargs.pop(k) for k in [*kwargs] if isinstance(kwargs[k], Symbol)}
    users = attributes.written(attribute.current().get(kwargs.pop("attr", None)))
    title = name.current().get(kwargs.pop("name", None), "custom")
    params = {"op_type": op_type, **{k: str(v) for k, v in kwargs.items()}}
    prop = prop_of(params)
    wanted = [*prop.list_arguments(), *prop.list_auxiliary_states()]
    if len(data) > len(wanted) or any(k not in wanted for k in given):
        raise errors.MXNetError(f"custom operator {op_type} takes {', '.join(wanted)}")
    given.update(zip(wanted, data, strict=False))
    inputs = [
        one_entry(given[n], f"Argument {n}")
        if n in given
        else (missing(title, n, users, params), 0)
        for n in wanted
    ]
    is_np = any(s._is_np for s in given.values())
    node = custom_node(title, params, inputs, users, is_np)
    return (_Symbol if is_np else Symbol)([(node, k) for k in range(len(node.results))])


def custom_node(
    title: str,
    params: Mapping[str, Any],
    inputs: Sequence[Entry],
    users: Mapping[str, str],
    is_np: bool,
) -> Node:
    """The node of a custom operator on these results of nodes, auxiliary states last."""
    prop = prop_of(params)
    states = list(prop.list_auxiliary_states())
    wanted, outs = [*prop.list_arguments(), *states], list(prop.list_outputs())
    if len(inputs) != len(wanted):
        raise errors.MXNetError(
            f"custom operator {params['op_type']} takes {', '.join(wanted)}, got {len(inputs)}"
        )
    node = Node(
        title, None, dict(params), dict(users), list(inputs), wanted, {"outputs": len(outs)}, registry="Custom",
        is_np=is_np,
    )  # fmt: skip
    node.states = tuple(range(len(wanted) - len(states), len(wanted)))
    node.results = tuple(outs)
    return node
