"""Compiled programs that serve the next process: files in a folder of the user's (`cache.dir`).

JAX lowers a program and hands it to its backend. `compile_or_load` puts an object in the backend's place, for this one
compilation: it looks for the program in the folder, loads it from there, or has it compiled and written there. JAX's
own flags, and what it does for others, stay as they are.

- A **key** is made of all that decides what is compiled: the program without locations, the names that profiles show,
  the compiler's options and flags, JAX's and XLA's versions, the processor's instructions and the number of cores.
  Where its jaxpr says as much, a program is found by that, and is not lowered (`outline.py`).
- **What is loaded is code.** So it comes only from a folder, and from files in it, that this user owns and nobody else
  may write; and each file says, before XLA sees it, for which key it is and what the digest of its bytes is.
- **Nothing here raises.** What cannot be read or written is as if it were not there: the program is compiled.
- Processes share the folder without locks: files are written beside and renamed, and one that is gone is compiled anew.
- **The folder is bounded** (`cache.size`): a process counts it as it writes for the first time, and again when it has
  written a sixteenth of the bound itself; then those used longest ago go.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import logging
import os
import platform as host
import stat
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jaxlib
import numpy as np

from ... import settings
from ..._jax_private import find
from ...files.atomic import write_whole
from ..graph.jaxprs import bodies
from ..run import forks
from ..stats import stats
from .compiler_options import cpu_features
from .outline import ToLower

#: In the folder given, as Ascend has it: emptying it removes nothing else.
SUBFOLDER = "programs"
#: Of programs, and of traces of calls (`../interpret/kept_traces.py`).
SUFFIX = ".program"
TRACES = ".traces"
#: What a file begins with: this, its key, how many bytes follow, how many they become, and the digest of those.
_MAGIC = b"mxjax program 1\n"
_HEADER = struct.Struct("<16s32sQQ32s")
#: A time of use is written down again after so many seconds, and what an ended process left unfinished goes.
_HOUR = 3600
#: A full folder is emptied to so much of its bound, so that not every program that is written finds it full.
_FULL = 7 / 8
#: XLA before this writes two lines to stderr for each program that it loads on a processor with AVX-512.
_QUIET_FROM = (0, 10, 2)

_said: set[str] = set()
_closed: set[str] = set()  # folders in which nothing can be written
_counted: dict[str, _Count] = {}


class _Count:
    """What a folder holds, as far as this process knows."""

    __slots__ = ("limit", "since", "total")

    def __init__(self, limit: int, total: int):
        self.limit, self.total, self.since = limit, total, 0


def compile_or_load(
    lowered: Any, options: dict[str, Any], jaxpr: Any = None, tell: Callable[[], None] | None = None
) -> tuple[Any, bool]:
    """What ``lowered.compile`` gives, from the folder where it is there; and whether it was. In any thread.

    Args:
      tell: is called before XLA compiles, if it has to.
      lowered: what is to be compiled, which need not be lowered yet (`ToLower`).
      jaxpr: what was lowered, for its names; those of two programs that differ in nothing else may be mixed up without.
    """
    forks.check()
    key = None
    if isinstance(lowered, ToLower):
        compiled, key = _by_digest(lowered, options)
        if compiled is not None:
            return compiled, True
        lowered, jaxpr = lowered.whole, lowered.jaxpr
    ours = _by_way_of(lowered, options, jaxpr)
    if ours is None:
        if tell is not None:
            tell()
        return lowered.compile(compiler_options=options), False
    ours[1].key, ours[1].tell = key, tell
    compiled = ours[0].compile(compiler_options=options)
    return compiled, ours[1].loaded


def load(lowered: Any, options: dict[str, Any], jaxpr: Any = None) -> Any:
    """The program from the folder; None where it is not there: nothing is compiled."""
    forks.check()
    if isinstance(lowered, ToLower):
        compiled, key = _by_digest(lowered, options)
        if compiled is not None or key is not None:
            return compiled
        lowered, jaxpr = lowered.whole, lowered.jaxpr
    return _loaded(_by_way_of(lowered, options, jaxpr, compiles=False), options)


def folder() -> str | None:
    """Where programs are kept, by the settings; None where nowhere."""
    mode, given = settings.get("cache.mode"), settings.get("cache.dir")
    if mode == "off" or given == "":
        return None
    if given is not None and "://" in given:
        _say(
            given,
            f"no compiled programs can be kept in {given}: a folder of this machine is needed",
        )
        return None
    path = os.path.join(given or usual_folder(), SUBFOLDER)
    return (
        os.path.abspath(path) if given or os.path.isabs(path) else None
    )  # there may be no home folder


def usual_folder() -> str:
    """The folder for what can be made again, by the system's custom: ``~/.cache/mxjax`` on Linux."""
    if sys.platform == "win32":
        return os.path.join(
            settings.env("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local"),
            "mxjax",
            "cache",
        )
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/mxjax")
    base = settings.env("XDG_CACHE_HOME") or ""
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "mxjax")


