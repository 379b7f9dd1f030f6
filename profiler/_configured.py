"""The profiler, started and stopped by a setting, as Ascend's ProfilingConfig does."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from typing import Any

from mxjax import settings

from ._state import profiler

#: Of Ascend's hardware and tools: nothing of XLA's can be told so.
_NOWHERE = ("aic_metrics", "l2", "msproftx", "fp_point", "bp_point")
_told: set[str] = set()
_began = False


def apply(_: object = None) -> None:
    """Start the profiler, or stop it and write its trace, as the setting says."""
    global _began
    config = settings.get("profiler.config")
    on = bool(config.get("enable_profiling"))
    if _began:
        profiler.stop()
        profiler.dump(finished=True)
        _limit(_folder(_last))
        _began = False
    if not on:
        return
    options: Mapping[str, Any] = config.get("profiling_options", {})
    for name in _NOWHERE:
        if options.get(name) and name not in _told:
            _told.add(name)
            logging.getLogger("mxjax").warning(
                "profiling_config: %s does nothing here: it is Ascend's own", name
            )
    folder = _folder(options)
    os.makedirs(folder, exist_ok=True)
    _last.clear()
    _last.update(options)
    profiler.configure(
        {
            "filename": os.path.join(folder, "profile.json"),
            "aggregate_stats": True,
            "profile_api": options.get("runtime_api", True),
            "continuous_dump": False,
        }
    )
    # XLA's side starts with the first program: nothing here must start a backend.
    profiler.run(defer=not settings.backend_is_up())
    _began = True


_last: dict[str, Any] = {}


def _folder(options: Mapping[str, Any]) -> str:
    return str(options.get("output") or "profiling")


def _limit(folder: str) -> None:
    """The oldest of XLA's traces go while the folder holds more bytes than it may."""
    limit = _last.get("storage_limit")
    root = os.path.join(folder, "profile_xplane")
    if limit is None or not os.path.isdir(root):
        return
    sessions = sorted(os.scandir(root), key=lambda e: e.stat().st_mtime)
    sizes = [
        sum(
            os.path.getsize(os.path.join(at, name))
            for at, _, names in os.walk(s.path)
            for name in names
        )
        for s in sessions
    ]
    total = sum(sizes)
    for session, size in zip(sessions, sizes, strict=True):
        if total <= limit:
            return
        shutil.rmtree(session.path, ignore_errors=True)
        total -= size
