"""Files that are written whole or not at all, and read so.

`write_whole` makes the new contents in a file of their own beside the target. Where nobody can tell the target from a
new file (there is none; or it is a regular file with one name, whose mode, owner and attributes a new file can get, and
nobody has it open), that file is renamed over it. Any other target stays the file it is, as when MXNet writes it: links
lead to it, and who has it open sees the new contents. They are copied into it, in these steps:

1. the file beside, brought to the disk, gets the name `<target>.saving`;
2. the target's first bytes become `UNFINISHED`, the rest is copied, and its own first bytes come last;
3. `<target>.saving` is removed.

So a target that begins with `UNFINISHED` was cut off, `<target>.saving` holds all that it should, and `read_whole`
reads it there until the next save. Devices, pipes and sockets are written as the contents come.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import signal
import stat
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ..errors import (
    FormatError,
    MXNetError,
    MXNetFileNotFoundError,
    MXNetNotImplementedError,
    MXNetOSError,
    MXNetTimeoutError,
    MXNetTypeError,
)

__all__ = ["put", "read_whole", "write_whole"]

#: What a file begins with whose contents are being copied.
UNFINISHED = b"\0unfinished save"
#: After the file's name: where all that it should hold is meanwhile.
SAVING = ".saving"

_CHUNK = 1 << 20
_LONGEST_NAME = 255  # bytes, on every file system of Linux
_PATIENCE = 60  # seconds for another process that copies into the same file
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_FILE_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_RENAME = (errno.EBUSY, errno.EPERM, errno.EACCES, errno.EXDEV)  # such as a file that is mounted
_numbers = (
    itertools.count()
)  # a signal's handler may save what the code that it interrupts is saving


def write_whole(path: Any, write: Callable[..., Any], *args: Any) -> None:
    """Write a file by ``write(file, *args)``: all of it or nothing, and it stays the file that it is.

    Raises:
      OSError: it cannot be written; what was there stays.
      NotImplementedError: the path is an address of another machine.
    """
    target = _text(path)
    with _named(target):
        found = _stat(target)
        if found is not None and not stat.S_ISREG(found.st_mode):
            with open(
                target, "wb"
            ) as out:  # a device, a pipe, a socket: nothing of it is kept; a folder refuses
                write(out, *args)
            return
        real = os.path.realpath(target)
        if found is not None:
            os.close(
                os.open(target, os.O_WRONLY | os.O_CLOEXEC)
            )  # where that is refused, before anything is made
        beside = _beside(real, f".{os.getpid()}.{next(_numbers)}.tmp")
        try:
            try:
                if found is not None and not _is(
                    real, found
                ):  # an open file without a name, by /proc/self/fd
                    raise PermissionError(errno.EPERM, "no name")
                made = open(beside, "xb")
            except OSError as error:
                if found is None or error.errno not in _NO_FILE_BESIDE:
                    raise
                _without_a_file_beside(target, write, args)
                return
            with made as out:
                if found is not None:
                    _dress(beside, found)
                write(out, *args)
            _put(beside, real)
        finally:
            _remove(beside)


def put(beside: str, target: str) -> None:
    """Let `target` hold what the finished file `beside`, in the same folder, holds; `beside` is gone then."""
    with _named(target):
        real = os.path.realpath(target)
        found = _stat(real)
        if found is not None:
            os.close(os.open(real, os.O_WRONLY | os.O_CLOEXEC))
            _dress(beside, found)
        _put(beside, real)


def _put(beside: str, real: str) -> None:
    if not os.path.exists(real) or _is_alike(beside, real) and not _is_open(real):
        try:
            os.replace(beside, real)
            _forget_saving(real)
            return
        except OSError as error:
            if error.errno not in _NO_RENAME or not os.path.exists(real):
                raise
    _undisturbed(_copy_beside, beside, real)


def read_whole(path: Any) -> bytes:
    """What a file holds: all of what was saved last, even while it is being saved, or where that was cut off.

    Raises:
      FileNotFoundError, OSError: it cannot be read.
      FormatError: saving it was cut off, and the file with its contents is gone.
    """
    target = _text(path)
    with _named(target):
        lost = 0
        for _ in range(200):
            with open(target, "rb") as file:
                before = os.fstat(file.fileno())
                data = file.read()
                after = os.fstat(file.fileno())
            if _is_unfinished(data):
                try:
                    with open(_beside(os.path.realpath(target), SAVING), "rb") as file:
                        return file.read()
                except (
                    FileNotFoundError
                ):  # it goes when the target is whole: so it was finished between the two
                    lost += 1
                if lost == 3:
                    break
            elif not stat.S_ISREG(after.st_mode) or _state(before) == _state(after):
                return data
            time.sleep(0.01)
    if data.startswith(UNFINISHED):
        saving = _beside(os.path.realpath(target), SAVING)
        raise FormatError(
            f"{target} is unfinished: saving it was cut off, and {saving}, which held all of it, is gone"
        )
    return data  # which somebody else writes all the time


# ---- names


def _text(path: Any) -> str:
    try:
        target = os.fsdecode(path)
    except TypeError:
        raise MXNetTypeError(
            f"the path of a file was expected, got {type(path).__name__}: save under a name, and open that"
        ) from None
    if "://" in target:
        raise MXNetNotImplementedError(f"{target}: only files of this machine are read and written")
    if not target:
        raise MXNetFileNotFoundError(
            errno.ENOENT, "the name of a file was expected, got an empty text", target
        )
    if target.endswith("/"):
        raise MXNetOSError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    return target


@contextlib.contextmanager
def _named(target: str) -> Iterator[None]:
    """Errors of the system as ours, with the name that was given."""
    try:
        yield
    except OSError as error:
        if isinstance(error, MXNetError):
            raise
        if isinstance(error, FileNotFoundError):
            raise MXNetFileNotFoundError(
                error.errno, f'Open "{target}": No such file or directory', target
            ) from None
        said = error.strerror or str(error)
        raise MXNetOSError(error.errno or errno.EIO, said, target) from error


def _beside(real: str, ending: str) -> str:
    """A name in the same folder, the same for the same file."""
    folder, name = os.path.split(real)
    if len(os.fsencode(name + ending)) > _LONGEST_NAME:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return os.path.join(folder, name + ending)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


# ---- what a file is


def _stat(target: str) -> os.stat_result | None:
    try:
        return os.stat(target)
    except FileNotFoundError:
        return None


def _is(path: str, found: os.stat_result) -> bool:
    here = _stat(path)
    return here is not None and os.path.samestat(here, found)


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_size


def _dress(beside: str, found: os.stat_result) -> None:
    """Let a file that is to hold another one's contents be read by no more people."""
    here = os.stat(beside)
    same = (here.st_uid, here.st_gid) == (found.st_uid, found.st_gid)
    os.chmod(
        beside, stat.S_IMODE(found.st_mode) | stat.S_IRUSR if same else stat.S_IRUSR | stat.S_IWUSR
    )


