"""How many compiled programs a process keeps, and those that outlive it (`core.kept`) where their settings change."""

from __future__ import annotations

from typing import Any

from .. import core, settings
from ..core.compile import kept
from ..core.compile.store import store

_in_force: tuple[Any, ...] | None = None


def apply() -> None:
    """Bring the folder of programs, and the bounds on programs in memory, in line with the settings."""
    _folder()
    count = settings.get("cache.max_executables")
    store.bound(settings.get("engine.program_memory"), None if count < 0 else count)


def _folder() -> None:
    global _in_force
    path = kept.folder()
    wanted = (path, settings.get("cache.mode"))
    if wanted == _in_force:
        return
    if path is not None and settings.get("cache.mode") == "force":
        kept.empty(path)
    _in_force = wanted
    core.drop_programs()  # so that those that come again are in the folder from now on
