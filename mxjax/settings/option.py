"""One row of the table of settings, and the old names that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from .kinds import Kind

#: When a change counts: at the next call, at the next compilation, for what is made from then on,
#: or once: before JAX's backend starts, or before the import.
Applies = Literal["call", "compile", "construct", "backend-init", "import"]


#: How well an old name is served: its effect, one that differs from the original's (`difference`
#: says how), or none at all.
Fidelity = Literal["real", "approximate", "none"]


class Legacy(NamedTuple):
    """A name that MXNet, MegEngine or Ascend's NPURunConfig has for an option.

    Attributes:
      name: the old name; one in capitals is an environment variable, others only arguments.
      kind: how the old name spells its values, where that differs from the option.
      meaning: the option's value for each of those: a table, or a function.
      weak: the name gives way to those before it in the row, instead of contradicting them.
      fidelity: whether it does here what it did there.
      difference: what is different here, where it is not the same.
    """

    name: str
    kind: Kind | None = None
    meaning: Mapping[Any, Any] | Callable[[Any], Any] | None = None
    weak: bool = False
    fidelity: Fidelity = "real"
    difference: str = ""

    @property
    def is_variable(self) -> bool:
        return self.name.isupper()

    def convert(self, raw: object, option: Option) -> Any:
        """The option's value for the old name's `raw`."""
        if self.kind is None:
            return option.kind.convert(raw)
        value = self.kind.convert(raw)
        if callable(self.meaning):
            return self.meaning(value)
        return value if self.meaning is None else self.meaning[value]


class Option(NamedTuple):
    """A setting: `group.option`, what it may hold, and what it does.

    Attributes:
      name: the canonical name, such as `engine.type`.
      kind: the allowed values.
      default: the value where nobody says otherwise; it need not be of the kind (`None`: unset).
      doc: one sentence.
      effect: what changes, and where it does nothing.
      applies: when a change counts.
      legacy: older names of the same thing.
      dynamic: the environment is read again at every `get`, as upstream does for these.
      combine: makes one value of several legacy names that differ; without it that is an error.
      platforms: where the option does something; empty: everywhere.
      compiler: (value, platform) -> the compiler options that the value becomes.
      environment: value -> the variables that JAX and its libraries read (None removes one).
      implies: value -> values of other options, where nobody gave those one.
      mechanism: in words, what the value becomes where neither of these two says it.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    effect: str
    applies: Applies = "call"
    legacy: tuple[Legacy, ...] = ()
    dynamic: bool = False
    combine: Callable[[Iterable[Any]], Any] | None = None
    platforms: tuple[str, ...] = ()
    compiler: Callable[[Any, str], Mapping[str, Any]] | None = None
    environment: Callable[[Any], Mapping[str, str | None]] | None = None
    mechanism: str = ""
    implies: Callable[[Any], Mapping[str, Any]] | None = None

    @property
    def variable(self) -> str:
        """The environment variable: `MXJAX_<GROUP>_<OPTION>`."""
        return "MXJAX_" + self.name.upper().replace(".", "_")

    @property
    def keyword(self) -> str:
        """The name as a keyword argument: `engine_type` for `engine.type`."""
        return self.name.replace(".", "_")

    @property
    def variables(self) -> tuple[str, ...]:
        """Every environment variable that sets this option, the strongest first."""
        return (self.variable, *(old.name for old in self.legacy if old.is_variable))

    def legacy_of(self, name: str) -> Legacy | None:
        """The old name of this option that `name` is; None for its own names."""
        return next((old for old in self.legacy if old.name == name), None)
