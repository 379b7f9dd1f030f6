"""Exceptions that come from outside: Ctrl-C, and what other handlers of signals raise.

Python raises them wherever the program happens to be. The core is written so that this may be anywhere: what has begun
is taken back or brought to its end. JAX is not; while it traces and compiles, Ctrl-C waits (`Shield`), and so does the
garbage collector, which would look at all of JAX's half million objects every few hundred equations: 0.4 to 0.7 s of
the first minute of a job that trains a network.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

try:  # what `signal` wraps, without its conversions to enumerations
    import _signal as raw  # type: ignore[import-not-found]
except ImportError:  # another Python
    import signal as raw

T = TypeVar("T")

_SIGINT = int(signal.SIGINT)
_SIGNALS = tuple(map(int, signal.valid_signals()))
#: Those of what a thread itself did wrong, which `faulthandler` tells of.
_FAULTS = ("SIGSEGV", "SIGFPE", "SIGBUS", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
#: So many times Ctrl-C is pressed before it is heard at once.
_AT_ONCE = 3


def is_asynchronous(error: BaseException) -> bool:
    """Whether an exception is none of the code that it broke off: Ctrl-C, or what the handler of a signal raised."""
    if not isinstance(error, Exception):
        return True
    handlers = {
        getattr(inspect.unwrap(h), "__code__", None)
        for h in map(raw.getsignal, _SIGNALS)
        if callable(h)
    }
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


#: Ctrl-C that Python has swallowed, since it came in what is called back as objects end or are collected.
swallowed: list[BaseException] = []


def hear_swallowed() -> None:
    """Raise what was swallowed: the core asks where it has just begun something."""
    if threading.current_thread() is threading.main_thread():
        error = swallowed[-1]
        swallowed.clear()
        raise error.with_traceback(None)


def _watch() -> None:
    """Note what is swallowed, and tell it as before."""
    tell = sys.unraisablehook

    def hook(what: Any, /) -> None:
        if (
            isinstance(what.exc_value, KeyboardInterrupt)
            and threading.current_thread() is threading.main_thread()
        ):
            swallowed.append(what.exc_value)
        tell(what)

    sys.unraisablehook = hook


_watch()


#: The shield that has stopped the garbage collector: the outermost of the main thread.
_stopped: list[Shield] = []

#: After so many shields of a process the collector looks at what was made inside, as it does anywhere else. A program
#: begins with traces, whose objects stay: passes through them and all that was imported took a fifth of its time.
_first = [400]


def _grow_old() -> None:
    """Let what is there count as old without a pass, as `_collection.paused` does after imports."""
    _first[0] -= 1
    if gc.get_freeze_count():  # what the user has frozen would thaw
        _first[0] = 0
        return
    gc.freeze()
    gc.unfreeze()


class Shield:
    """Inside of it Ctrl-C waits; it is heard at the end, or at once by whoever insists. Nothing is collected meanwhile.

    Nothing is changed in another thread. Ctrl-C stays as it is in a process that ignores it, and so does a collector
    that the user has stopped.
    """

    __slots__ = ("_before", "_came")

    def __init__(self) -> None:
        self._before: Callable[[int, Any], Any] | None = None
        self._came: list[Any] = []

    def begin(self) -> None:
        """Let Ctrl-C wait until `end`, which must be called whatever happens, an exception in here included."""
        if threading.current_thread() is not threading.main_thread():
            return
        if gc.isenabled():
            _stopped.append(self)
            gc.disable()
        before = raw.getsignal(_SIGINT)
        if callable(before):
            self._before = before
            raw.signal(_SIGINT, self._wait)

    def _wait(self, number: int, frame: Any) -> None:
        self._came.append(frame)
        if len(self._came) >= _AT_ONCE and self._before is not None:
            self._before(number, frame)

    def end(self) -> None:
        """Hear the Ctrl-C that came meanwhile: usually KeyboardInterrupt. To call it again does nothing."""
        if _stopped and _stopped[0] is self:
            if _first[0]:
                _grow_old()
            gc.enable()
            _stopped.clear()
        before = self._before
        if before is None:
            return
        raw.signal(_SIGINT, before)
        self._before = None
        if 0 < len(self._came) < _AT_ONCE:
            before(_SIGINT, self._came[-1])

    def around(self, work: Callable[[], Any]) -> Any:
        """What this gives, with Ctrl-C waiting meanwhile."""
        try:
            try:
                self.begin()
                return work()
            finally:
                self.end()
        except BaseException:
            self.end()
            raise


def shielded(fn: Callable[..., T]) -> Callable[..., T]:
    """A function around which Ctrl-C waits: JAX traces or compiles in it, and is not written to be interrupted."""

    @functools.wraps(fn)
    def waiting(*args: Any, **kwargs: Any) -> T:
        return Shield().around(lambda: fn(*args, **kwargs))  # type: ignore[no-any-return]

    return waiting


@contextlib.contextmanager
def in_the_main_thread() -> Iterator[None]:
    """Threads that begin inside hear no signals: the system then tells those of the process to another one.

    So that nothing interrupts XLA's workers: of jaxlib 0.10.2 the products that a strided convolution's gradient is
    made of (oneDNN's, on AVX-512) damage the memory of a process where a handler of signals runs in the middle of one:
    a profiler's or a timer's (a JAX program of that convolution alone ends with "corrupted size" within a second).
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    faults = {int(getattr(signal, name)) for name in _FAULTS if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set(_SIGNALS) - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _collect_again() -> None:
    """In a process that another thread has forked off meanwhile: nobody would start the collector there."""
    if _stopped:
        gc.enable()
        _stopped.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collect_again)
