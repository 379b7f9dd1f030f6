"""Names of what gets none from the user: `with mx.name.Prefix("encoder_"):`."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import ClassVar

from .display.reprs import Shown
from .scopes import Kept

__all__ = ["NameManager", "Prefix", "current"]


class NameManager(Shown):
    """Makes names by counting: the n-th without a name that asks with a hint is `hint` and n.

    Used in `with` it is the thread's (and asyncio task's) current one; a subclass may name otherwise.

    >>> names = NameManager()
    >>> names.get(None, "dense"), names.get(None, "dense"), names.get("out", "dense")
    ('dense0', 'dense1', 'out')
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._before: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """`name`, where the user gave one; else a new name made of `hint`."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    class _Innermost:
        def __get__(self, names: object, cls: type) -> NameManager:
            return _current.get()

    #: The innermost manager, as MXNet 1 spells `mx.name.current()`.
    current = _Innermost()
    _current: ClassVar[Kept[NameManager]]

    def __enter__(self) -> NameManager:
        self._before.append(_current.get())
        _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.set(self._before.pop())


class Prefix(NameManager):
    """Puts `prefix` before all names, the user's too.

    >>> with Prefix("encoder_"):
    ...     current().get(None, "dense"), current().get("out", "dense")
    ('encoder_dense0', 'encoder_out')
    """

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The name that `NameManager` gives, after the prefix."""
        return self._prefix + super().get(name, hint)


_current: ContextVar[NameManager] = ContextVar("names", default=NameManager())  # noqa: B039  # as in MXNet, shared
NameManager._current = Kept(_current)


def current() -> NameManager:
    """The innermost manager of names; where there is none, one that all threads share."""
    return _current.get()
