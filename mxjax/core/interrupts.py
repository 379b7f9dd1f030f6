"""Ctrl-C waits for what it would tear apart: a segment that overwrites weights, or that is being compiled."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

try:  # what `signal` wraps, without its conversions to enumerations: this runs at every training step
    import _signal as raw  # type: ignore[import-not-found]
except ImportError:  # another Python
    import signal as raw

_SIGINT = int(signal.SIGINT)
#: So many times Ctrl-C is pressed before it is heard at once.
_AT_ONCE = 3

Shield = tuple[Callable[[int, Any], Any], list[Any]]


def begin() -> Shield | None:
    """Let Ctrl-C wait until `end`; None where nobody handles it here (another thread, a process that ignores it)."""
    if threading.current_thread() is not threading.main_thread():
        return None
    before = raw.getsignal(_SIGINT)
    if not callable(before):
        return None
    came: list[Any] = []

    def wait(number: int, frame: Any) -> None:
        came.append(frame)
        if len(came) >= _AT_ONCE:
            before(number, frame)

    raw.signal(_SIGINT, wait)
    return before, came


def end(shield: Shield) -> None:
    """Hear the Ctrl-C that came meanwhile: usually KeyboardInterrupt."""
    before, came = shield
    raw.signal(_SIGINT, before)
    if 0 < len(came) < _AT_ONCE:
        before(_SIGINT, came[-1])
