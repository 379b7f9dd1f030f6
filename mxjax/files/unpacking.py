"""Files taken out of archives: by name, whole or not at all, and no larger than expected.

No path in an archive decides where a file goes, links in it are never made, and what is unpacked
has a limit.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from mxjax.errors import FormatError, MXNetError
from mxjax.files.atomic import write_whole

from .downloading import copy_at_most, place_within

__all__ = ["unpack", "unpack_all", "unpack_one"]

#: The most bytes of a file: the largest known one, word vectors of fastText, has 7 GB.
LARGEST = 16 << 30
_MOST_MEMBERS = 1_000_000
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,  # the modules gzip and bz2 raise it, and who seeks before the beginning
    ValueError,
    RuntimeError,  # such as a password that is missing
)
# Of a zip file's members written by Unix: the kind of file is above its mode.
_KIND, _PLAIN_KINDS = 0o170000, (0, 0o100000)

_Open = Callable[[], IO[bytes] | None]


def unpack(
    archive: str,
    wanted: Mapping[str, str],
    hashes: Mapping[str, str] | None = None,
    most: int = LARGEST,
) -> None:
    """Take files out of a zip or tar archive, by the last part of their names alone.

    Args:
      archive: its path.
      wanted: where each file goes, by its name in the archive without folders.
      hashes: SHA-1 hashes of those that are known.
      most: how many bytes each may have.

    Raises:
      FormatError: the archive is damaged, lacks a file, or holds another one than expected. That
        file is not written.
    """
    missing = dict(wanted)
    with _Opened(archive) as members:
        for name, size, content in members:
            name = name.rpartition("/")[2]
            if name in missing and content is not None:
                _write(
                    content,
                    missing.pop(name),
                    f"{archive}: {name}",
                    size,
                    most,
                    (hashes or {}).get(name),
                )
            if not missing:
                return
    raise FormatError(f"{archive} does not hold {', '.join(sorted(missing))}")


def unpack_all(archive: str, folder: str, most: int = LARGEST) -> None:
    """Take all files out of a zip or tar archive into a folder, by their paths within it.

    Raises:
      FormatError: the archive is damaged, holds a link, paths that lead elsewhere or twice to the
        same place, or more
        than `most` bytes together.
    """
    seen: set[str] = set()
    left = most
    with _Opened(archive) as members:
        for name, size, content in members:
            parts = [part for part in name.rstrip("/").split("/") if part != "."]
            try:
                path = place_within(folder, *parts)
            except ValueError as error:
                raise FormatError(f"{archive}: {error}") from None
            if content is None:
                raise FormatError(
                    f"{archive}: {name!r} is neither a file nor a folder, such as a link"
                )
            if name.endswith("/"):
                os.makedirs(path, exist_ok=True)
                continue
            if path.casefold() in seen:
                raise FormatError(f"{archive} holds two files for {path}")
            seen.add(path.casefold())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            left -= _write(content, path, f"{archive}: {name}", size, left, None)


def unpack_one(packed: str, target: str, most: int = LARGEST) -> None:
    """Unpack a file that gzip or bzip2 packed, told apart by its name.

    Raises:
      FormatError: it is damaged, or what it holds has more bytes than `most`.
    """
    opened: Any = bz2.open if packed.endswith(".bz2") else gzip.open
    _write(lambda: opened(packed), target, packed, 0, most, None)


class _Opened:
    """An archive's members: names (a folder's ends in a slash), sizes as said, what opens a file."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self.raw = open(archive, "rb")

    def __enter__(self) -> Iterator[tuple[str, int, _Open | None]]:
        return self._members()

    def __exit__(self, *raised: object) -> None:
        self.raw.close()

    def _members(self) -> Iterator[tuple[str, int, _Open | None]]:
        with _errors_of(self.archive):
            if zipfile.is_zipfile(self.raw):
                yield from self._of_zip(zipfile.ZipFile(self.raw))
            else:
                self.raw.seek(0)
                yield from self._of_tar(tarfile.open(fileobj=self.raw))

    def _of_zip(self, file: zipfile.ZipFile) -> Iterator[tuple[str, int, _Open | None]]:
        members = file.infolist()
        if len(members) > _MOST_MEMBERS:
            raise FormatError(
                f"{self.archive} holds {len(members)} files, more than {_MOST_MEMBERS}"
            )
        for each in members:
            plain = each.external_attr >> 16 & _KIND in _PLAIN_KINDS or each.is_dir()
            yield (
                each.filename,
                each.file_size,
                functools.partial(file.open, each) if plain else None,
            )

    def _of_tar(self, file: tarfile.TarFile) -> Iterator[tuple[str, int, _Open | None]]:
        for count, each in enumerate(file):
            if count > _MOST_MEMBERS:
                raise FormatError(f"{self.archive} holds more than {_MOST_MEMBERS} files")
            plain = each.isreg() or each.isdir()
            yield (
                each.name + "/" * each.isdir(),
                each.size,
                functools.partial(file.extractfile, each) if plain else None,
            )


@contextlib.contextmanager
def _errors_of(where: str) -> Iterator[None]:
    """Errors of the modules that unpack as those of the format."""
    try:
        yield
    except MXNetError:
        raise
    except _DAMAGED as error:
        raise FormatError(
            f"{where} is damaged ({error}): it was probably not downloaded completely"
        ) from error


def _write(content: _Open, path: str, where: str, size: int, most: int, sha1: str | None) -> int:
    """Write one file; how many bytes it has."""
    if size > most:
        raise FormatError(f"{where} has {size} bytes, more than the {most} that it may have here")
    digest = hashlib.sha1(usedforsecurity=False)
    count = 0

    def write(out: Any) -> None:
        nonlocal count
        with _errors_of(where):
            source = content()
        assert source is not None
        with source:
            copy_at_most(_Reader(source, where), out, most, where, digest.update)
        if sha1 is not None and digest.hexdigest() != sha1.lower():
            raise FormatError(f"{where} is not the expected file: its SHA-1 is not {sha1}")
        count = out.tell()

    write_whole(path, write)
    return count


class _Reader:
    """A stream of unpacked bytes, whose errors are those of its format."""

    def __init__(self, source: IO[bytes], where: str) -> None:
        self._source, self._where = source, where

    def read(self, size: int) -> bytes:
        with _errors_of(self._where):
            return self._source.read(size)
