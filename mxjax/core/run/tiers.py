"""A program's second compilation: a quick program is optimised once its runs have lost what that costs.

Renting or buying again (cold.py), so that no more is spent on the compiler than was lost without it. On more than one
core a thread compiles beside the program (XLA lets go of the interpreter's lock); the optimised program takes over at
a run that is counted beforehand, and waited for if it is not there, so that numbers repeat.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import jax

from ... import settings
from ..calls.state import local
from ..compile.compiler import platform_of
from ..compile.compiler_options import cores
from ..compile.kept import compile_or_load
from ..hooks import compile_listeners, observers
from ..stats import stats
from . import choice, price
from .choice import Form
from .interrupts import is_asynchronous
from .price import Size

_says = settings.snapshot("debug.log_compiling")
_cold = settings.snapshot("engine.cold")
_deterministic = settings.snapshot("determinism.enabled")


class Account(Protocol):
    """What was lost so far, beside what ends that."""

    def account(self) -> str: ...


#: What was decided last, for `mx.engine.explain`, and the quick programs and graphs of which it is still open.
decisions: deque[str] = deque(maxlen=256)
accounts: weakref.WeakSet[Account] = weakref.WeakSet()


def explain() -> list[str]:
    """The last decisions, oldest first, and the accounts that are open: of quick programs, and of graphs."""
    return [*decisions, *sorted(each.account() for each in accounts)]


def say(
    name: str, size: Size, takes: float, what: str, site: tuple[str, int] | None = None
) -> None:
    """Tell the user on stderr that the compiler will take a while (microseconds, by estimate), where it will.

    Args:
      site: the file and line of the user's; those at hand where not given.
    """
    if not choice.is_told(takes) or not _says():
        return
    from ..calls.segment import user_site

    file, line = site or user_site()
    print(
        f"mxjax: {what} {name}, {size.equations:,} operations, for about {takes * 1e-6:.0f} s ({file}:{line})",
        file=sys.stderr, flush=True,
    )  # fmt: skip


@contextlib.contextmanager
def repeating(coming: int | None) -> Iterator[None]:
    """In a loop: what this thread runs inside comes so many times more, as far as is known."""
    state = local.st
    before, state.coming = state.coming, coming
    try:
        yield
    finally:
        state.coming = before


class Later:
    """The optimised form of a quick program, or of one that was optimised a little."""

    __slots__ = (
        "__weakref__", "_asks", "_beside", "_closed", "_device", "_lost", "_lowered", "_name", "_options", "_price",
        "_size", "_spent", "runs",
    )  # fmt: skip

    def __init__(
        self, name: str, device: Any, lowered: Any, options: dict[str, Any], closed: Any, size: Size, lost: float,
        credit: float,
    ):  # fmt: skip
        self._name = name
        self._device = device
        self._lowered = lowered
        self._options = options
        self._closed = closed
        self._size = size
        self._price = price.on(platform_of(device)).whole(size)
        self._lost = lost
        self._spent = credit
        self._asks = True  # whether there is a core to compile on is still to be asked
        self._beside: _Beside | None = None
        self.runs = 0
        accounts.add(self)

    def account(self) -> str:
        """What the quick program has lost so far, beside what the optimised one costs."""
        return (
            f"{self._name}: quick, {self.runs} runs lost about {self._spent / 1e3:.0f} ms; optimising it costs about "
            f"{self._price / 1e3:.0f} ms"
        )

    def is_paid(self) -> bool:
        """Count a run; whether it is the last of the quick program (`choice.exchanges`)."""
        self.runs += 1
        self._spent += self._lost
        coming = local.st.coming
        if coming is None and self._asks and choice.begins_beside(self._spent, self._price):
            self._asks = False  # once: the system takes as long to say it as a small call
            if cores() > 1:
                self._beside = _Beside(self._compile)
        return choice.exchanges(self._spent, self._lost, self._price, coming)

    def compiled(self) -> Any:
        """The optimised program, waited for or made now; None where the compiler fails: the quick one stays."""
        start = time.time_ns()
        try:
            if self._beside is None or not self._beside.is_here():
                say(self._name, self._size, self._price, f"after {self.runs} runs, optimising")
                compiled = self._compile()
            else:
                compiled, start = self._beside.result(), self._beside.start
        except Exception as error:
            if is_asynchronous(error):
                raise
            return None
        finally:
            accounts.discard(self)
        reason = f"optimised: it ran {self.runs} times"
        tell_compiled(self._name, self._device, compiled, self._options, reason, start, "again")
        return compiled

    def _compile(self) -> Any:
        return compile_or_load(self._lowered, self._options, self._closed)[0]


class _Beside:
    """A function that runs in a thread of its own; the process ends after it."""

    def __init__(self, fn: Any):
        self._fn = fn
        self._result: Any = None
        self._error: BaseException | None = None
        self.start = time.time_ns()
        self._running = threading.Thread(target=self._run, name="mxjax compiles")
        self._running.start()

    def _run(self) -> None:
        with _one_at_a_time:
            try:
                if threading.main_thread().is_alive():
                    self.start = time.time_ns()
                    self._result = self._fn()
            except BaseException as error:
                self._error = error
        self._fn = None

    def is_here(self) -> bool:
        """Whether this process is the one that began it; of a fork's child the thread stayed behind."""
        return (
            self._running in threading.enumerate()
            or self._result is not None
            or self._error is not None
        )

    def result(self) -> Any:
        self._running.join()
        if self._error is not None:
            raise self._error
        return self._result


