"""Compiled programs that outlive their process, and how many a process keeps."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

import jax

from .. import core, settings
from ..core.store import store

DEFAULT_FOLDER = "~/.cache/mxjax"
#: In the folder given, as Ascend has it: emptying the cache removes nothing else.
SUBFOLDER = "programs"

_in_force: tuple[Any, ...] | None = None
_before: dict[str, Any] = {}


def apply() -> None:
    """Bring JAX's persistent cache, and the bounds on programs in memory, in line with the settings."""
    _persistent()
    count = settings.get("cache.max_executables")
    store.bound(settings.get("engine.program_memory"), None if count < 0 else count)


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
