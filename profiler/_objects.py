"""Marks that users set: domains with tasks, frames, counters and markers; events; scopes."""

from __future__ import annotations

import contextlib
import contextvars
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

from mxjax import core
from mxjax.display.reprs import Shown
from mxjax.errors import MXNetError, MXNetTypeError, MXNetValueError

from ._recorder import Mark, Recorder, Span, this_thread
from ._state import profiler


def named(name: Any, of: str) -> str:
    """The name, where it is a text.

    Raises:
      MXNetTypeError: it is none.
    """
    if not isinstance(name, str):
        raise MXNetTypeError(
            f"profiler.{of} takes a text as its name, got {name!r}: write str(...) around it"
        )
    return name


def _domain(domain: Any, of: str) -> Domain:
    if not isinstance(domain, Domain):
        raise MXNetTypeError(
            f"profiler.{of} takes a profiler.Domain first, got {domain!r}: make one with profiler.Domain(name)"
        )
    return domain


class Domain(Shown):
    """A group of tasks, frames, counters and markers: a process of its own in the trace.

    Args:
      name: what the group is called in the trace.

    >>> domain = Domain("loading")
    >>> task = domain.new_task("decode")
    """

    def __init__(self, name: str):
        self.name = named(name, "Domain")

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A new `Task` in this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A new `Frame` in this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A new `Counter` in this domain, set to `value` where one is given."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A new `Marker` in this domain."""
        return Marker(self, name)


class _Duration(Shown):
    """Something with a start and a stop; also a context manager."""

    _process = _category = ""

    def __init__(self, name: str):
        self.name = named(name, type(self).__name__)
        self._started: int | None = None

    def start(self) -> None:
        """Begin; a second `start` begins anew."""
        self._started = time.time_ns()

    def stop(self) -> None:
        """End, and record the time since `start` where the profiler runs.

        Raises:
          MXNetError: it was never started.
        """
        if self._started is None:
            kind = type(self).__name__
            raise MXNetError(f"{kind} {self.name!r} was stopped, not started: call start() first")
        recorder = profiler.recorder
        if recorder is not None:
            stop = time.time_ns()
            thread = this_thread()
            recorder.spans.append(
                Span(self._process, thread, self._category, self.name, self._started, stop)
            )

    def __enter__(self) -> _Duration:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Duration):
    """A piece of work on one thread; all its passes are one row of the statistics.

    Args:
      domain: the group to which it belongs.
      name: what the task is called in the trace.

    >>> with Domain("loading").new_task("decode"):
    ...     pass
    """

    def __init__(self, domain: Domain, name: str):
        super().__init__(name)
        self._process = self._category = _domain(domain, "Task").name


class Frame(_Duration):
    """One pass of something that repeats, such as a batch; in a category of its own.

    Args:
      domain: the group to which it belongs.
      name: what the frame is called in the trace.
    """

    def __init__(self, domain: Domain, name: str):
        super().__init__(name)
        self._process = _domain(domain, "Frame").name
        self._category = f"{domain.name},frame"


class Event(_Duration):
    """A stretch of one thread's time, in no domain.

    Args:
      name: what the event is called in the trace.
    """

    _process = _category = "event"


class Counter(Shown):
    """A number that changes over time, drawn as a track; it may be negative, and a fraction.

    Args:
      domain: the group to which it belongs.
      name: what the counter is called in the trace.
      value: the number.

    Raises:
      MXNetError: a value is no number, or none that is finite.

    >>> counter = Domain("loading").new_counter("images", 0)
    >>> counter += 32
    """

    def __init__(self, domain: Domain, name: str, value: float | None = None):
        self.name = named(name, "Counter")
        self._domain = _domain(domain, "Counter").name
        self._value: float = 0
        self._lock = threading.Lock()
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """Set the counter."""
        with self._lock:
            self._set(self._number(value))

    def increment(self, delta: float = 1) -> None:
        """Add to the counter."""
        with self._lock:
            self._set(self._value + self._number(delta))

    def decrement(self, delta: float = 1) -> None:
        """Subtract from the counter; it may go below zero."""
        self.increment(-self._number(delta))

    def _number(self, value: Any) -> float:
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):  # a trace with it could not be read
            raise MXNetValueError(f"counter {self.name!r} takes finite numbers, got {value!r:.60}")
        if isinstance(value, int):
            return int(value)  # a float would lose the last digits of a large one
        return int(number) if number.is_integer() else number

    def _set(self, value: float) -> None:
        self._value = value
        recorder = profiler.recorder
        if recorder is not None:
            recorder.marks.append(
                Mark(self._domain, self._domain, self.name, time.time_ns(), float(value))
            )

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


_SCOPES = ("global", "marker", "process", "task", "thread")


class Marker(Shown):
    """An instant in time.

    Args:
      domain: the group to which it belongs.
      name: what the marker is called in the trace.

    >>> Domain("training").new_marker("epoch").mark()
    """

    def __init__(self, domain: Domain, name: str):
        self.name = named(name, "Marker")
        self.domain = _domain(domain, "Marker")

    def mark(self, scope: str = "process") -> None:
        """Record the instant; `scope` says how far across the trace its line is drawn.

        Raises:
          MXNetError: `scope` is not one of global, process, thread, task and marker.
        """
        if scope not in _SCOPES:
            expected = ", ".join(_SCOPES)
            raise MXNetValueError(f"the scope of a marker is one of {expected}; got {scope!r}")
        recorder = profiler.recorder
        if recorder is not None:
            name = self.domain.name
            thread = this_thread()
            category = f"{name},instant_marker"
            recorder.marks.append(
                Mark(name, category, self.name, time.time_ns(), scope=scope, thread=thread)
            )


_NO_SCOPE = "<unk>:"
_current_scope = contextvars.ContextVar("profilerscope", default=_NO_SCOPE)


@contextlib.contextmanager
def scope(name: str = _NO_SCOPE, append_mode: bool = True) -> Iterator[str]:
    """Name what is recorded inside, for the trace and the memory profile; `append_mode` nests names.

    Args:
      name: what comes before the names inside.
      append_mode: whether the name follows that of the scope around.

    Returns:
      context manager: within it the setting, or name, is in force.

    >>> with scope("encoder"), scope("layer0") as name:
    ...     print(name)
    encoder:layer0:
    """
    if not named(name, "scope").endswith(":"):
        name += ":"
    given = name
    around = _current_scope.get()
    if append_mode and around != _NO_SCOPE:
        name = around + name
    token = _current_scope.set(name)
    state = core.local.st
    outer = state.scope
    if name != _NO_SCOPE:
        inner = name.rstrip(":").replace(":", "/") if not append_mode else given.rstrip(":")
        state.scope = f"{outer}/{inner}" if outer and append_mode else inner
    try:
        yield name
    finally:
        _current_scope.reset(token)
        state.scope = outer


@contextlib.contextmanager
def custom_op(name: str) -> Iterator[None]:
    """Around the Python code of a custom operator: recorded as `name::pure_python`.

    Operators called inside appear as `name::operator` in the category Custom Operator too.

    Returns:
      context manager: what happens within is recorded.
    """
    recorder: Recorder | None = profiler.recorder
    if recorder is None:
        yield
        return
    start = time.time_ns()
    try:
        yield
    finally:
        recorder.on_python(name, start, time.time_ns())
