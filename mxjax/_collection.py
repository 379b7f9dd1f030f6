"""Imports without passes of the garbage collector, which would find nothing among modules and functions."""

from __future__ import annotations

import contextlib
import gc
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
