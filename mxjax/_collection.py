"""Without passes of the garbage collector that would find nothing among the modules and functions of imports."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Nothing is collected inside; what was made there counts as old afterwards, and the collector is as it was.

    A pass looks at all of the half million objects that JAX and this package are made of: without those
    `import mxjax` takes about a tenth less time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else what the user has frozen would thaw
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _at_exit() -> None:
    """End without looking for cycles, which takes Python 0.3 s where JAX is: the process gives its memory back anyway.

    Files that somebody in a cycle has open are written first; who has a `__del__` that must run at the end cannot count
    on that in any Python.
    """
    files: dict[type, bool] = {}  # asking an abstract base class takes its time: once for each type
    for o in gc.get_objects():
        kind = type(o)
        if kind not in files:
            files[kind] = issubclass(kind, io.IOBase)
        if files[kind]:
            with contextlib.suppress(Exception):
                if not o.closed and o.writable():
                    o.flush()
    gc.freeze()


# Registered before JAX is imported, so that it runs after what ends JAX.
atexit.register(_at_exit)
