"""The table of settings: one row per option, in one file per group.

To add an option, add a row to its group's file, read it with `settings.get("group.option")` where it
counts, and test its effect.  A row whose effect does not exist yet does not belong here.
"""

from __future__ import annotations

from ..option import Option
from . import (
    allocation,
    cache,
    communication,
    compat,
    compiler,
    data,
    debug,
    determinism,
    engine,
    memory,
    precision,
    profiler,
    timeouts,
)

OPTIONS: tuple[Option, ...] = (
    *engine.OPTIONS,
    *memory.OPTIONS,
    *allocation.OPTIONS,
    *precision.OPTIONS,
    *determinism.OPTIONS,
    *compiler.OPTIONS,
    *cache.OPTIONS,
    *communication.OPTIONS,
    *timeouts.OPTIONS,
    *profiler.OPTIONS,
    *debug.OPTIONS,
    *data.OPTIONS,
    *compat.OPTIONS,
)
