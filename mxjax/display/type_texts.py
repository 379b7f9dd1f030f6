"""Annotations that are shown as types: `help` puts the texts that modules keep of them between quotes."""

from __future__ import annotations

from types import FunctionType, ModuleType


class Text(str):
    """The text of a type, which is what its ``repr`` is, too; whoever evaluates annotations finds a text as before.

    >>> Text("int | None")
    int | None
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)


_known: dict[str, Text] = {}


def show(module: ModuleType) -> None:
    """Let the signatures of a module's functions and methods show types without quotes.

    A package shows those of classes from inside of it again: they may have got methods since.
    """
    name = module.__name__
    whole = __name__.partition(".")[0]
    for value in list(vars(module).values()):
        if type(value) is FunctionType:
            if (value.__module__ or "").startswith(whole):
                _mark(value)
        elif isinstance(value, type) and value.__module__.startswith(name):
            for part in vars(value).values():
                part = getattr(part, "__func__", part)  # of static methods, and methods of classes
                if type(part) is FunctionType:
                    _mark(part)


def _mark(function: FunctionType) -> None:
    said = function.__annotations__
    for name, text in said.items():
        if type(text) is str:
            said[name] = _known.get(text) or _known.setdefault(text, Text(text))
