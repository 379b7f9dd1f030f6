"""Objects that say what they are when somebody prints them: ``Adam(learning_rate=0.1, beta1=0.8)``."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

_NOT_THERE = object()
_LONG = 6  # so many elements, or more, are counted instead of shown


def arguments(cls: type) -> dict[str, inspect.Parameter]:
    """What a class is made with, by name: its own arguments first, then those of its bases.

    >>> list(arguments(Shown))
    []
    """
    given: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" in vars(base) and base is not object:
            for name, parameter in list(
                inspect.signature(vars(base)["__init__"]).parameters.items()
            )[1:]:
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    given.setdefault(name, parameter)
    return given


class Shown:
    """A class whose ``repr`` has what its instances were made with, as far as they keep it and it is no default.

    ``_shown`` is for classes that have something better to say.

    >>> class Window(Shown):
    ...     def __init__(self, size, stride=1):
    ...         self.size, self._stride = size, stride
    >>> Window(3), Window(3, stride=2)
    (Window(size=3), Window(size=3, stride=2))
    """

    __slots__ = ()
    #: Arguments that say nothing to who prints it.
    _unshown: ClassVar[frozenset[str]] = frozenset()

    def _shown(self) -> Mapping[str, Any]:
        """What the repr has between its brackets, by name; what has no name is under a number."""
        found = {}
        for name, parameter in arguments(type(self)).items():
            value = getattr(self, name, _NOT_THERE)
            value = (
                getattr(self, f"_{name}", _NOT_THERE)
                if value is _NOT_THERE or inspect.ismethod(value)
                else value
            )
            if (
                value is not _NOT_THERE
                and name not in self._unshown
                and not _same(value, parameter.default)
            ):
                found[name] = value
        return found

    def __repr__(self) -> str:
        try:
            parts = [
                text(v) if isinstance(k, int) else f"{k}={text(v)}"
                for k, v in self._shown().items()
            ]
        except Exception as error:  # half made, or closed: a repr is no place to fail
            parts = [f"<{type(error).__name__}>"]
        return f"{type(self).__name__.lstrip('_')}({', '.join(parts)})"


def _same(value: Any, default: Any) -> bool:
    """Whether an attribute is what it is without being given."""
    if value is default or default is inspect.Parameter.empty and value is None:
        return True
    try:
        return bool(value == default) or default is None and value in ((), [], {}, False)
    except Exception:  # arrays compare element by element
        return False


def text(value: Any) -> str:
    """A value as it stands within a repr: arrays by their shape, long lists by their length, functions by their name.

    >>> text(0.5), text([1, 2]), text(range(100)), text(len)
    ('0.5', '[1, 2]', '<100 of range>', 'len')
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"<{type(value).__name__} {'x'.join(map(str, shape))}>"
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= 60 else f"{value[:57]!r}..."
    if isinstance(value, Collection) and not isinstance(value, Shown):
        if len(value) > _LONG:
            return f"<{len(value)} of {type(value).__name__}>"
        if type(value) is dict:
            return f"{{{', '.join(f'{k!r}: {text(v)}' for k, v in value.items())}}}"
        if type(value) in (list, tuple):
            parts = ", ".join(map(text, value)) + (
                "," if type(value) is tuple and len(value) == 1 else ""
            )
            return f"[{parts}]" if type(value) is list else f"({parts})"
    name = getattr(value, "__name__", None)
    return name if name is not None and callable(value) else repr(value)
