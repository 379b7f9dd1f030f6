"""Scopes that are left whatever happens.

An exception from outside (Ctrl-C) may come as a `with` statement is left, before `__exit__` has done anything: Python
would go on without it, and the mode stay. So what `with` keeps to leave a scope is an object of the scope's own: when
that one goes and the scope was not left, it is left then.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_entered = threading.local()


class Kept(Generic[T]):
    """Where MXNet 1 keeps the scope that a thread is in: its `value`.

    >>> from contextvars import ContextVar
    >>> kept = Kept(ContextVar("size", default=1))
    >>> kept.value = 2
    >>> kept.value
    2
    """

    __slots__ = ("_variable",)

    def __init__(self, variable: ContextVar[T]):
        self._variable = variable

    @property
    def value(self) -> T:
        return self._variable.get()

    @value.setter
    def value(self, scope: T) -> None:
        self._variable.set(scope)


def _stack() -> list[tuple[Scope, Any]]:
    """The scopes that this thread is in, each with what there was before it."""
    found: list[tuple[Scope, Any]] | None = getattr(_entered, "stack", None)
    if found is None:
        found = _entered.stack = []
    return found


class _Exit:
    """`Scope.__exit__`: looked up on a scope, as `with` does before it enters, it gives a function that leaves once."""

    def __get__(self, scope: Scope | None, kind: type) -> Callable[..., None]:
        if scope is None:
            return _leave_last  # contextlib.ExitStack asks the class
        stack = _stack()
        watch: list[Any] = []
        leave = functools.partial(_leave, scope, stack, watch)
        watch.append(weakref.ref(leave, functools.partial(_gone, scope, stack, len(stack), watch)))
        return leave


def _leave(scope: Scope, stack: list[tuple[Scope, Any]], watch: list[Any], *error: Any) -> None:
    """Leave the innermost entry of a scope; nothing in here holds the function that `with` has."""
    at = len(stack) - 1
    while at >= 0 and stack[at][0] is not scope:
        at -= 1
    if at < 0:
        scope._not_entered()
        return
    before = stack[at][1]
    try:
        scope._give_back(before, bool(error) and error[0] is not None)
        del stack[at]
    except BaseException:
        scope._give_back(before, True)
        if at < len(stack) and stack[at][1] is before:
            del stack[at]
        raise
    watch.clear()


def _leave_last(scope: Scope, *error: Any) -> None:
    _leave(scope, _stack(), [], *error)


def _gone(
    scope: Scope, stack: list[tuple[Scope, Any]], depth: int, watch: list[Any], _: Any
) -> None:
    """What was to leave a scope has gone: leave it, where that was not done."""
    watch.clear()
    for at in reversed(range(depth, len(stack))):
        if stack[at][0] is scope:
            scope._give_back(stack[at][1], True)
            del stack[at]


class Scope:
    """A context manager of modes of a thread; it may be entered several times, in itself too.

    Subclasses say what there is `_now`, how to `_set` the mode (what `with` gives), and how to `_give_back` what there
    was, which may happen twice; ``broken``: because of an exception.
    """

    __slots__ = ()

    def _now(self) -> Any:
        raise NotImplementedError

    def _set(self) -> Any:
        raise NotImplementedError

    def _give_back(self, before: Any, broken: bool) -> None:
        raise NotImplementedError

    def _not_entered(self) -> None:
        """It is left without being entered."""

    def __enter__(self) -> Any:
        _stack().append((self, self._now()))  # before anything is changed
        return self._set()

    __exit__ = _Exit()


class _Generated(Scope):
    """The scope around the ``yield`` of a generator."""

    __slots__ = ("_body",)

    def __init__(self, body: Any):
        self._body = body

    def _now(self) -> Any:
        return self._body

    def _set(self) -> Any:
        return next(self._body)

    def _give_back(self, before: Any, broken: bool) -> None:
        if broken:
            before.close()
        else:
            next(before, None)


def scope(fn: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """As `contextlib.contextmanager`, for generators that set modes and give them back: they see no exception.

    >>> @scope
    ... def noisy():
    ...     print("in")
    ...     yield
    ...     print("out")
    >>> with noisy():
    ...     pass
    in
    out
    """

    @functools.wraps(fn)
    def made(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _Generated(fn(*args, **kwargs))

    return made


def undone(undo: Callable[[], Any]) -> Iterator[None]:
    """The end of such a generator: ``yield from undone(f)`` calls f as the scope is left, again if that broke off."""
    try:
        try:
            yield
        finally:
            undo()
    except BaseException:
        undo()
        raise


def all_or_nothing(*boxes: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a method that changes its object: on an exception the object has the attributes that it had before.

    ``boxes`` are those that hold dicts which the method changes.
    """

    def decorated(method: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(method)
        def kept(self: Any, *args: Any, **kwargs: Any) -> None:
            before = {name: dict(v) if name in boxes and v else v for name, v in vars(self).items()}
            try:
                method(self, *args, **kwargs)
            except BaseException:
                vars(self).update(before)
                raise

        return kept

    return decorated
