"""The settings: one typed row per option, the only reader of the environment.

    >>> import mxjax as mx
    >>> mx.config.get("engine.type")
    'ThreadedEnginePerDevice'
    >>> with mx.config.scope(engine_type="NaiveEngine"):
    ...     mx.config.get("MXNET_ENGINE_TYPE")        # any name of the option will do
    'NaiveEngine'

The strongest source wins: argument > scope > set > `MXJAX_<GROUP>_<OPTION>` > the variable of
MXNet or MegEngine > default.  A value that is not allowed is refused when mxjax is imported.
`print(mx.config.describe())` shows all options, `print(mx.config.explain(name))` one.

This package imports neither JAX nor anything else of mxjax but its exceptions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import explain_names as _explain_names
from . import explain as _explain
from .explain import Explanation
from .option import Option
from .registry import Registry, Scope, SettingError, Values, backend_is_up
from .registry import snapshot as _snapshot
from .rows import OPTIONS
from .rows.allocation import HOST_KEPT
from .rows.engine import GPU_DISPATCH
from .runconfig import RunConfig

__all__ = [
    "Explanation",
    "RunConfig",
    "Scope",
    "SettingError",
    "as_json",
    "backend_is_up",
    "backend_starting",
    "begin_process",
    "changed",
    "child_environment",
    "current",
    "describe",
    "env",
    "explain",
    "export",
    "get",
    "is_given",
    "on_change",
    "options",
    "reset",
    "resolve",
    "rows",
    "scope",
    "scoped",
    "set",
    "set_variable",
    "snapshot",
    "state",
    "variable",
]

_registry = Registry(OPTIONS, os.environ)

#: `state.version` grows with every change of any option: caches compare it.
state = _registry.state


def get(name: str) -> Any:
    """The value of an option in force here.

    Args:
      name: any name of the option.

    Returns:
      the value of the option.

    Raises:
      MXNetKeyError: there is no such option; the message names the nearest.

    >>> get("engine.bulk_nodes")
    4096
    """
    return _registry.get(name)


def resolve(name: str, argument: object = None) -> Any:
    """The value for one call: its own `argument` unless that is None, else the option's.

    Args:
      name: any name of the option.
      argument: what was given; None: the option counts.

    Returns:
      the argument, or the option's value without one.

    >>> resolve("memory.remat", "mirror")
    'mirror'
    """
    return _registry.resolve(name, argument)


def snapshot(name: str) -> Callable[[], Any]:
    """A reader for hot paths: calling it costs a comparison where nothing has changed.

    Args:
      name: any name of the option.

    Returns:
      function: gives the option's value, and looks it up again only after changes.

    >>> nodes = snapshot("engine.bulk_nodes")
    >>> nodes()
    4096
    """
    return _snapshot(_registry, name)


def scoped() -> bool:
    """Whether a scope is open in any thread: what is in force then differs from place to place.

    Returns:
      bool: whether one is open; after it `state.version` is another.
    """
    return _registry.scopes > 0


def current() -> Values:
    """All values in force here, by canonical name: one dict, replaced at every change.

    Returns:
      RunConfig or dict: the settings in force.
    """
    return _registry.current()


def set(name: str | Mapping[str, Any] | None = None, value: Any = None, /, **options: Any) -> None:
    """Set options for the whole process.

    Either `set("engine.type", "NaiveEngine")`, a dict, or `set(engine_type="NaiveEngine")`.

    Args:
      name: any name of the option.
      value: the new value.

    Raises:
      SettingError: the value is not allowed, or comes too late to count.
      MXNetKeyError: there is no such option.
    """
    _registry.set(name, value, **options)


def reset(name: str | None = None) -> None:
    """Forget what `set` was told, about one option or about all.

    Args:
      name: any name of the option.
    """
    _registry.reset(name)


def scope(
    name: str | Mapping[str, Any] | None = None, value: Any = None, /, **options: Any
) -> Scope:
    """Set options for a `with` block, in this thread (or asyncio task) only.

    Args:
      name: any name of the option.
      value: the new value.

    Returns:
      context manager: within it the setting, or name, is in force.

    >>> with scope("engine.bulk_nodes", 15):
    ...     get("engine.bulk_nodes")
    15
    """
    return _registry.scope(name, value, **options)


def on_change(name: str, callback: Callable[[Any], None]) -> Callable[[], None]:
    """Call `callback(value)` after every change of an option, in the thread that made it.

    The start and the end of a scope are changes.  Returns a function that ends the subscription.

    Args:
      name: any name of the option.
      callback: the function that is called.

    Returns:
      function: the callback itself, to be taken off again.
    """
    return _registry.on_change(name, callback)


def options() -> tuple[str, ...]:
    """The canonical names of all options.

    Returns:
      tuple of str: the names of all options.
    """
    return tuple(_registry.options)


def explain(name: str) -> Explanation:
    """Everything about one option: its value, its source, its row.  `print` it.

    Args:
      name: any name of the option.

    Returns:
      Explanation: it prints as a table.
    """
    return _explain.explain(_registry, name)


def describe(name: str | None = None) -> str:
    """A table of all options with value and source; with a name, the long form of that one.

    Args:
      name: any name of the option.

    Returns:
      str: the table.
    """
    return _explain.describe(_registry) if name is None else str(explain(name))


def changed() -> list[str]:
    """The canonical names of the options that have a value from somewhere.

    Returns:
      dict: the options that somebody set.
    """
    return _explain.changed(_registry)


def as_json(names: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """What `explain` says about these options (all, unless given), for `json.dumps`.

    Args:
      names: the names.

    Returns:
      dict: options by name, with values and sources.
    """
    return _explain.as_json(_registry, list(_registry.options) if names is None else names)


def table() -> tuple[Option, ...]:
    """The table: a row for every option."""
    return tuple(_registry.options.values())


def is_given(name: str) -> bool:
    """Whether the option's value is somebody's choice rather than its default.

    Args:
      name: any name of the option.

    Returns:
      bool: whether somebody set it.
    """
    return _registry.sources(name)[0].source != "default"


def begin_process() -> None:
    """One of our launchers began this process: what concerns all of it is ours to choose, unless somebody has."""
    if not is_given("memory.host_kept"):
        set("memory.host_kept", HOST_KEPT)


def env(name: str, default: str | None = None) -> str | None:
    """An environment variable that is no option of mxjax, such as a launcher's `DMLC_ROLE`.

    Args:
      name: any name of the option.
      default: the value without anybody's.

    Returns:
      dict: variables for another process.
    """
    if name in _registry._names:
        raise ValueError(f"{name} is an option: settings.get({_registry.canonical(name)!r})")
    return os.environ.get(name, default)


def variable(name: str) -> str | None:
    """An environment variable as it stands, be it an option's or not; None where it is not set.

    Args:
      name: any name of the option.

    Returns:
      str: the name of the variable.
    """
    return os.environ.get(name)


def set_variable(name: str, value: str | None) -> None:
    """Set an environment variable or, with None, remove it. Of the options those marked `dynamic` follow it.

    Args:
      name: any name of the option.
      value: the new value.
    """
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def child_environment(**changes: str | None) -> dict[str, str]:
    """A copy of the environment for a child process, with changes; None removes a variable.

    Returns:
      dict: variables for another process.
    """
    merged = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


@contextlib.contextmanager
def backend_starting() -> Iterator[None]:
    """The environment in which JAX's backends start: it has in addition what options mean that nobody has set.

    Yields:
      None: it is as before afterwards.
    """
    unset = GPU_DISPATCH not in os.environ
    if unset:
        os.environ[GPU_DISPATCH] = "1"
    try:
        yield
    finally:
        if unset:
            os.environ.pop(GPU_DISPATCH, None)


def export(**variables: str) -> None:
    """Set environment variables that are no options of mxjax, for a library that reads them when it is imported."""
    for name in variables:
        if name in _registry._names:
            raise ValueError(
                f"{name} is an option: settings.set({_registry.canonical(name)!r}, ...)"
            )
    os.environ.update(variables)


def _export(option: Option) -> Callable[[Any], None]:
    """Puts what an option becomes into the environment, where JAX and its libraries read it."""

    def act(value: Any) -> None:
        assert option.environment is not None
        for name, text in option.environment(value).items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text

    return act


def _set_log_level(level: str | None) -> None:
    import logging

    logging.getLogger("mxjax").setLevel(level or logging.NOTSET)


_ACTIONS: dict[str, Callable[[Any], None]] = {
    "debug.log_level": _set_log_level,
    **{row.name: _export(row) for row in OPTIONS if row.environment is not None},
}
for _name, _act in _ACTIONS.items():
    on_change(_name, _act)
    if is_given(_name):
        _act(get(_name))


_explain_names(__name__)
