"""The tables of what is not here and of what differs, as the documents have them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """A row of a table: where it stands, its cells, and the names that it is about."""

    place: str
    cells: list[str]
    names: list[str]


def _rows(document: str) -> list[Row]:
    found = []
    for number, line in enumerate((_HERE / document).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| ") and not set(line) <= set("|- :"):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            found.append(Row(f"docs/{document}:{number}", cells, _CODE.findall(cells[0])))
    return found


@cache
def exclusions() -> dict[str, Row]:
    """By name (`mx.rtc`): the row that says why it is not here, and what takes its place."""
    return {name: row for row in _rows("exclusions.md") for name in row.names}


def excluded(name: str) -> Row | None:
    """The row about a name or about what it belongs to (`mx.rtc.CudaModule`).

    >>> excluded("mx.rtc.CudaModule").cells[0]
    '`mx.rtc`'
    """
    while name:
        if name in exclusions():
            return exclusions()[name]
        name = name.rpartition(".")[0]
    return None


@cache
def differences() -> dict[str, Row]:
    """By the last part of a name (`HybridLambda`): the row that says how MXNet 1, MXNet 2 and this package differ."""
    found: dict[str, Row] = {}
    for row in _rows("mxnet_versions.md"):
        if len(row.cells) < 3:
            continue
        spoken = row.names or [name for cell in row.cells[1:] for name in _CODE.findall(cell)]
        for text in spoken:
            name = re.match(r"[\w.]*", text).group().rpartition(".")[2]  # type: ignore[union-attr]
            if (
                name.isidentifier()
                and len(name) > 2
                and name not in ("prefix", "params", "forward", "body")
            ):
                found.setdefault(name, row)
    return found


def difference(name: str) -> Row | None:
    """The row about a name (`mx.gluon.nn.HybridLambda`); `gluon.Constant` in it is not `mx.init.Constant`.

    >>> difference("mx.init.Constant"), difference("mx.gluon.Constant").cells[1]
    (None, '`(value)`')
    """
    parts = name.split(".")
    row = differences().get(parts[-1])
    if row is not None:
        spoken = re.search(rf"`([\w.]+\.){parts[-1]}\b", " | ".join(row.cells))
        if spoken is not None and spoken.group(1).rstrip(".").split(".")[-1] not in parts:
            return None
    return row