def _is_alike(new: str, old: str) -> bool:
    """Whether nobody sees a difference but in the contents."""
    a, b = os.stat(new), os.stat(old)
    return (
        b.st_nlink == 1
        and (a.st_mode, a.st_uid, a.st_gid) == (b.st_mode, b.st_uid, b.st_gid)
        and _attributes(new) == _attributes(old)
    )


def _attributes(path: str) -> dict[str, bytes]:
    """Extended attributes, with access control lists among them."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError:  # a file system without them
        return {}


def _is_open(path: str) -> bool:
    """Whether anybody has the file open; also where the system cannot say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # The system gives a lease for writing on a file that nobody else has open. Who opens it before it is given back
        # a moment later causes a signal: one that is ignored by default.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


def _is_unfinished(data: bytes) -> bool:
    return len(data) > 0 and data[: len(UNFINISHED)] == UNFINISHED[: len(data)]


# ---- copying into a file


def _undisturbed(work: Callable[..., None], *args: Any) -> None:
    """Do this to its end before an exception of this thread, such as Ctrl-C, goes on.

    A thread of its own does it: handlers of signals, which may raise or save the same file, run in the main thread.
    """
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    begun: list[int] = []
    try:
        try:
            begun.extend(map(start_new_thread, (run,), ((),)))  # begun and noted in one instruction
        except RuntimeError:  # Python is ending: no thread begins any more
            run()
        finally:
            _wait(begun, done)
    finally:
        _wait(begun, done)  # an exception may have come between
    if failed:
        raise failed[0]


def _wait(begun: list[int], done: threading.Event) -> None:
    """Wait for the thread, whatever comes; `Thread.join` takes one that runs for ended after an exception."""
    came: BaseException | None = None
    while begun and not done.is_set():
        try:
            done.wait()
        except BaseException as error:
            came = error
    if came is not None:
        raise came


