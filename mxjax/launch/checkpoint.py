"""Checkpoints that a restarted job goes on from: whole ones or none.

A checkpoint is a folder `step-00000012` with the files that the script wrote and an index of their sizes
and SHA-256 sums.  It gets that name when everything in it is on the disk, so whoever finds it finds all
of it; a folder whose files do not fit its index is passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import settings
from ..errors import MXNetFileNotFoundError, MXNetValueError
from . import member

__all__ = ["Checkpoints"]

_INDEX = "index.json"
_PREFIX = "step-"


class Checkpoints:
    """The checkpoints in one folder, which all processes of a job can read.

    Args:
      folder: where they are; by default what `--checkpoints` of the launcher says.
      keep: how many of the newest stay.

    Raises:
      ValueError: no folder is given and the launcher names none, or `keep` is less than 1.

    >>> import tempfile
    >>> points = Checkpoints(tempfile.mkdtemp(), keep=2)
    >>> points.save(7, {"note": lambda path: path.write_text("seven")})
    >>> step, files = points.latest()
    >>> step, files["note"].read_text()
    (7, 'seven')
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, keep: int = 3) -> None:
        folder = folder or settings.env("DMLC_CHECKPOINTS")
        if not folder:
            raise MXNetValueError(
                "Checkpoints needs a folder: Checkpoints('runs/1'), or start the script with "
                "`python -m mxjax.launch --checkpoints runs/1 ...`"
            )
        if keep < 1:
            raise MXNetValueError(f"keep must be at least 1, got {keep}")
        self.folder = Path(folder)
        self._keep = keep

    def save(self, step: int, files: dict[str, Callable[[Path], Any]]) -> None:
        """Write a checkpoint; in a job rank 0 does, and every rank makes this call.

        The others need not wait, but for what all ranks have parts of: they call such functions too.

        Args:
          step: its number; an older checkpoint of this number is replaced.
          files: a function for each file that writes it to the path it is given, such as
            ``{"net.params": net.save_parameters, "trainer.states": trainer.save_states}``. On ranks but 0 only
            methods of objects whose `saves_together` is true are called, as a trainer's is whose kvstore
            updates: give the method itself, and no function around it.

        Raises:
          OSError: it cannot be written; earlier ones stay as they are.
        """
        here = member.current()
        if step < 0:
            raise MXNetValueError(f"the number of a step is at least 0, got {step}")
        if here is not None and here.rank != 0:
            for name, write in files.items():
                if getattr(getattr(write, "__self__", None), "saves_together", False):
                    write(self.folder / name)  # which rank 0 writes, elsewhere
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        making = self.folder / f".making-{os.getpid()}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        try:
            index = {}
            for name, write in files.items():
                if Path(name).name != name or name == _INDEX:
                    raise MXNetValueError(f"{name!r} is no name for a file of a checkpoint")
                path = making / name
                write(path)
                _to_disk(path)
                index[name] = {"bytes": path.stat().st_size, "sha256": _sum_of(path)}
            path = making / _INDEX
            path.write_text(json.dumps({"step": step, "files": index}))
            _to_disk(path)
            _to_disk(making)
            final = self.folder / f"{_PREFIX}{step:08d}"
            if final.exists():
                shutil.rmtree(final)
            making.rename(final)
            _to_disk(self.folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        for old in self._all()[self._keep :]:
            shutil.rmtree(old, ignore_errors=True)

    def latest(self) -> tuple[int, dict[str, Path]] | None:
        """The newest whole checkpoint: its step, and its files by name; None where there is none."""
        for folder in self._all():
            found = _whole(folder)
            if found is not None:
                return found
        return None

    def load(self, files: dict[str, Callable[[Path], Any]]) -> int | None:
        """Read the newest whole checkpoint with a function for each file; its step, or None.

        Raises:
          FileNotFoundError: it has no such file.
        """
        found = self.latest()
        if found is None:
            return None
        step, paths = found
        for name, read in files.items():
            if name not in paths:
                raise MXNetFileNotFoundError(
                    f"the checkpoint of step {step} in {self.folder} has no {name!r}, only "
                    f"{', '.join(sorted(paths))}"
                )
            read(paths[name])
        return step

    def _all(self) -> list[Path]:
        """All that are named as checkpoints, the newest first."""
        if not self.folder.is_dir():
            if self.folder.exists():
                raise MXNetValueError(
                    f"{self.folder} is no folder: a folder of checkpoints was expected"
                )
            return []
        return sorted(
            (p for p in self.folder.iterdir() if p.name[len(_PREFIX) :].isdigit()
             and p.name.startswith(_PREFIX)),
            key=lambda p: int(p.name[len(_PREFIX) :]), reverse=True,
        )  # fmt: skip


def _whole(folder: Path) -> tuple[int, dict[str, Path]] | None:
    try:
        index = json.loads((folder / _INDEX).read_text())
        files = {}
        for name, entry in index["files"].items():
            path = folder / Path(name).name
            if path.stat().st_size != entry["bytes"] or _sum_of(path) != entry["sha256"]:
                return None
            files[name] = path
        return int(index["step"]), files
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sum_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
