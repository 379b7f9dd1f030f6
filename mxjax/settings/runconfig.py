"""A configuration as one value: read from arguments, a file or the environment, then put in force."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import MXNetAttributeError, MXNetFileNotFoundError, did_you_mean

if TYPE_CHECKING:
    from .registry import Registry, Scope


def _registry() -> Registry:
    from . import _registry

    return _registry


class RunConfig(Mapping[str, Any]):
    """Options of a run as an immutable value; only those that were given, by canonical name.

    Arguments are any names of options: `engine_type=`, NPURunConfig's (`iterations_per_loop=`,
    `precision_mode=`, `session_device_id=`, ...), or in a mapping also 'engine.type' and
    environment variables' names.

    Args:
      given: a mapping of such names to values.
      options: the same as keyword arguments, and stronger.

    Raises:
      SettingError: values that are not allowed or contradict each other; all are named at once.
      MXNetKeyError: there is no such option; the message names the nearest.

    >>> run = RunConfig(engine_type="NaiveEngine", iterations_per_loop=4)
    >>> run["engine.type"], run.engine_steps_per_call
    ('NaiveEngine', 4)
    >>> with run.replace(iterations_per_loop=1):   # for a block, in this thread
    ...     pass
    """

    __slots__ = ("_given", "_scopes", "_values")

    def __init__(self, given: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self._fill({**(given or {}), **options}, "RunConfig")

    def _fill(self, raw: Mapping[str, Any], source: str) -> None:
        found = _registry().convert_all(raw, source)
        set_ = object.__setattr__
        set_(self, "_given", MappingProxyType(raw))
        set_(self, "_values", MappingProxyType({name: one.value for name, one in found.items()}))
        set_(self, "_scopes", [])

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Any) -> RunConfig:
        """A TOML file (or JSON, by its ending): a table per group, or any names at the top.

        Keyword arguments are stronger than the file.

        Raises:
          MXNetFileNotFoundError: there is no such file.
          SettingError: it is no TOML or JSON, or holds values that are not allowed.
        """
        from .registry import SettingError

        path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                if path.endswith(".json"):
                    import json

                    tables = json.load(file)
                else:
                    import tomllib

                    tables = tomllib.load(file)
        except FileNotFoundError:
            raise MXNetFileNotFoundError(f"there is no configuration file {path!r}") from None
        except ValueError as error:
            raise SettingError(f"{path}: {error}") from None
        if not isinstance(tables, dict):
            raise SettingError(f"{path}: expected a table of options, got {type(tables).__name__}")
        config = cls.__new__(cls)
        config._fill(_flat(tables), path)  # what is wrong is said of the file
        return config.replace(**options)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RunConfig:
        """The options that environment variables give, under all their names.

        Raises:
          SettingError: values that are not allowed; all are named at once.
        """
        from . import OPTIONS
        from .registry import Registry

        read = Registry(OPTIONS, os.environ if environ is None else environ, late=True)
        return cls({name: found.value for name, found in read.from_environment().items()})

    def replace(self, **options: Any) -> RunConfig:
        """A copy in which these options have other values."""
        names = {_registry().canonical(name) for name in options}
        kept = {name: value for name, value in self._values.items() if name not in names}
        return type(self)(kept, **options)

    def apply(self) -> RunConfig:
        """Put the options in force for the process, as `mx.config.set` does; gives itself."""
        _registry().set(dict(self._values))
        return self

    def __enter__(self) -> RunConfig:
        scope: Scope = _registry().scope(dict(self._values))
        scope.__enter__()
        self._scopes.append(scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._scopes.pop().__exit__(kind, error, traceback)

    def __getitem__(self, name: str) -> Any:
        return self._values[_registry().canonical(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        """The value of an option, by keyword: its default where it was not given."""
        registry = _registry()
        if name.startswith("__") or name not in registry._names:
            raise MXNetAttributeError(
                f"RunConfig has no option {name!r}{did_you_mean(name, registry._names)}"
            )
        canonical = registry.canonical(name)
        return self._values.get(canonical, registry.options[canonical].default)

    def __setattr__(self, name: str, value: object) -> None:
        raise MXNetAttributeError(f"a RunConfig does not change: replace({name}=...) makes another")

    def __delattr__(self, name: str) -> None:
        raise MXNetAttributeError(f"a RunConfig does not change: {name} cannot be deleted")

    def __hash__(self) -> int:
        return hash(tuple(sorted((name, str(value)) for name, value in self._values.items())))

    def __repr__(self) -> str:
        inner = ", ".join(
            f"{name.replace('.', '_')}={value!r}" for name, value in self._values.items()
        )
        return f"RunConfig({inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self._values.items()
        }
        return type(self), (plain,)


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of groups as `group.option`; what stands at the top keeps its name."""
    groups = {name.partition(".")[0] for name in _registry().options}
    found: dict[str, Any] = {}
    for name, value in tables.items():
        if name in groups and isinstance(value, Mapping):
            found.update((f"{name}.{option}", inner) for option, inner in value.items())
        else:
            found[name] = value
    return found