_one_at_a_time = threading.Lock()


_KINDS = {
    "quick": "compiled quickly",
    "light": "optimised a little at once",
    "whole": "optimised at once",
    "loaded": "loaded",
    "again": "optimised",
}


def tell_compiled(
    name: str, device: Any, compiled: Any, options: Any, reason: str, start: int, kind: str
) -> int:
    """Tell everybody of a program that is there now, and count it; when that was, in nanoseconds.

    Args:
      kind: ``"quick"``, ``"light"``, ``"whole"``, ``"loaded"`` from an earlier process, or ``"again"``: in a quick
        one's place.
    """
    for listen in compile_listeners:
        listen(name, device, compiled, options)
    stop = time.time_ns()
    seconds = (stop - start) * 1e-9
    decisions.append(
        f"{name}: {_KINDS[kind]} in {seconds * 1e3:.0f} ms ({reason or 'it came back, or is large'})"
    )
    if kind == "quick":
        stats.quick += 1
        stats.seconds_quick += seconds
    elif kind != "loaded":
        stats.seconds_optimised += seconds
    if kind == "again":
        stats.optimised += 1
    elif kind != "loaded":
        stats.compiled += 1
    for o in observers:
        o.on_compile(name, reason, start, stop)
    return stop


def begin(size: Size, device: Any, paid: float = 0.0) -> Form:
    """How a program is compiled first (`choice.first_form`), for which so many microseconds were lost."""
    if not isinstance(device, jax.Device) or _cold() == "compile" or _deterministic():
        return "whole"
    prices = price.on(platform_of(device))
    return choice.first_form(prices, size, paid, local.st.coming, cores() > 1)


def better(
    form: Form,
    name: str,
    device: Any,
    lowered: Any,
    options: dict[str, Any],
    closed: Any,
    size: Size,
    paid: float = 0.0,
) -> Later | None:
    """The optimised form of a program that was compiled so, where that may pay at all (``paid``: see `begin`)."""
    prices = price.on(platform_of(device))
    lost = choice.loses(prices, size, form)
    if not lost:
        return None
    credit = choice.credit(prices.whole(size), paid)
    return Later(name, device, lowered, options, closed, size, lost, credit)


__all__ = ["Later", "begin", "better", "repeating", "tell_compiled"]
