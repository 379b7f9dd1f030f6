"""One row of the table of settings, and the old names that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from .kinds import Kind

#: When a change counts: at the next call, at the next compilation, or only before JAX's backend
#: starts (once).
Applies = Literal["call", "compile", "backend-init"]


class Legacy(NamedTuple):
    """A name that MXNet, MegEngine or Ascend's NPURunConfig has for an option.

    Attributes:
      name: the old name; one in capitals is an environment variable, others only arguments.
      kind: how the old name spells its values, where that differs from the option.
      meaning: the option's value for each of those.
    """

    name: str
    kind: Kind | None = None
    meaning: Mapping[Any, Any] | None = None

    @property
    def is_variable(self) -> bool:
        return self.name.isupper()

    def convert(self, raw: object, option: Option) -> Any:
        """The option's value for the old name's `raw`."""
        if self.kind is None:
            return option.kind.convert(raw)
        value = self.kind.convert(raw)
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