def empty(path: str) -> None:
    """Remove the programs in a folder."""
    with contextlib.suppress(OSError):
        for entry in _entries(path):
            _remove(entry.path)
    _counted.pop(path, None)


# ---- one compilation


class _NotThereError(Exception):
    """A program that is not to be compiled is not in the folder."""


def _by_digest(lowered: ToLower, options: dict[str, Any]) -> tuple[Any, bytes | None]:
    """A program that is not lowered, if it is in the folder; else the key under which it is to be there, or None."""
    if folder() is None or lowered.digest is None or lowered.outline is None:
        return None, None
    ours = _by_way_of(lowered.outline, options, lowered.digest, compiles=False)
    return _loaded(ours, options), None if ours is None else ours[1].key


def _loaded(ours: tuple[Any, _Backend] | None, options: dict[str, Any]) -> Any:
    try:
        return None if ours is None else ours[0].compile(compiler_options=options)
    except _NotThereError:
        return None


def _by_way_of(
    lowered: Any, options: dict[str, Any], jaxpr: Any, compiles: bool = True
) -> tuple[Any, _Backend] | None:
    """The lowered program with a backend that keeps what it compiles; None where it cannot be kept."""
    path = folder()
    if path is None:
        return None
    try:
        lowering = lowered._lowering
        given = lowering.compile_args
        real = given["backend"]
        if any(
            given[name]
            for name in ("host_callbacks", "keepalive", "unordered_effects", "ordered_effects")
        ):
            return None  # it calls what is in this process
        if lowering.const_args:
            return None  # it takes more than its operands
        if not (hasattr(real, "compile_and_load") and hasattr(real, "deserialize_executable")):
            return None
    except (AttributeError, KeyError, TypeError):  # another JAX
        return None
    if _is_dumped(options) or _is_loud(real.platform):
        return None
    names = jaxpr if isinstance(jaxpr, bytes) else b"" if jaxpr is None else _names(jaxpr)
    backend = _Backend(real, path, names, compiles)
    lowered, lowering = copy.copy(lowered), copy.copy(lowering)
    lowering.compile_args = {**given, "backend": backend}
    lowered._lowering = lowering
    return lowered, backend


