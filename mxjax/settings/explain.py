"""Says what the settings are, where their values come from, and what they become."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..display.notebooks import TextOfTable, table
from .option import Applies, Fidelity, Option
from .registry import Registry, backend_is_up

WHEN = {
    "call": "at the next call",
    "compile": "at the next compilation",
    "construct": "for what is made from then on",
    "backend-init": "only before JAX's backend starts",
    "import": "only before mxjax is imported",
}
PLATFORMS = ("cpu", "gpu", "tpu")
_PLUGINS = {
    "gpu": ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin"),
    "tpu": ("libtpu",),
}


class OldName(NamedTuple):
    """An older name of an option, and how well it is served."""

    name: str
    fidelity: Fidelity
    difference: str


class Explanation(NamedTuple):
    """One option: its value, its source, what it becomes, and everything its row says.  `print` it.

    `platforms` are those on which it does something, `here` whether one of them is on this
    machine, and `becomes` the compiler options and environment variables of the value in force.

    Args:
      name: the option's own name.
      value: what is in force.
      source: who set it.
      raw: the text that was given.
      default: the value without anybody's.
      expected: what is allowed.
      applies: whether it has an effect here.
      variable: the name of the environment's variable.
      legacy: the names that others have for it.
      doc: what it is, in a sentence.
      effect: what changes with it.
      overruled: what was given and does not count.
      unread: whether nobody reads it.
      platforms: where it has an effect.
      here: what it is here.
      becomes: what its values mean here.
      served: whether it has an effect here.
    """

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
    platforms: tuple[str, ...]
    here: bool
    becomes: tuple[str, ...]
    served: tuple[OldName, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name} = {shown(self.value)}   (from {self.source})",
            f"  {self.doc}",
            f"  effect:   {self.effect}",
        ]
        lines += [f"  becomes:  {line}" for line in self.becomes]
        if self.platforms != PLATFORMS:
            here = "" if self.here else ": none of them is on this machine, so it does nothing here"
            lines.append(f"  works on: {', '.join(self.platforms) or 'nothing'}{here}")
        lines += [
            f"  expected: {self.expected}; default {shown(self.default)}",
            f"  a change counts {WHEN[self.applies]}",
            f"  variable: {self.variable}",
        ]
        if self.legacy:
            lines.append(f"  as:       {', '.join(self.legacy)}")
        for old in self.served:
            if old.difference:
                lines.append(f"  {old.name} ({old.fidelity}): {old.difference}")
        if self.overruled:
            lines.append(f"  stronger than: {', '.join(self.overruled)}")
        if self.unread:
            lines.append(
                f"  {', '.join(self.unread)} changed after the import, when it is read: "
                "use mx.config.set"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same lines as a notebook shows them."""
        rows = [line.strip().partition(":")[::2] for line in str(self).split("\n")[2:]]
        head = (f"{self.name} = {shown(self.value)}", f"from {self.source}")
        return table(
            head, [("", self.doc), *((name.strip(), said.strip()) for name, said in rows)], left=2
        )


def shown(value: Any) -> str:
    """A value as a reader would write it."""
    return repr(dict(value)) if isinstance(value, Mapping) else repr(value)


def platforms_here() -> frozenset[str]:
    """The platforms of this process: JAX's where it runs, else those it has plugins for."""
    if backend_is_up():
        found = {device.platform for device in sys.modules["jax"].devices()}
        return frozenset({"cpu", *("gpu" if name in ("cuda", "rocm") else name for name in found)})
    import importlib.util

    have = [
        name
        for name, packages in _PLUGINS.items()
        if any(importlib.util.find_spec(package) for package in packages)
    ]
    return frozenset({"cpu", *have})


def becomes(option: Option, value: Any) -> tuple[str, ...]:
    """What a value of the option turns into, platform by platform where they differ."""
    lines = []
    if option.environment is not None:
        lines += [
            f"{name}={text}" if text is not None else f"{name} unset"
            for name, text in option.environment(value).items()
        ]
    if option.compiler is not None:
        told = {name: dict(option.compiler(value, name)) for name in option.platforms or PLATFORMS}
        if len({str(options) for options in told.values()}) == 1:
            told = {"": next(iter(told.values()))}
        for platform, options in told.items():
            where = f"on {platform}: " if platform else ""
            words = " ".join(f"{name}={text!r}" for name, text in options.items())
            if words:
                lines.append(f"{where}{words}")
    if option.mechanism:
        lines.append(option.mechanism)
    return tuple(lines)


def explain(registry: Registry, name: str) -> Explanation:
    """The `Explanation` of one option."""
    value = registry.get(name)
    name = registry.canonical(name)
    option: Option = registry.options[name]
    found, *overruled = registry.sources(name)
    platforms = option.platforms or PLATFORMS
    if option.legacy and all(old.fidelity == "none" for old in option.legacy):
        platforms = ()
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
        platforms=platforms,
        here=bool(platforms_here().intersection(platforms)),
        becomes=becomes(option, value),
        served=tuple(OldName(old.name, old.fidelity, old.difference) for old in option.legacy),
    )


def changed(registry: Registry) -> list[str]:
    """The options that somebody gave a value."""
    return [name for name in registry.options if registry.sources(name)[0].source != "default"]


def describe(registry: Registry, names: list[str] | None = None) -> TextOfTable:
    """A table of the options (all, unless `names`): name, value, source, and what they do."""
    rows = [explain(registry, name) for name in (registry.options if names is None else names)]
    cells = [(row.name, shown(row.value), row.source, _meaning(row)) for row in rows]
    return TextOfTable(("option", "value", "source", "meaning"), cells)


def _meaning(row: Explanation) -> str:
    return row.doc if row.here else f"{row.doc} (no effect here)"


def as_json(registry: Registry, names: list[str]) -> dict[str, dict[str, Any]]:
    """What `explain` says of these options, as JSON has it."""
    found = {}
    for name in names:
        row = explain(registry, name)._asdict()
        row["served"] = {
            old.name: {"fidelity": old.fidelity, "difference": old.difference}
            for old in row["served"]
        }
        found[name] = {key: _plain(value) for key, value in row.items()}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
