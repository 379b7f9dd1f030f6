"""Python code that a program calls back into: where it runs, and its errors."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ... import errors
from ..._jax_private import CALLBACKS_LOGGER, find

_lock = threading.Lock()
_raised: list[BaseException] = []
_here = threading.local()


def inside() -> bool:
    """Whether this is inside a host callback, where waiting for a device's result would deadlock."""
    return getattr(_here, "inside", False)


def guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a host callback so that its exception is found again behind the runtime's own error."""

    def call(*args: Any) -> Any:
        outer = inside()
        _here.inside = True
        try:
            return fn(*args)
        except BaseException as error:
            with _lock:
                _raised.append(error)
                del _raised[:-16]
            raise
        finally:
            _here.inside = outer

    return call


def barrier() -> None:
    """Wait for what all programs have to do on the host.

    Raises:
      the exception of a guarded callback that nobody has been told of, once.
    """
    try:
        jax.effects_barrier()
    except Exception as error:
        # JAX keeps what failed, and would raise it for ever.
        tokens = find("runtime_tokens")
        if tokens is not None:
            tokens.clear()
        found = original(error)
        if found is not None:
            raise found from error
        if "callback" not in str(error).lower():
            raise


def original(error: BaseException) -> BaseException | None:
    """The exception of the user's code behind a runtime error, if it came from a guarded callback.

    It is the error itself where NumPy's steps called back.
    """
    text = str(error)
    with _lock:
        for raised in reversed(_raised):
            if raised is error or type(raised).__name__ in text:
                _raised.remove(raised)
                return raised
    return None


@functools.cache
def refusing(message: str) -> Callable[[Any], Any]:
    """What a program asks before it goes on; equal for equal messages, so that programs are equal, too."""

    def refuse(holds: Any) -> Any:
        if not holds:
            error = errors.MXNetError(message)
            error.refused = True  # type: ignore[attr-defined]
            raise error
        return np.asarray(holds)

    logger = logging.getLogger(CALLBACKS_LOGGER)
    if _told not in logger.filters:
        logger.addFilter(_told)
    asked = guarded(refuse)
    asked.refuses = message  # type: ignore[attr-defined]  # for who writes a trace down (interpret/trace_bytes.py)
    return asked


def _told(record: logging.LogRecord) -> bool:
    """JAX writes what a function of the host's raises to standard error; a refusal reaches whoever reads."""
    return record.exc_info is None or not getattr(record.exc_info[1], "refused", False)
