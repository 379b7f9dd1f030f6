"""Where the values of the options come from, and who hears when they change.

The strongest source wins:

    argument > scope > set > MXJAX_<GROUP>_<OPTION> > legacy variable > default

The values in force are one dict, replaced and never changed, so reading costs a dict lookup.
`state.version` counts the changes: whoever caches something compares one integer.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from .._jax_private import backends
from ..errors import MXNetKeyError, MXNetValueError, did_you_mean
from .kinds import KindError
from .option import Legacy, Option

#: Names that begin so belong to us: a misspelt one is an error.
OWN_PREFIX = "MXJAX_"
#: ... except these, which the project's own tools read.
TOOL_PREFIXES = ("MXJAX_BENCH_", "MXJAX_TEST_", "MXJAX_DEMO_")
#: Names that begin so were somebody else's options: an unknown one is reported, once.
LEGACY_PREFIXES = ("MXNET_", "MEGENGINE_", "MGB_", "MGE_", "NNVM_")

#: What a kind raises for a value that it does not take.
REFUSALS = (ValueError, TypeError, OverflowError, RecursionError)

Values = Mapping[str, Any]


class SettingError(MXNetValueError):
    """A setting with a value, a name or a moment that is not allowed."""


class Found:
    """A value, the source that gave it, and the text that it was made of."""

    __slots__ = ("raw", "source", "value")

    def __init__(self, value: Any, source: str, raw: object) -> None:
        self.value = value
        self.source = source
        self.raw = raw


class _Overlay:
    """The options that the scopes of one context set, over a copy of the values below."""

    __slots__ = ("changes", "values", "version")

    def __init__(self, changes: dict[str, Found]) -> None:
        self.changes = changes
        self.values: Values = {}
        self.version = -1


class State:
    """What a cache compares: `version` grows with every change of any option anywhere."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


