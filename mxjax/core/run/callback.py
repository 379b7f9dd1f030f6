"""Python code that a program calls back into: where it runs, and its errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax

from ..._jax_private import find

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
    """The exception of the user's code behind a runtime error, if it came from a guarded callback."""
    text = str(error)
    with _lock:
        for raised in reversed(_raised):
            if type(raised).__name__ in text:
                _raised.remove(raised)
                return raised
    return None
