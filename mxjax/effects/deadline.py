"""Waiting that ends: what the options of the group `timeout` limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from .. import errors, settings
from ..core.hooks import deadlines

T = TypeVar("T")


def apply() -> None:
    """Limit waiting while an option asks for it."""
    wanted = settings.get("timeout.read") is not None or settings.get("timeout.waitall") is not None
    if wanted and _limited not in deadlines:
        deadlines.append(_limited)
    elif not wanted and _limited in deadlines:
        deadlines.remove(_limited)


def _limited(work: Callable[[], T], what: str, option: str) -> T:
    seconds = settings.get(option)
    return work() if seconds is None else within(seconds, work, what, option)


def within(seconds: float, work: Callable[[], T], what: str, option: str) -> T:
    """The result of work that may take so long; it is done by another thread, and goes on after that.

    Raises:
      MXNetTimeoutError: it has taken longer.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run, name=f"mxjax {option}", daemon=True)
    worker.start()
    worker.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise errors.MXNetTimeoutError(
            f"{what} was not there after {seconds:g} s (option {option}); what computes it goes on. Allow it "
            "more time, or look for what is waited for: a process of the job, a lock, a callback"
        )
    return found[0]
