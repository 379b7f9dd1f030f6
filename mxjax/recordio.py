"""RecordIO: files of records of bytes, with an index for access by key, and records that hold images.

A file is a row of parts, each at an offset that four divides: the magic number, a word that holds the part's length and
its place in the record, the bytes, and zeros up to the next multiple of four. A record is one part, unless it holds the
magic number at such an offset: there it is split, the number is left out, and reading puts it back. So whoever begins
to read in the middle of a file finds the next part by its magic number.

The module needs no JAX: worker processes read with it.
"""

from __future__ import annotations

import numbers
import os
import struct
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from .display.reprs import Shown
from .display.wording import told
from .errors import (
    FormatError,
    MXNetAssertionError,
    MXNetError,
    MXNetFileNotFoundError,
    MXNetKeyError,
    MXNetTypeError,
    MXNetValueError,
)
from .files import codec
from .files.atomic import write_whole

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "list_lines",
    "make_index",
    "offsets",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]

_MAGIC = struct.pack("<I", 0xCED7230A)
_HEAD = struct.Struct("<II")
_MOST = (1 << 29) - 1  # bytes of a part
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_BLOCK = 1 << 20  # bytes that are searched at once


def _parts(buf: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts that a record is written as, with their places in it."""
    begin, at = 0, buf.find(_MAGIC)
    while at >= 0:
        if at % 4:
            at = buf.find(_MAGIC, at + 1)
            continue
        yield (_MIDDLE if begin else _FIRST), buf[begin:at]
        begin = at + 4
        at = buf.find(_MAGIC, begin)
    yield (_LAST if begin else _WHOLE), buf[begin:]


class _Source:
    """A file that records are read from: the bytes at an offset, and where they must end."""

    def __init__(self, path: str, fetch: Callable[[int, int], bytes], size: Callable[[], int]):
        self.path = path
        self.fetch = fetch
        self.size = size
        self._known = size()

    def _wrong(self, at: int, why: str) -> FormatError:
        return FormatError(
            f"{self.path} at offset {at}: {why}; the file is damaged, or it is no RecordIO file"
        )

    def _part(self, at: int) -> tuple[int, bytes, int]:
        """The part at an offset: its place in the record, its bytes, and the offset of the next one."""
        if at > self._known and not self.is_end(at) and at > self._known:
            raise self._wrong(at, f"the file ends before that, at {self._known}")
        head = self.fetch(8, at)
        if len(head) < 8:
            raise self._wrong(
                at, f"it ends after {len(head)} of the 8 bytes that a part begins with"
            )
        magic, word = _HEAD.unpack(head)
        if head[:4] != _MAGIC:
            raise self._wrong(at, f"a part begins with 0xced7230a, here is 0x{magic:08x}")
        place, length = word >> 29, word & _MOST
        padded = (length + 3) & ~3
        end = at + 8 + padded
        if end > self._known:  # before memory is taken
            self._known = self.size()
            if end > self._known:
                raise self._wrong(
                    at, f"a part of {length} bytes goes beyond the file's end at {self._known}"
                )
        data = self.fetch(padded, at + 8)
        if len(data) < padded:
            raise self._wrong(at, f"{len(data)} bytes instead of {padded} could be read")
        return place, data if padded == length else data[:length], end

    def skip(self, at: int) -> int:
        """The offset of the record after the one at an offset, of which only the heads of its parts are read."""
        begin, wanted = at, (_WHOLE, _FIRST)
        while True:
            head = self.fetch(8, at)
            if len(head) < 8 or head[:4] != _MAGIC:
                return self.record(begin)[1]  # which says what is wrong
            word = _HEAD.unpack(head)[1]
            place, at = word >> 29, at + 8 + (((word & _MOST) + 3) & ~3)
            if place not in wanted or at > self._known:
                return self.record(begin)[1]
            if place in (_WHOLE, _LAST):
                return at
            wanted = (_MIDDLE, _LAST)

    def next_beginning(self, at: int) -> int:
        """The first offset after one where a record seems to begin; the file's end where there is none."""
        at += 4
        while at < self._known:
            block = self.fetch(_BLOCK, at)
            found = block.find(_MAGIC)
            while 0 <= found <= len(block) - 8:
                word = _HEAD.unpack_from(block, found)[1]
                end = at + found + 8 + (((word & _MOST) + 3) & ~3)
                if found % 4 == 0 and word >> 29 in (_WHOLE, _FIRST) and end <= self._known:
                    return at + found
                found = block.find(_MAGIC, found + 1)
            at += _BLOCK - 8 if len(block) == _BLOCK else _BLOCK
        return self._known

    def is_end(self, at: int) -> bool:
        """Whether there is nothing at an offset; a file may have grown."""
        if at >= self._known:
            self._known = self.size()
        return at == self._known

    def record(self, at: int) -> tuple[bytes, int]:
        """The record at an offset, and the offset of the next one."""
        place, data, end = self._part(at)
        if place == _WHOLE:
            return data, end
        if place != _FIRST:
            raise self._wrong(
                at,
                f"the record begins with a part of kind {place}, 0 (whole) or 1 (first) was expected",
            )
        found = [data]
        while place != _LAST:
            where = end
            if self.is_end(where):
                raise self._wrong(at, "the file ends within this record, which has more parts")
            place, data, end = self._part(where)
            if place not in (_MIDDLE, _LAST):
                raise self._wrong(
                    where, f"a record goes on with a part of kind {place}, 2 or 3 was expected"
                )
            found.append(data)
        return _MAGIC.join(found), end


class MXRecordIO(Shown):
    """Reads or writes records one after the other.

    A reader that is pickled, or that a forked process inherits, goes on at its own place there; a writer stays in its
    process.

    Args:
      uri: the file.
      flag: `"r"` to read, `"w"` to write anew.

    Raises:
      MXNetFileNotFoundError: the file to read is not there.
      ValueError: another flag.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.rec")
    >>> with MXRecordIO(path, "w") as writer:
    ...     writer.write(b"one")
    >>> MXRecordIO(path, "r").read()
    b'one'
    """

    def __init__(self, uri: str, flag: str):
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.writable = False
        self._file: Any = None
        self._at = 0
        self.open()

    def open(self) -> None:
        """Open the file; a reader begins at its first record, a writer with an empty file."""
        if self.flag not in ("r", "w"):
            raise MXNetValueError(f"Invalid flag {self.flag}: 'r' reads, 'w' writes")
        self.writable = self.flag == "w"
        try:
            # A writer has no buffer: a forked process would write what is in it once more.
            self._file = (
                open(self.uri, "wb", buffering=0)
                if self.writable
                else open(self.uri, "rb", buffering=1 << 16)
            )
        except FileNotFoundError as error:
            raise MXNetFileNotFoundError(
                f"there is no {'folder for the ' if self.writable else ''}record file {self.uri}"
            ) from error
        self.pid = os.getpid()
        self.is_open = True
        self._at = 0
        self._buffered_at = 0
        if not self.writable:
            descriptor = self._file.fileno()
            size = lambda: os.fstat(descriptor).st_size  # noqa: E731
            self._in_order = _Source(self.uri, self._next_bytes, size)
            self._anywhere = _Source(
                self.uri, lambda count, at: os.pread(descriptor, count, at), size
            )

    def _next_bytes(self, count: int, at: int) -> bytes:
        if at != self._buffered_at:
            self._file.seek(at)
        data = self._file.read(count)
        self._buffered_at = at + len(data)
        return data

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.flag == "w":
            raise MXNetTypeError(
                f"the writer of {self.uri} cannot be pickled: a second one would begin the file anew; close it and "
                "give the file's name"
            )
        state = dict(self.__dict__)
        for name in ("_file", "_in_order", "_anywhere", "pid"):
            state.pop(name, None)
        return state

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__.update(d)
        was_open, at = d["is_open"], d["_at"]
        self.is_open, self.pid, self._file = False, None, None
        if was_open:
            self.open()
            self._at = at

    def _check_pid(self, allow_reset: bool = False) -> None:
        """A forked process opens the file for itself: the two would move each other's place."""
        if not self.is_open:
            raise MXNetError(f"{self.uri} is closed; open() or reset() opens it again")
        if self.pid == os.getpid():
            return
        if self.writable:
            raise MXNetError(
                f"Forbidden operation in multiple processes: {self.uri} is written by process {self.pid}"
            )
        at = self._at
        self.reset()
        self._at = at

    def close(self) -> None:
        """Close the file; what was written is in it then."""
        if not self.is_open:
            return
        self._file.close()
        self.is_open = False
        self.pid = None

    @property
    def offset(self) -> int:
        """Where in the file the next record is read or written; of a reader it can be set."""
        return self._at

    @offset.setter
    def offset(self, at: int) -> None:
        if self.writable or isinstance(at, bool) or not isinstance(at, int) or at < 0:
            raise MXNetValueError(f"the offset of a reader is an integer from 0 on, got {at!r}")
        self._check_pid()
        self._at = at

    def reset(self) -> None:
        """Begin anew: a reader at its first record, a writer with an empty file."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record.

        Raises:
          ValueError: it has 512 MiB or more.
        """
        if not self.writable:
            raise MXNetAssertionError(
                f"{self.uri} was opened to be read; the flag 'w' opens it to be written"
            )
        self._check_pid()
        if isinstance(buf, (int, str)):  # bytes(3) are three zeros
            raise MXNetTypeError(
                f"a record is bytes, got {type(buf).__name__}; recordio.pack(header, data) makes them"
            )
        buf = bytes(buf)
        if len(buf) > _MOST:
            raise MXNetValueError(f"a record has less than 2**29 bytes, got {len(buf)}")
        out = b"".join(
            _MAGIC + struct.pack("<I", place << 29 | len(data)) + data
            for place, data in _parts(buf)
        )
        out += bytes(-len(out) % 4)
        self._at += len(out)
        left = memoryview(out)
        while left:
            left = left[self._file.write(left) :]

    def read(self) -> bytes | None:
        """The next record, or None at the end.

        Raises:
          FormatError: the file is damaged there; the message has the offset.
        """
        if self.writable:
            raise MXNetAssertionError(
                f"{self.uri} was opened to be written; the flag 'r' opens it to be read"
            )
        self._check_pid()
        if self._in_order.is_end(self._at):
            return None
        record, self._at = self._in_order.record(self._at)
        return record

    def read_at(self, offset: int) -> bytes:
        """The record at an offset (see `offsets`); threads may call it at the same time, `read` goes on after it.

        Raises:
          FormatError: there is no whole record.
        """
        self._check_pid()
        record, self._at = self._anywhere.record(offset)
        return record


class MXIndexedRecordIO(MXRecordIO):
    """Records that have keys: an index file holds each key with the offset of its record.

    Threads may call `read_idx` at the same time.

    Args:
      idx_path: the index, lines of `key <tab> offset`; `make_index` makes one anew.
      uri, flag: as in `MXRecordIO`.
      key_type: makes a key of its text.

    Attributes:
      keys: the keys in the order of the index.
      idx: key -> offset.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a")
    >>> with MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as writer:
    ...     for key in range(3):
    ...         writer.write_idx(key, b"record %d" % key)
    >>> MXIndexedRecordIO(path + ".idx", path + ".rec", "r").read_idx(1)
    b'record 1'
    """

    def __init__(self, idx_path: str, uri: str, flag: str, key_type: Any = int):
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        self.fidx: Any = None
        super().__init__(uri, flag)

    def open(self) -> None:
        super().open()
        if self.writable:
            self.fidx = open(self.idx_path, "w", encoding="utf-8", buffering=1)
            self.idx = {}
            self.keys = []
        elif not self.idx:
            try:
                self.idx = dict(self._index())
            except BaseException:
                super().close()
                raise
            self.keys = list(self.idx)

    def _index(self) -> Iterator[tuple[Any, int]]:
        mend = f"mx.recordio.make_index({self.uri!r}, {self.idx_path!r}) makes it anew"
        try:
            file = open(self.idx_path, "rb")
        except FileNotFoundError as error:
            raise MXNetFileNotFoundError(
                f"there is no index {self.idx_path} of {self.uri}; {mend}"
            ) from error
        with file:
            for number, line in enumerate(file, 1):
                fields = line.split(b"\t") if line.strip() else []
                try:
                    key, offset = self.key_type(fields[0].decode()), int(fields[1])
                except (ValueError, IndexError):
                    if not fields:
                        continue
                    raise FormatError(
                        f"{self.idx_path}, line {number}: key <tab> offset was expected, here is {line[:80]!r}; {mend}"
                    ) from None
                yield key, offset

    def close(self) -> None:
        super().close()
        if self.fidx is not None:
            self.fidx.close()
            self.fidx = None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["fidx"] = None
        return state

    def _offset(self, idx: Any) -> int:
        if self.writable:
            raise MXNetAssertionError(
                f"{self.uri} was opened to be written; the flag 'r' opens it to be read"
            )
        self._check_pid(allow_reset=True)
        try:
            return self.idx[idx]
        except KeyError:
            raise MXNetKeyError(
                f"{self.idx_path} has no key {idx!r}; it has {len(self.idx)}"
            ) from None

    def seek(self, idx: Any) -> None:
        """Let `read` go on with the record of a key."""
        self._at = self._offset(idx)

    def tell(self) -> int:
        """The offset at which the next record will be written."""
        if not self.writable:
            raise MXNetAssertionError("tell() is of a file that is written")
        return self._at

    def read_idx(self, idx: Any) -> bytes:
        """The record of a key.

        Raises:
          KeyError: no such key.
          FormatError: there is no whole record where the index says.
        """
        at = self._offset(idx)
        if at < 0 or at % 4 or self._anywhere.is_end(at):
            raise FormatError(
                f"{self.idx_path}: key {idx!r} is said to be at offset {at} of {self.uri}, where no record begins; "
                f"mx.recordio.make_index({self.uri!r}, {self.idx_path!r}) makes the index anew"
            )
        return self.read_at(at)

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record with a key."""
        key = self.key_type(idx)
        at = self.tell()
        self.write(buf)
        self.fidx.write(f"{key}\t{at}\n")
        self.idx[key] = at
        self.keys.append(key)


def offsets(uri: str, wrong: Callable[[FormatError], None] | None = None) -> list[int]:
    """Where the records of a file begin.

    Args:
      wrong: is told of damaged records, which are left out; without it they are an error.

    Raises:
      FormatError: the file is damaged.
    """
    found = []
    with MXRecordIO(uri, "r") as reader:
        at, source = 0, reader._anywhere
        while not source.is_end(at):
            try:
                end = source.skip(at)
                found.append(at)
            except FormatError as error:
                if wrong is None:
                    raise
                wrong(error)
                end = source.next_beginning(at)
            at = end
    return found


def make_index(uri: str, idx_path: str | None = None) -> list[int]:
    """Write the index of a record file anew: its records get the keys 0, 1, ...; gives their offsets.

    Args:
      uri: the record file.
      idx_path: the index; without it, `uri` with `.idx` at its end.

    Raises:
      FormatError: the record file is damaged; the index is not touched.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.rec")
    >>> with MXRecordIO(path, "w") as writer:
    ...     writer.write(b"12345")
    ...     writer.write(b"")
    >>> make_index(path)
    [0, 16]
    """
    found = offsets(uri)
    path = os.path.splitext(uri)[0] + ".idx" if idx_path is None else idx_path
    write_whole(path, lambda file: file.writelines(b"%d\t%d\n" % row for row in enumerate(found)))
    return found


def list_lines(
    path: str, key_type: Any = int
) -> Iterator[tuple[Any, list[float], str] | FormatError]:
    """The lines of a list of pictures, `key <tab> label <tab> ... file name`: (key, labels, file name).

    Where a line is something else it is the error that says so; empty lines are left out.
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            fields = [field.strip() for field in line.strip().split("\t")]
            if fields == [""]:
                continue
            try:
                key, *labels, name = fields
                found = key_type(key), [float(label) for label in labels], name
            except ValueError:
                yield FormatError(
                    f"{path}, line {number}: key <tab> label ... <tab> file name was expected, here is {line[:80]!r}"
                )
                continue
            yield found


#: What an image's record begins with: `flag` is the number of labels (0: `label` is the one), `id` and `id2` name it.
IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])  # type: ignore[name-match]  # MXNet's name
_IR_FORMAT = "IfQQ"
_IR = struct.Struct(f"<{_IR_FORMAT}")
_IR_SIZE = _IR.size