class _Backend:
    """XLA's client, but that it looks into the folder before it compiles."""

    def __init__(self, real: Any, path: str, names: bytes, compiles: bool):
        self.loaded = False
        self.key: bytes | None = None  # known before, of a program that is not in the folder
        self.tell: Callable[[], None] | None = None
        self._real, self._path, self._names, self._compiles = real, path, names, compiles

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    # JAX remembers what it compiled of a lowered program by its backend, among others.
    def __eq__(self, other: object) -> bool:
        return bool(self._real == (other._real if isinstance(other, _Backend) else other))

    def __hash__(self) -> int:
        return hash(self._real)

    def compile_and_load(
        self, module: Any, executable_devices: Any = None, compile_options: Any = None, **more: Any
    ) -> Any:
        given = {
            "executable_devices": executable_devices,
            "compile_options": compile_options,
            **more,
        }
        known = self.key is not None
        if not known and not more:
            self.key = _key(module, executable_devices, compile_options, self._real, self._names)
        key = self.key
        data = None if known or key is None else read(self._path, key)
        if key is not None and data is not None:
            try:
                found = self._real.deserialize_executable(data, executable_devices, compile_options)
                self.loaded = True
                stats.loaded += 1
                return found
            except Exception:  # XLA cannot use it, whatever it says of it
                _remove(_file(self._path, key))
        if not self._compiles:
            raise _NotThereError
        if self.tell is not None:
            self.tell()
        made = self._real.compile_and_load(module, **given)
        if key is not None and self._path not in _closed:
            try:
                data = (
                    made.serialize()
                    if hasattr(made, "serialize")
                    else self._real.serialize_executable(made)
                )
            except Exception:  # a platform without, or a program that holds what is in this process
                return made
            write(self._path, key, data)
        return made


def _is_dumped(options: dict[str, Any]) -> bool:
    """Whether the compiler is asked to write down what it does, so that it must do it."""
    flags = settings.env("XLA_FLAGS") or ""
    return "xla_dump_to" in flags or any("dump" in name for name in options)


def _is_loud(platform: str) -> bool:
    """Whether XLA tells of each program it loads that the processor lacks what is no instruction of processors."""
    version = tuple(
        int("".join(filter(str.isdigit, part)) or 0) for part in jaxlib.__version__.split(".")[:3]
    )
    return platform == "cpu" and version < _QUIET_FROM and "avx512f" in cpu_features()


# ---- keys


def _key(module: Any, devices: Any, options: Any, backend: Any, names: bytes) -> bytes | None:
    """32 bytes that stand for what would be compiled; None where it cannot be told, or belongs to several processes."""
    try:
        found = list(devices)
        if any(d.process_index != backend.process_index() for d in found):
            return None
        text = find("cache_key")(module, np.array(found), options, backend)
    except Exception:  # another JAX
        return None
    parts = (text.encode(), names, processor(), repr(cores()).encode())
    return hashlib.blake2b(b"\0".join(map(_digest, parts)), digest_size=32).digest()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def _names(jaxpr: Any) -> bytes:
    """The digest of the names that profiles show of a program's operations, which its StableHLO has as locations."""
    found = hashlib.blake2b(digest_size=32)
    seen: set[int] = set()

    def walk(jaxpr: Any) -> Iterator[str]:
        if id(jaxpr) in seen:
            return
        seen.add(id(jaxpr))
        for e in jaxpr.eqns:
            yield str(e.source_info.name_stack)
            for body in bodies(e.params):
                yield from walk(body)

    try:
        for name in walk(getattr(jaxpr, "jaxpr", jaxpr)):
            found.update(name.encode() + b"\0")
    except AttributeError:  # another JAX
        pass
    return found.digest()


@functools.cache
def processor() -> bytes:
    """What decides which instructions XLA takes: the same on machines that run each other's programs."""
    features = " ".join(sorted(cpu_features()))
    # Where the system does not list them the machine stands for them.
    return "\0".join((host.system(), host.machine(), features or host.node())).encode()


