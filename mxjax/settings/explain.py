"""Says what the settings are, where their values come from, and what they do."""

from __future__ import annotations

from typing import Any, NamedTuple

from .option import Applies, Option
from .registry import Registry

_WHEN = {
    "call": "at the next call",
    "compile": "at the next compilation",
    "backend-init": "only before JAX's backend starts",
}


class Explanation(NamedTuple):
    """One option: its value, its source, and everything its row says.  `print` it."""

    name: str
    value: Any
    source: str
    raw: object
    default: Any
    expected: str
    applies: Applies
    variable: str
    legacy: tuple[str, ...]
    doc: str
    effect: str
    overruled: tuple[str, ...]
    unread: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name} = {self.value!r}   (from {self.source})",
            f"  {self.doc}",
            f"  effect:   {self.effect}",
            f"  expected: {self.expected}; default {self.default!r}",
            f"  a change counts {_WHEN[self.applies]}",
            f"  variable: {self.variable}",
        ]
        if self.legacy:
            lines.append(f"  as:       {', '.join(self.legacy)}")
        if self.overruled:
            lines.append(f"  stronger than: {', '.join(self.overruled)}")
        if self.unread:
            lines.append(f"  {', '.join(self.unread)} changed after the import, when it is read: "
                         "use mx.config.set")
        return "\n".join(lines)


def explain(registry: Registry, name: str) -> Explanation:
    """The `Explanation` of one option."""
    value = registry.get(name)
    name = registry.canonical(name)
    option: Option = registry.options[name]
    found, *overruled = registry.sources(name)
    return Explanation(
        name=name,
        value=value,
        source=found.source,
        raw=found.raw,
        default=option.default,
        expected=option.kind.expected,
        applies=option.applies,
        variable=option.variable,
        legacy=tuple(old.name for old in option.legacy),
        doc=option.doc,
        effect=option.effect,
        overruled=tuple(f"{other.source} ({other.value!r})" for other in overruled),
        unread=registry.unread(name),
    )


def describe(registry: Registry) -> str:
    """A table of all options: name, value, source, and what they do."""
    rows = [explain(registry, name) for name in registry.options]
    cells = [("option", "value", "source", "meaning")]
    cells += [(row.name, repr(row.value), row.source, row.doc) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True))
        for line in cells
    )
