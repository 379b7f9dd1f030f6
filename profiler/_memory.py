"""Memory by its holders: what is alive now, what grew between two points, and MXNet's storage file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any

from mxjax import core
from mxjax.core import holders
from mxjax.files.atomic import write_whole

from ._recorder import Recorder
from ._recording import temporaries

_COLUMNS = ("Attribute Name", "Requested Size", "Device", "Actual Size", "Reuse?")


class LeakCheck:
    """What is alive at the end of a ``with`` that was not at its beginning; see `leak_check`."""

    def __init__(self, waits: bool = True) -> None:
        self._waits = waits
        self._before: dict[tuple[Any, ...], holders.Holder] = {}
        #: The groups of arrays that grew: their counts and bytes are the growth.
        self.grown: list[holders.Holder] = []

    def __enter__(self) -> LeakCheck:
        self._before = self._now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        after = self._now()
        for key, holder in after.items():
            before = self._before.get(key)
            count = holder.count - (before.count if before else 0)
            if count > 0:
                nbytes = holder.nbytes - (before.nbytes if before else 0)
                self.grown.append(replace(holder, count=count, nbytes=nbytes))
        self.grown.sort(key=lambda h: -h.nbytes)

    def _now(self) -> dict[tuple[Any, ...], holders.Holder]:
        if self._waits:
            core.wait_all()
        return {
            (h.name, h.block, h.source, h.shape, h.dtype, h.device): h for h in holders.holders()
        }

    @property
    def nbytes(self) -> int:
        """The bytes of everything that grew."""
        return sum(h.nbytes for h in self.grown)

    def __bool__(self) -> bool:
        return bool(self.grown)

    def __str__(self) -> str:
        return holders.report(self.grown) if self.grown else "nothing grew"


def write_storage(path: str, recorders: Iterable[Recorder]) -> None:
    """MXNet's storage file: a row for every array alive, and one for each program's temporaries."""
    programs = {id(r.program): r.program for one in recorders for r in one.runs if r.program}
    rows: list[tuple[str, int, str, int, int]] = []
    for h in holders.holders():
        each = h.nbytes // h.count
        name = ":".join([*(h.block.split("/") if h.block else ["<unk>"]), h.name])
        rows += [(name, each, h.device, each, 0)] * h.count
    for program in programs.values():
        need = temporaries(program)
        if need:
            rows.append((f"<{program.name}>:temp", need, "program", need, 1))
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(_COLUMNS)
    writer.writerows(rows)
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
