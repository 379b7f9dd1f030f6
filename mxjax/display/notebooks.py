"""What notebooks show of an object: tables, and pictures where an array holds one."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Rows = Sequence[Sequence[str]]

#: A table has so many rows and columns of an array at each end, a sheet so many pictures of a batch.
ENDS, PICTURES = 5, 16
#: The sides of what counts as a picture, and the longest that is drawn with all its pixels.
SHORTEST, LONGEST = 8, 512


class Tabled:
    """An object that prints as a table: its first ``_left`` columns begin left, the others end right.

    ``_table`` gives the heads, the rows and lines that stand below.
    """

    _left = 1

    def _table(self) -> tuple[Sequence[str], Rows, Sequence[str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        heads, rows, notes = self._table()
        return "\n".join([*columns((heads, *rows), self._left), *notes])

    def _repr_html_(self) -> str:
        heads, rows, notes = self._table()
        return table(heads, rows, self._left) + "".join(
            f"<div>{escape(note)}</div>" for note in notes
        )


class TextOfTable(str):
    """A table as text that a notebook shows as a table."""

    html: str

    def __new__(cls, heads: Sequence[str], rows: Rows) -> TextOfTable:
        made = super().__new__(cls, "\n".join(columns((heads, *rows), len(heads))))
        made.html = table(heads, rows, len(heads))
        return made

    def _repr_html_(self) -> str:
        return self.html


def columns(rows: Rows, left: int) -> list[str]:
    """Rows as lines of text; so many columns begin left.

    >>> columns([("a", "size"), ("long", "7")], 1)
    ['a     size', 'long     7']
    """
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def table(heads: Sequence[str], rows: Rows, left: int = 0) -> str:
    """A table of HTML; its cells are plain text, and so many columns begin left.

    >>> table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """

    def line(cells: Sequence[str], kind: str) -> str:
        begin = f'<{kind} style="text-align:left">'
        parts = (
            f"{begin if k < left else f'<{kind}>'}{escape(cell)}</{kind}>"
            for k, cell in enumerate(cells)
        )
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>"


def is_picture(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether an array is shown as an image: bytes, (H, W), (H, W, C) or a batch (N, H, W, C) of 1, 3 or 4 channels."""
    if dtype != "uint8" or not 2 <= len(shape) <= 4 or 0 in shape:
        return False
    sides = shape if len(shape) == 2 else shape[-3:-1]
    return min(sides) >= SHORTEST and (len(shape) == 2 or shape[-1] in (1, 3, 4))


def is_table(shape: tuple[int, ...]) -> bool:
    """Whether an array is shown as a table: it has two axes; others are better read as text."""
    return len(shape) == 2 and 0 not in shape


def array(host: np.ndarray, title: str) -> str:
    """An array that `is_picture` or `is_table`, under a line that names it."""
    shown = picture(host) if is_picture(host.shape, host.dtype) else _numbers(host)
    return f"<div><code>{escape(title)}</code></div>{shown}"


def picture(host: np.ndarray) -> str:
    """An image, or the first 16 of a batch; of large ones every second pixel is left out, or more."""
    images = [host] if host.ndim < 4 else list(host[:PICTURES])
    step = -(-max(images[0].shape[:2]) // LONGEST)
    drawn = []
    for pixels in images:
        data = base64.b64encode(png(pixels[::step, ::step])).decode()
        drawn.append(f'<img style="display:inline;margin:2px" src="data:image/png;base64,{data}">')
    more = (
        f"<div>and {len(host) - PICTURES} more</div>"
        if host.ndim == 4 and len(host) > PICTURES
        else ""
    )
    return "".join(drawn) + more


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of bytes of shape (H, W) or (H, W, C)."""
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # each begins with its filter, none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def _numbers(host: np.ndarray) -> str:
    rows, cols = (_places(n) for n in host.shape)

    def cell(row: int | None, col: int | None) -> str:
        return "…" if row is None or col is None else _number(host[row, col])

    heads = ["", *("…" if col is None else str(col) for col in cols)]
    return table(
        heads,
        [["…" if row is None else str(row), *(cell(row, col) for col in cols)] for row in rows],
    )


def _places(length: int) -> list[int | None]:
    """The places that are shown of an axis; None is what is left out."""
    if length <= 2 * ENDS:
        return list(range(length))
    return [*range(ENDS), None, *range(length - ENDS, length)]


def _number(x: Any) -> str:
    if x.dtype.kind in "biuc":
        return str(x)
    return f"{float(x):.5g}"


__all__ = [
    "TextOfTable",
    "Tabled",
    "array",
    "columns",
    "is_picture",
    "is_table",
    "picture",
    "png",
    "table",
]
