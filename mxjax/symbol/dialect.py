"""Where rows and MXNet's registry say one thing in different words: symbols on their way to a file and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .node import Entry, Node, copied, walk

#: Attributes that are never written: they follow from the inputs.
SILENT: frozenset[str] = frozenset()


def without_casts(entries: Sequence[Entry]) -> list[Entry]:
    """The same results without the casts that automatic mixed precision put in."""
    if not any(n.op is not None and n.op.display in ("amp_cast", "amp_multicast") for n in walk(entries)):
        return list(entries)
    made = copied(entries)
    skipped: dict[Entry, Entry] = {}
    for node in walk(made):
        node.inputs = [skipped.get(e, e) for e in node.inputs]
        if node.op is not None and node.op.display in ("amp_cast", "amp_multicast"):
            skipped.update({(node, k): e for k, e in enumerate(node.inputs)})
    return [skipped.get(e, e) for e in made]


def for_file(entries: Sequence[Entry]) -> list[Entry]:
    """The same results by operators that MXNet has."""
    return list(entries)


def from_file(entries: Sequence[Entry]) -> list[Entry]:
    """The results of a file by the operators there are here."""
    return list(entries)


def read(registry: str, attrs: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The row and its attributes for an operator of a file that has other ones; None where both are the same."""
    return None


__all__ = ["SILENT", "Node", "for_file", "from_file", "read", "without_casts"]
