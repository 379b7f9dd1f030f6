"""The table of settings: one row per option, in one file per group.

To add an option, add a row to its group's file, read it with `settings.get("group.option")` where it
counts, and test its effect.  A row whose effect does not exist yet does not belong here.
"""

from __future__ import annotations

from ..option import Option
from . import communication, compiler, data, debug, determinism, engine, memory, profiler, timeouts

OPTIONS: tuple[Option, ...] = (
    *engine.OPTIONS,
    *memory.OPTIONS,
    *determinism.OPTIONS,
    *compiler.OPTIONS,
    *communication.OPTIONS,
    *profiler.OPTIONS,
    *debug.OPTIONS,
    *data.OPTIONS,
    *timeouts.OPTIONS,
)