def cores() -> tuple[Any, ...]:
    """Into how many parts XLA divides work, which it settles as it compiles."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return count, settings.env("PJRT_NPROC"), settings.env("NPROC")


# ---- files


def _file(path: str, key: bytes, suffix: str = SUFFIX) -> str:
    return os.path.join(path, key.hex() + suffix)


def read(path: str, key: bytes, suffix: str = SUFFIX) -> bytes | None:
    """What was kept under this key, if it is there whole and ours."""
    name = _file(path, key, suffix)
    try:
        if not _is_private(os.stat(path), path):
            return None
        handle = os.open(
            name,
            os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0),
        )
    except OSError:
        return None
    data = None
    with contextlib.suppress(OSError), open(handle, "rb") as file:
        found = os.fstat(handle)
        data = _unpacked(file, found, key) if _is_ours(found) else None
        if data is not None and time.time() - found.st_mtime > _HOUR:
            os.utime(name)
    if data is None:
        _remove(name)
    return data


def _unpacked(file: Any, found: os.stat_result, key: bytes) -> bytes | None:
    """What a file holds, if it is whole and for this key."""
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return None
    magic, own, packed, size, digest = _HEADER.unpack(head)
    if magic != _MAGIC or own != key or found.st_size != _HEADER.size + packed:
        return None
    data = file.read()
    if len(data) != packed or _digest(data) != digest:
        return None
    try:
        data = zlib.decompress(data)
    except zlib.error:
        return None
    return data if len(data) == size else None


def write(path: str, key: bytes, data: bytes, suffix: str = SUFFIX) -> None:
    """Keep a program, if that can be done; of traces, what is there is replaced."""
    limit = settings.get("cache.size")
    packed = zlib.compress(data, 1)
    size = _HEADER.size + len(packed)
    if limit is not None and size > limit * _FULL:
        return
    head = _HEADER.pack(_MAGIC, key, len(packed), len(data), _digest(packed))
    try:
        if not _made_private(path):
            return
        target = _file(path, key, suffix)
        # Another process may have been quicker.
        if suffix != SUFFIX or not os.path.exists(target):
            write_whole(target, _put, head, packed)
            if limit is not None:
                _bound(path, limit, size)
    except OSError as error:  # a folder that cannot be written, a full disk
        _closed.add(path)
        if settings.is_given("cache.dir"):
            _say(path, f"no compiled programs can be kept in {path}: {error.strerror or error}")


def _put(file: Any, head: bytes, packed: bytes) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), 0o600)  # whatever the process's mask is
    file.write(head)
    file.write(packed)


def _made_private(path: str) -> bool:
    """Whether programs may be kept in a folder, which is made if need be."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.stat(path)
    return _is_private(found, path)


def _is_private(found: os.stat_result, path: str) -> bool:
    """Whether this user alone can have put there what is in a folder; if not, the user hears of it."""
    if _is_ours(found, folder=True):
        return True
    _say(
        path,
        f"compiled programs are not kept in {path}: it must be a folder of yours that nobody else may write "
        f"(chmod 700), because they are code. MXJAX_CACHE_DIR=FOLDER takes another one; empty, none",
    )
    return False


def _is_ours(found: os.stat_result, folder: bool = False) -> bool:
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True  # Windows: the folder is in the user's own
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _say(path: str, text: str) -> None:
    """Tell the user about a folder, once."""
    if path not in _said:
        _said.add(path)
        logging.getLogger("mxjax").warning(text)


def _bound(path: str, limit: int, added: int) -> None:
    """So many bytes were written: where the folder holds more than it may, those used longest ago go."""
    known = _counted.get(path)
    if known is not None and known.limit == limit:
        known.total += added
        known.since += added
        if (
            known.total <= limit and known.since <= limit // 16
        ):  # else what others wrote counts as well
            return
    now = time.time()
    entries = []
    for entry in _entries(path):
        with contextlib.suppress(FileNotFoundError):  # another process removes, too
            found = entry.stat(follow_symlinks=False)
            if entry.name.endswith((SUFFIX, TRACES)):
                entries.append((found.st_mtime, found.st_size, entry.path))
            elif now - found.st_mtime > _HOUR:
                _remove(entry.path)
    total = sum(size for _, size, _ in entries)
    if total > limit:
        entries.sort()
        for _when, size, name in entries:
            _remove(name)
            total -= size
            if total <= limit * _FULL:
                break
    _counted[path] = _Count(limit, total)


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """The programs in a folder, and those that were begun."""
    with os.scandir(path) as found:
        for entry in found:
            if (
                (SUFFIX in entry.name or TRACES in entry.name)
                and entry.name[:64].isalnum()
                and entry.is_file(follow_symlinks=False)
            ):
                yield entry


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)
