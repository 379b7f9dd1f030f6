"""Waiting that ends: what the options of the group `timeout` limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from .. import errors

T = TypeVar("T")


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