def pack(header: Any, s: bytes) -> bytes:
    """A record of a header and a payload.

    Args:
      header: an `IRHeader`, or a tuple like it; its label is a number or an array.
      s: the payload.

    Returns:
      bytes: the record.

    >>> len(pack(IRHeader(0, [1.0, 2.0], 7, 0), b"payload"))
    39
    """
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        return _IR.pack(0, header.label, header.id, header.id2) + s
    label = header.label
    label = np.asarray(label.asnumpy() if hasattr(label, "asnumpy") else label, dtype="<f4")
    return _IR.pack(label.size, 0.0, header.id, header.id2) + label.tobytes() + s


def unpack(s: bytes) -> tuple[Any, bytes]:
    """The header and the payload of a record.

    Raises:
      FormatError: the record is too short for what it says.

    >>> unpack(pack(IRHeader(0, 3.0, 7, 0), b"payload"))
    (HEADER(flag=0, label=3.0, id=7, id2=0), b'payload')
    """
    if len(s) < _IR.size:
        raise FormatError(
            f"a record with a header has at least {_IR.size} bytes, this one has {len(s)}"
        )
    header = IRHeader(*_IR.unpack_from(s))
    begin = _IR.size
    if header.flag > 0:
        begin += 4 * header.flag
        if begin > len(s):
            raise FormatError(
                f"the record says that it has {header.flag} labels, but it has only {len(s)} bytes"
            )
        header = header._replace(label=np.frombuffer(s, "<f4", header.flag, _IR.size))
    return header, s[begin:]


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray]:
    """The header of a record, and its image as an array (height, width[, channels]) of NumPy, blue first.

    Args:
      iscolor: 1 for three channels, 0 for gray, -1 for what the file holds.
      s: the bytes of a record.

    Returns:
      tuple: the header, and the image.

    Raises:
      FormatError: it is no image, or a damaged one.
    """
    header, data = unpack(s)
    pixels = codec.decode(data, iscolor, to_rgb=False, where=f"the image of record {header.id}")
    return header, pixels[..., 0] if pixels.shape[2] == 1 else pixels


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A record of a header and an image, which is encoded.

    Args:
      header: as in `pack`.
      img: an array (height, width[, channels]) of uint8, blue first.
      quality: of a JPEG 1 to 100, of a PNG the effort 0 to 9.
      img_fmt: the format by its ending.

    Returns:
      bytes: the record.
    """
    return pack(header, codec.encode(img, img_fmt, quality))


told(IRHeader, list_lines, make_index, offsets, unpack)