class Registry:
    """The options, with the values in force.

    Args:
      rows: the options.
      environ: the environment variables; the real ones are `os.environ`.
      late: only look: nothing is put in force, so nothing comes too late.

    Raises:
      SettingError: variables hold values that are not allowed; all of them are named at once.
    """

    def __init__(
        self, rows: Iterable[Option], environ: Mapping[str, str], *, late: bool = False
    ) -> None:
        self.options = {row.name: row for row in rows}
        self.state = State()
        self._environ = environ
        self._late = late
        self._lock = threading.RLock()
        self._names: dict[str, str] = {}
        for row in self.options.values():
            for name in (row.name, row.keyword, row.variable, *(old.name for old in row.legacy)):
                if self._names.setdefault(name, row.name) != row.name:
                    raise AssertionError(f"two options are called {name}")
        self._implying = [row for row in self.options.values() if row.implies is not None]
        self._watched = {name: row.variables for name, row in self.options.items() if row.dynamic}
        self._seen = {name: self._texts(row) for name, row in self.options.items()}
        self._peek, self._keys = _peeking(environ, self._watched)
        self._peeked = {name: tuple(map(self._peek, keys)) for name, keys in self._keys.items()}
        self._callbacks: dict[str, list[Callable[[Any], None]]] = {}
        self._set: dict[str, Found] = {}
        self._scope: ContextVar[_Overlay | None] = ContextVar("mxjax_settings", default=None)
        self.scopes = 0  # how many are open, in all threads
        self._found = self._read_environment()
        self._base: Values = self._merge()

    # ------------------------------------------------------------------------------- reading
    def current(self) -> Values:
        """All values in force here, by canonical name; a new dict after every change."""
        overlay = self._scope.get()
        if overlay is None:
            return self._base
        if overlay.version != self.state.version:
            overlay.version = self.state.version
            overlay.values = {
                **self._base,
                **{name: found.value for name, found in overlay.changes.items()},
            }
        return overlay.values

    def get(self, name: str) -> Any:
        """The value of an option in force here."""
        name = name if name in self.options else self.canonical(name)
        if name in self._watched:
            self._look_again(name)
        return self.current()[name]

    def resolve(self, name: str, argument: object = None) -> Any:
        """The value for a call: its own argument where it has one, else the option's."""
        if argument is None:
            return self.get(name)
        return self._convert(name, argument, f"argument {name}")

    def canonical(self, name: str) -> str:
        """The canonical name of an option, given by any of its names."""
        try:
            return self._names[name]
        except KeyError:
            inside = [option for option in self.options if option.startswith(f"{name}.")]
            if inside:
                raise MXNetKeyError(
                    f"{name!r} is no option but a group of them: {', '.join(inside)}"
                ) from None
            raise MXNetKeyError(
                f"there is no option {name!r}{did_you_mean(name, self._names)} "
                "(mx.config.describe() lists them)"
            ) from None

    def sources(self, name: str) -> list[Found]:
        """Every source that has a value for the option, the strongest first."""
        name = self.canonical(name)
        if name in self._watched:
            self._look_again(name)
        overlay = self._scope.get()
        layers = (overlay.changes if overlay else {}, self._set, self._found)
        option = self.options[name]
        found = [layer[name] for layer in layers if name in layer]
        for row in self._implying:
            assert row.implies is not None
            implied = row.implies(self._base[row.name])
            if name in implied:
                found.append(Found(implied[name], row.name, None))
        return [*found, Found(option.default, "default", None)]

    def from_environment(self) -> dict[str, Found]:
        """What the environment said, by canonical name."""
        return dict(self._found)

    def unread(self, name: str) -> tuple[str, ...]:
        """The option's variables that changed after they were read, and so do not count."""
        name = self.canonical(name)
        option = self.options[name]
        pairs = zip(option.variables, self._texts(option), self._seen[name], strict=True)
        return tuple(variable for variable, now, then in pairs if now != then)

    # ------------------------------------------------------------------------------ changing
    def set(
        self, name: str | Mapping[str, Any] | None = None, value: Any = None, /, **options: Any
    ) -> None:
        """Set options for the whole process; see `mxjax.settings.set`."""
        changes = self._changes(name, value, options, "mx.config.set")
        with self._lock:
            for option, found in changes.items():
                self._refuse_late(option, found.value, found.source)
            before = dict(self._set)
            self._set.update(changes)
            try:
                self._publish()
            except Exception:  # who listens cannot do what the value says
                self._set = before
                self._publish()
                raise

    def reset(self, name: str | None = None) -> None:
        """Forget what `set` was told, about one option or about all."""
        with self._lock:
            names = list(self._set) if name is None else [self.canonical(name)]
            for option in names:
                below = self._found.get(option)
                value = self.options[option].default if below is None else below.value
                if option in self._set:
                    self._refuse_late(option, value, "mx.config.reset")
            for option in names:
                self._set.pop(option, None)
            self._publish()

    def scope(
        self, name: str | Mapping[str, Any] | None = None, value: Any = None, /, **options: Any
    ) -> Scope:
        """Options for a `with` block; see `mxjax.settings.scope`."""
        changes = self._changes(name, value, options, "mx.config.scope")
        for option in changes:
            if self.options[option].applies == "backend-init":
                raise SettingError(
                    f"{option} counts only before JAX's backend starts, so it cannot be changed "
                    "for a block: use mx.config.set at the start of the program"
                )
            if self.options[option].applies == "import":
                raise SettingError(
                    f"{option} counts only before mxjax is imported, so it cannot be changed for "
                    f"a block: set {self.options[option].variable} in the environment"
                )
        return Scope(self, changes)

    def on_change(self, name: str, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Call `callback(value)` after every change of an option, in the thread that made it.

        A scope counts as a change at its start and at its end.  Returns a function that ends the
        subscription.
        """
        listeners = self._callbacks.setdefault(self.canonical(name), [])
        listeners.append(callback)
        return lambda: listeners.remove(callback)

    # ------------------------------------------------------------------------------- private
    def _changes(
        self,
        name: str | Mapping[str, Any] | None,
        value: Any,
        options: Mapping[str, Any],
        source: str,
    ) -> dict[str, Found]:
        given = dict(options)
        if isinstance(name, Mapping):
            given.update(name)
        elif name is not None:
            given[name] = value
        return self.convert_all(given, source)

    def convert_all(self, given: Mapping[str, Any], source: str) -> dict[str, Found]:
        """The values by canonical name; all that is wrong with them is said at once.

        Names may be any of an option's; two that say different things about one option are refused.
        """
        problems: list[str] = []
        unknown: list[str] = []
        by_option: dict[str, list[tuple[Legacy | None, Found]]] = {}
        for key, raw in given.items():
            try:
                option = self.options[self.canonical(key)]
                legacy = option.legacy_of(key)
                value = self._convert(key, raw, f"{source}: {key}")
            except SettingError as error:
                problems.append(str(error))
            except MXNetKeyError as error:
                unknown.append(str(error))
            else:
                if legacy is not None and legacy.fidelity == "none" and raw is not None:
                    warnings.warn(f"{key} does nothing here: it {legacy.difference}", stacklevel=4)
                label = f"{source}: {key}"
                by_option.setdefault(option.name, []).append((legacy, Found(value, label, raw)))
        changes = {}
        for name, found in by_option.items():
            chosen = self._one_of(self.options[name], found, problems)
            if chosen is not None:
                changes[name] = Found(chosen.value, source, chosen.raw)
        if unknown and not problems:
            raise MXNetKeyError("\n".join(unknown))
        if problems:
            raise SettingError("\n".join([*problems, *unknown]))
        return changes

    def _convert(self, name: str, raw: object, where: str) -> Any:
        option = self.options[self.canonical(name)]
        legacy = option.legacy_of(name)
        if raw is None and option.default is None:
            return None
        try:
            return option.kind.convert(raw) if legacy is None else legacy.convert(raw, option)
        except REFUSALS as error:
            raise SettingError(_refusal(where, raw, option, legacy, error)) from None

    def _texts(self, option: Option) -> tuple[str | None, ...]:
        empty = {option.variable} if getattr(option.kind, "empty", False) else ()
        texts = ((name, self._environ.get(name)) for name in option.variables)
        return tuple(text if text or name in empty else None for name, text in texts)

    def _from_environment(self, option: Option, problems: list[str]) -> Found | None:
        """What the environment says about one option; an empty variable says nothing, unless it is a value."""
        found: list[tuple[Legacy | None, Found]] = []
        legacy: tuple[Legacy | None, ...] = (
            None,
            *(old for old in option.legacy if old.is_variable),
        )
        for old, name, raw in zip(legacy, option.variables, self._texts(option), strict=True):
            if raw is None:
                continue
            try:
                value = option.kind.convert(raw) if old is None else old.convert(raw, option)
            except REFUSALS as error:
                problems.append(_refusal(name, raw, option, old, error))
                continue
            found.append((old, Found(value, name, raw)))
        return self._one_of(option, found, problems)

    def _one_of(
        self, option: Option, said: list[tuple[Legacy | None, Found]], problems: list[str]
    ) -> Found | None:
        """What several names of one option say together."""
        if not said:
            return None
        own = [found for legacy, found in said if legacy is None]
        strong = [found for legacy, found in said if legacy is not None and not legacy.weak]
        found = own or strong or [said[0][1]]
        if all(other.value == found[0].value for other in found):
            return found[0]
        if option.combine is not None:
            chosen = option.combine(other.value for other in found)
            first = next((other for other in found if other.value == chosen), found[0])
            return Found(chosen, first.source, first.raw)
        words = " and ".join(f"{other.source}={other.raw!r}" for other in found)
        problems.append(
            f"{words} contradict each other (option {option.name}): unset one of them, or decide "
            f"with {option.variable if found[0].source in option.variables else option.keyword}"
        )
        return None

    def _read_environment(self) -> dict[str, Found]:
        problems: list[str] = []
        values: dict[str, Found] = {}
        for name, option in self.options.items():
            found = self._from_environment(option, problems)
            if found is not None:
                values[name] = found
        own = [option.variable for option in self.options.values()]
        ignored = []
        for name in self._environ:
            if name in self._names:
                continue
            if name.startswith(OWN_PREFIX) and not name.startswith(TOOL_PREFIXES):
                problems.append(f"{name}: there is no such setting{did_you_mean(name, own)}")
            elif name.startswith(LEGACY_PREFIXES):
                ignored.append(f"{name}{did_you_mean(name, self._names, 0.85)}")
        for name, found in values.items():
            try:
                self._refuse_late(name, found.value, f"{found.source}={found.raw!r}", before=None)
            except SettingError as error:
                problems.append(str(error))
        if problems:
            raise SettingError("\n".join(problems))
        if ignored:
            warnings.warn(
                f"mxjax knows no setting {', '.join(sorted(ignored))}: without effect here "
                "(mx.config.describe() lists the settings)",
                stacklevel=2,
            )
        return values

    def _look_again(self, name: str) -> None:
        """Read the variables of one option again, as upstream does at every use."""
        peeked = tuple(map(self._peek, self._keys[name]))
        if peeked == self._peeked[name]:
            return
        option = self.options[name]
        texts = self._texts(option)
        if texts == self._seen[name]:
            return
        problems: list[str] = []
        found = self._from_environment(option, problems)
        if problems:
            raise SettingError("\n".join(problems))
        with self._lock:
            self._peeked[name] = peeked
            self._seen[name] = texts
            if found is None:
                self._found.pop(name, None)
            else:
                self._found[name] = found
            self._publish()

    def _merge(self) -> Values:
        values = {name: option.default for name, option in self.options.items()}
        for layer in (self._found, self._set):
            values.update((name, found.value) for name, found in layer.items())
        for row in self._implying:
            assert row.implies is not None
            for name, value in row.implies(values[row.name]).items():
                if name not in self._found and name not in self._set:
                    values[name] = value
        return values

    def _publish(self) -> None:
        """Put the merged values in force and tell the listeners of those that changed here."""
        before = self.current()
        self._base = self._merge()
        self.state.version += 1
        self._tell(before)

    def _tell(self, before: Values) -> None:
        after = self.current()
        for name, listeners in self._callbacks.items():
            if before[name] != after[name]:
                for callback in tuple(listeners):
                    callback(after[name])

    def _refuse_late(self, name: str, value: Any, source: str, before: Any = ...) -> None:
        option = self.options[name]
        before = self._base[name] if before is ... else before
        if self._late or option.applies not in ("backend-init", "import") or value == before:
            return
        if option.applies == "import":
            if libraries_are_loaded():
                raise SettingError(
                    f"{source} comes too late: {name} counts only before JAX's libraries are "
                    f"loaded. Set {option.variable} in the environment, and import mxjax first."
                )
            return
        if not backend_is_up():
            return
        raise SettingError(
            f"{source} comes too late: {name} counts only before JAX's backend starts, and it is "
            f"running. Set {option.variable} in the environment, or call mx.config.set before the "
            "first array is made."
        )

    def _enter(self, changes: dict[str, Found]) -> Token[_Overlay | None]:
        before = self.current()
        outer = self._scope.get()
        token = self._scope.set(_Overlay({**(outer.changes if outer else {}), **changes}))
        with self._lock:
            self.scopes += 1
            self.state.version += 1
        try:
            self._tell(before)
        except BaseException:  # what a listener refuses is not in force
            self._leave(token)
            raise
        return token

    def _leave(self, token: Token[_Overlay | None]) -> None:
        before = self.current()
        self._scope.reset(token)
        with self._lock:
            self.scopes -= 1
            self.state.version += 1
        self._tell(before)


class Scope:
    """Options for the length of a `with` block, in this thread (or asyncio task) only.

    Args:
      registry: where the options are.
      changes: the options with their new values.
    """

    __slots__ = ("_changes", "_registry", "_tokens")

    def __init__(self, registry: Registry, changes: dict[str, Found]) -> None:
        self._registry = registry
        self._changes = changes
        self._tokens: list[Token[_Overlay | None]] = []

    def __enter__(self) -> Scope:
        self._tokens.append(self._registry._enter(self._changes))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._registry._leave(self._tokens.pop())


def backend_is_up() -> bool:
    """Whether JAX has started a backend; asking starts none, and imports no JAX.

    Returns:
      bool: whether it is too late for settings of the backend.
    """
    return bool(backends())


def _peeking(
    environ: Mapping[str, str], watched: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[Any], Any], dict[str, tuple[Any, ...]]]:
    """How to see quickly whether variables have changed, and their keys.

    `os.environ` encodes a name and decodes a text at each access, a microsecond; what it keeps them in
    is asked directly where it is as CPython has it.
    """
    data, encode = getattr(environ, "_data", None), getattr(environ, "encodekey", None)
    if type(data) is dict and encode is not None:
        return data.get, {name: tuple(map(encode, names)) for name, names in watched.items()}
    return environ.get, dict(watched)


def libraries_are_loaded() -> bool:
    """Whether JAX's compiled libraries are in this process."""
    return "jaxlib.xla_client" in sys.modules


def snapshot(registry: Registry, name: str) -> Callable[[], Any]:
    """An option for the hot path: a function that compares one integer where nothing changed.

    While any thread is inside a scope every call looks the value up.  The environment is not read
    again, as `get` does for dynamic options: a change there counts at the next `get` of the option.
    """
    name = registry.canonical(name)
    state = registry.state
    value: Any = None
    seen = -1

    def read() -> Any:
        return value if seen == state.version else again()

    def again() -> Any:
        nonlocal value, seen
        version = state.version
        found = registry.current()[name]
        if not registry.scopes:
            value, seen = found, version
        return found

    return read


def _refusal(
    where: str, raw: object, option: Option, legacy: Legacy | None, error: BaseException
) -> str:
    kind = option.kind if legacy is None or legacy.kind is None else legacy.kind
    expected = kind.expected
    words = f"not {expected}" if expected.startswith("one of") else f"expected {expected}"
    text = repr(raw)
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    why = f"; {error}" if isinstance(error, KindError) else ""
    return f"{where}={shown}: {words}{why} (option {option.name})"
