"""Compiled programs that outlive their process, and how many a process keeps."""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections import deque
from typing import Any

import jax

from .. import core, settings
from ..core.program import Program
from ..core.segment import Step

DEFAULT_FOLDER = "~/.cache/mxjax"
#: In the folder given, as Ascend has it: emptying the cache removes nothing else.
SUBFOLDER = "programs"

_in_force: tuple[Any, ...] | None = None
_before: dict[str, Any] = {}


def apply() -> None:
    """Bring JAX's persistent cache, and the bound on programs in memory, in line with the settings."""
    _persistent()
    _bounded(settings.get("cache.max_executables"))


def folder() -> str | None:
    """The folder in use by the settings; None where nothing is kept on disk."""
    mode, given = settings.get("cache.mode"), settings.get("cache.dir")
    if mode == "off" or (mode == "auto" and given is None):
        return None
    return os.path.join(os.path.expanduser(given or DEFAULT_FOLDER), SUBFOLDER)


def _persistent() -> None:
    global _in_force
    path = folder()
    wanted = None if path is None else (path, settings.get("cache.mode"), settings.get("cache.size"))
    if wanted == _in_force:
        return
    if path is not None and settings.get("cache.mode") == "force":
        shutil.rmtree(path, ignore_errors=True)
    if path is None:
        values: dict[str, Any] = dict(_before)
        _before.clear()
    else:
        os.makedirs(path, exist_ok=True)
        values = {
            "jax_enable_compilation_cache": True,
            "jax_compilation_cache_dir": path,
            # LeNet's programs compile in less than the second that JAX asks for.
            "jax_persistent_cache_min_compile_time_secs": 0.0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        for name in values:
            _before.setdefault(name, getattr(jax.config, name))
    for name, value in values.items():
        jax.config.update(name, value)
    if path is not None and settings.get("cache.size") is not None:
        if _trim not in core.hooks.compile_listeners:
            core.hooks.compile_listeners.append(_trim)
    elif _trim in core.hooks.compile_listeners:
        core.hooks.compile_listeners.remove(_trim)
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()  # type: ignore[no-untyped-call]  # another folder is ignored without
    _in_force = wanted
    core.drop_programs()


def _trim(*_: Any) -> None:
    """A program was compiled: the oldest go where the folder holds more bytes than it may."""
    path, limit = folder(), settings.get("cache.size")
    if path is None or limit is None:
        return
    # JAX bounds its cache, too, but only with a package for locks; a file that is gone is a miss to it.
    with os.scandir(path) as found:
        entries = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in found if e.is_file())
    total = sum(size for _, size, _ in entries)
    for _when, size, name in entries:
        if total <= limit:
            break
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            os.remove(name)
        total -= size


_limit = -1
_order: deque[tuple[Step, weakref.ref[Program]]] = deque()


def _bounded(limit: int) -> None:
    global _limit
    _limit = limit
    if limit >= 0 and _note not in core.hooks.program_listeners:
        core.hooks.program_listeners.append(_note)
    elif limit < 0 and _note in core.hooks.program_listeners:
        core.hooks.program_listeners.remove(_note)
        _order.clear()


def _note(step: Step, made: Program) -> None:
    """A program was made: the oldest beyond the bound goes. The one that runs now stays."""
    _order.append((step, weakref.ref(made)))
    while len(_order) > max(_limit, 1):
        where, old = _order.popleft()
        for key, found in list(where.programs.items()):
            if found is old():
                del where.programs[key]
                where.solo = None
