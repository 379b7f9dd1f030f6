"""A symbol with equal parts once."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from .node import Entry, Node, walk


def optimized(symbol: Any) -> Any:
    """The symbol in which calls that compute the same are one; random ones stay. Results stay apart, by copies.

    XLA does the same to every program; this shows it.
    """
    made: dict[Node, Node] = {}
    known: dict[Any, Node] = {}
    for node in walk(symbol._entries):
        inputs: list[Entry] = [(made[n], k) for n, k in node.inputs]
        own = {k: v for k, v in node.attrs.items() if k.startswith("__")}
        key: Any = (
            node.op, node.registry, tuple(node.params.items()), tuple(map(type, node.params.values())),
            tuple(sorted(own.items())), tuple(inputs), tuple(node.names), tuple(node.constants.items()),
        )  # fmt: skip
        if node.is_variable or (
            node.op is not None and (node.op.keyed or node.op.effect or node.aux())
        ):
            key = (node,)
        if key not in known:
            known[key] = node.on(inputs)
        made[node] = known[key]
    entries: list[Entry] = []
    for n, k in symbol._entries:
        entry = made[n], k
        if entry in entries:
            entry = Node(f"{n.name}_copy", TABLE["copy@nd"], inputs=[entry], names=["data"]), 0
        entries.append(entry)
    return symbol._of(entries)