def _copy_beside(beside: str, real: str) -> None:
    saving = _beside(real, SAVING)
    with open(beside, "rb") as new, _opened(real) as target:
        _lock(new.fileno(), wait=False)
        os.fsync(new.fileno())
        _take_name(beside, saving)
        try:
            _sync_folder(real)
            try:
                _copy(new, target)
            except _Restored as restored:
                _remove(saving)
                raise restored.error from None
            except OSError as error:
                raise MXNetOSError(
                    error.errno or errno.EIO,
                    f"{error.strerror or error}; what was saved is in {saving}, where it is read from",
                    real,
                ) from error
            _remove(saving)
        finally:
            _unlock(new.fileno())  # a forked process has the file open too


@contextlib.contextmanager
def _opened(real: str) -> Iterator[int]:
    try:
        handle = os.open(real, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        handle = os.open(real, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


class _Restored(Exception):
    """There was no room, and the file is as it was."""

    def __init__(self, error: OSError):
        self.error = error


def _copy(new: BinaryIO, target: int) -> None:
    """All of `new` into `target`, which begins with `UNFINISHED` while it is neither the old one nor the new one."""
    first = len(UNFINISHED)
    size, before = os.fstat(new.fileno()).st_size, os.fstat(target).st_size
    old = _start(target)
    try:
        _write(target, UNFINISHED, 0)
        if size > before:
            _make_room(target, size)
    except OSError as error:
        if old is None or _is_unfinished(old) or error.errno not in _FULL:
            raise
        _write(target, old, 0)
        os.ftruncate(target, before)
        raise _Restored(error) from None
    new.seek(0)
    head, at = new.read(first), first
    for chunk in iter(lambda: new.read(_CHUNK), b""):
        _write(target, chunk, at)
        at += len(chunk)
    os.ftruncate(target, at)
    os.fsync(target)
    if size < first:
        os.ftruncate(target, size)
    _write(target, head, 0)
    os.fsync(target)


def _start(handle: int) -> bytes | None:
    """The first bytes; None of a file that may be written only."""
    try:
        return os.pread(handle, len(UNFINISHED), 0)
    except OSError:
        return None


def _write(handle: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(handle, memoryview(data)[done:], at + done)


def _make_room(handle: int, size: int) -> None:
    """Find out that the disk is full before anything is lost."""
    try:
        os.posix_fallocate(handle, 0, size)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise


def _take_name(beside: str, saving: str) -> None:
    """Give the locked file `beside` the name `saving`, when nobody else copies into the same target."""
    while True:
        try:
            os.link(beside, saving)
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError), open(saving, "rb") as other:
                _lock(other.fileno(), wait=True)
                try:
                    if _is(
                        saving, os.fstat(other.fileno())
                    ):  # its process was ended: it is for us to go on
                        os.replace(beside, saving)
                        return
                finally:
                    _unlock(other.fileno())
        except OSError:  # a file system without links
            os.replace(beside, saving)
            return
    os.remove(beside)


def _lock(handle: int, wait: bool) -> None:
    begun = time.monotonic()
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if wait and time.monotonic() - begun > _PATIENCE:
                raise MXNetTimeoutError(
                    f"another process has been saving the same file for more than {_PATIENCE} s"
                ) from None
            time.sleep(0.005)
        except OSError:  # a file system without locks
            return


def _unlock(handle: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)


def _forget_saving(real: str) -> None:
    """Remove what a process that was ended left of a file that is whole again."""
    saving = _beside(real, SAVING)
    try:
        with open(saving, "rb") as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(saving, os.fstat(left.fileno())):
                os.remove(saving)
    except OSError:
        pass


def _sync_folder(real: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(os.path.dirname(real), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _without_a_file_beside(target: str, write: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Write into a file whose folder takes no other: what cannot be written leaves the old contents.

    Where the process is ended in the middle nothing holds them; `read_whole` says so.
    """
    import tempfile

    with tempfile.TemporaryFile() as new, tempfile.TemporaryFile() as old:
        write(new, *args)
        new.flush()
        _undisturbed(_copy_or_restore, new, old, target)


def _copy_or_restore(new: BinaryIO, old: BinaryIO, target: str) -> None:
    with _opened(target) as handle:
        begun = False
        try:
            if _start(handle) is not None:
                at = 0
                while chunk := os.pread(handle, _CHUNK, at):
                    old.write(chunk)
                    at += len(chunk)
                old.flush()
                begun = True
            _copy(new, handle)
        except _Restored as restored:
            raise restored.error from None
        except OSError:
            if begun:
                _copy(old, handle)
            raise
