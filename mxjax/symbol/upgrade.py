"""What files of old versions say otherwise, and what they leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ops.table import Op
from . import attributes
from .node import Entry, Node, walk


def attributes_of(registry: str, attrs: Mapping[str, str], version: int) -> dict[str, str]:
    """An operator's attributes as today's operator has them."""
    made = dict(attrs)
    if version < 905 and registry in ("argmax", "argmin") and made.get("axis") == "-1":
        del made["axis"]  # it meant all axes
    return made


def with_states(
    name: str,
    op: Op,
    params: Mapping[str, Any],
    names: Sequence[str],
    inputs: list[Entry],
    version: int,
) -> list[Entry]:
    """The inputs with those that files of before 0.9 do not hold: auxiliary states, as variables."""
    if (
        version >= 900
        or not op.aux
        or len(inputs) < len(op.array_params) - len(states_of(op, params))
    ):
        return inputs
    return [*inputs, *[(Node(f"{name}_{n}"), 0) for n in names[len(inputs) :]]]


def states_of(op: Op, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the arrays that an operator updates."""
    probe = Node("", op, params, names=op.array_params)
    return tuple([op.array_params[k] for k in probe.aux()])


def spread_attributes(entries: Sequence[Entry], version: int) -> None:
    """`weight_lr_mult` at an operator is `__lr_mult__` of its variable, as it is written since 0.9."""
    for node in walk(entries):
        for key in [*node.attrs]:
            for word in attributes.HIDDEN:
                name = (
                    key[: -len(word) - 1]
                    if key.endswith(f"_{word}") and not key.startswith("__")
                    else ""
                )
                if name and name in node.names:
                    target = node.inputs[node.names.index(name)][0]
                    if target.is_variable:
                        target.attrs.setdefault(f"__{word}__", node.attrs.pop(key))
                        break
