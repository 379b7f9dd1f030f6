"""The files the compiler writes about each program."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from typing import Any

from .. import core, settings

_made: str | None = None  # the folder made here, because none was given
_doomed: set[str] = set()


def apply() -> None:
    """Bring what is written in line with the settings."""
    if _options not in core.hooks.option_contributors:
        core.hooks.option_contributors.append(_options)
    core.drop_programs()


def folder() -> str | None:
    """Where the files go; None where none are asked for."""
    global _made
    given, keep = settings.get("debug.compiler_folder"), settings.get("debug.keep_compiler_files")
    level = settings.get("debug.level")
    if given is None and not keep and not level:
        return None
    if given is None:
        if _made is None:
            _made = tempfile.mkdtemp(prefix="mxjax-compiler-")
            logging.getLogger("mxjax").warning("the compiler's files are in %s", _made)
        return _made
    if not os.path.isdir(given):
        os.makedirs(given)
        if not keep and not level and not _doomed:
            atexit.register(_clean)
        if not keep and not level:
            _doomed.add(given)
    return str(given)


def _options(platform: str, _: object) -> dict[str, Any]:
    path = folder()
    if path is None:
        return {}
    level = settings.get("debug.level")
    options: dict[str, Any] = {"xla_dump_to": path}
    if level >= 2:
        options["xla_embed_ir_in_executable"] = True
        if platform == "gpu":
            options["xla_gpu_dump_llvmir"] = True
    if level >= 3:
        options["xla_dump_hlo_pass_re"] = ".*"
    return options


def _clean() -> None:
    """Folders made here that nobody asked to keep go with the process."""
    if not settings.get("debug.keep_compiler_files"):
        for path in _doomed:
            shutil.rmtree(path, ignore_errors=True)
