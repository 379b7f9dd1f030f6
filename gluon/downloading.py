"""Files fetched from the network: checked, continued where they broke off, by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

from mxjax.errors import MXNetError, MXNetOSError, MXNetValueError

__all__ = ["check_sha1", "download", "replace_file"]


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether a file has this SHA-1 hash, or SHA-256 hash (64 digits), given in hexadecimal."""
    digest = hashlib.sha256 if len(sha1_hash) == 64 else hashlib.sha1
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, digest).hexdigest() == sha1_hash.lower()


def replace_file(src: str, dst: str) -> None:
    """Move a file over another in one step.

    Raises:
      MXNetOSError: it cannot be moved; `src` is removed then.
    """
    try:
        os.replace(src, dst)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(src)
        raise MXNetOSError(f"cannot move {src} to {dst}: {error}") from error


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Fetch a URL (http, https, file) into a file, unless the file is there already.

    What was fetched lies beside the file, as `<file>.part`, until it is whole: where the transfer breaks off it goes on
    from there, in a later call too if there is a hash to check it by. Processes that want the same file wait for the
    one that fetches it.

    Args:
      url: what to fetch.
      path: the file or an existing folder; the current folder if None.
      overwrite: fetch even if the file is there.
      sha1_hash: the file's SHA-1 (or, of 64 digits, SHA-256); a file that has another one is fetched again.
      retries: how often a failing transfer is tried once more.
      verify_ssl: False does not check the server's certificate, with a warning.

    Returns:
      The file's path.

    Raises:
      MXNetOSError: it could not be fetched; the message says what to do without a network.
      MXNetError: what came has another hash.
    """
    name = url.split("/")[-1]
    target = os.path.expanduser(path) if path is not None else name
    if not target or (os.path.isdir(target) and not name):
        raise MXNetValueError(f"no file name can be taken from {url!r}: give path=")
    if os.path.isdir(target):
        target = os.path.join(target, name)
    if retries < 0:
        raise MXNetValueError(f"retries must be at least 0, got {retries}")

    def there() -> bool:
        return os.path.exists(target) and (sha1_hash is None or check_sha1(target, sha1_hash))

    if not overwrite and there():
        return target
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly "
            "advised.",
            stacklevel=2,
        )
    with _turn(f"{target}.part") as part:
        if not overwrite and there():  # another process was faster
            return target
        _fetched(url, part, target, sha1_hash, retries, verify_ssl)
        replace_file(f"{target}.part", target)
    return target


@contextlib.contextmanager
def _turn(path: str) -> Iterator[BinaryIO]:
    """A file that is written by one process at a time; it stays only if something is in it."""
    while True:
        file = open(path, "ab")
        try:
            import fcntl
        except ImportError:  # where there is none, whoever comes last wins
            break
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                break
        except FileNotFoundError:
            pass
        file.close()  # who had the turn before has moved the file to its place
    try:
        yield file
        file.flush()
    finally:
        with contextlib.suppress(OSError):  # while it is still ours
            mine = os.fstat(file.fileno())
            if mine.st_size == 0 and os.path.samestat(mine, os.stat(path)):
                os.remove(path)
        file.close()


def _fetched(url: str, part: BinaryIO, target: str, sha1_hash: str | None, retries: int, verify_ssl: bool) -> None:
    """Fill `part` with the file, or with more of it where it broke off."""
    if sha1_hash is None:
        part.truncate(0)  # nothing could tell whether it belongs to the same file
    old = os.path.getsize(part.name)
    while True:
        try:
            _tried(url, part, target, retries, verify_ssl)
        except MXNetOSError:
            if sha1_hash is None:
                part.truncate(0)
            raise
        part.flush()
        if sha1_hash is None or check_sha1(part.name, sha1_hash):
            return
        part.truncate(0)
        if not old:
            kind = "SHA-256" if len(sha1_hash) == 64 else "SHA-1"
            raise MXNetError(
                f"{url} is not the expected file: its {kind} is not {sha1_hash}. The repository may "
                "have changed, or something between here and there answers in its place"
            )
        old = 0  # what an earlier call had left was of another file


def _tried(url: str, part: BinaryIO, target: str, retries: int, verify_ssl: bool) -> None:
    for attempt in range(retries + 1):
        try:
            return _transfer(url, part, verify_ssl)
        except (OSError, ValueError) as error:
            # An address that does not exist, or a refusal, will be the same in a moment.
            final = isinstance(error, ValueError | urllib.error.HTTPError) or (
                isinstance(error, urllib.error.URLError) and not _may_recover(error.reason)
            )
            if final or attempt == retries:
                reason = getattr(error, "reason", None) or error
                raise MXNetOSError(
                    f"cannot download {url}: {reason}. Without a network, fetch the file on "
                    f"another machine and put it at {target}"
                ) from error


def _may_recover(reason: object) -> bool:
    return isinstance(reason, TimeoutError | ConnectionError)


def _transfer(url: str, part: BinaryIO, verify_ssl: bool) -> None:
    """Append to `part` what it lacks of the file; from the beginning where the server gives only all of it."""
    context = None
    if not verify_ssl:
        import ssl

        warnings.warn(f"the certificate of {url} is not checked", stacklevel=4)
        context = ssl._create_unverified_context()
    part.flush()
    begin = os.path.getsize(part.name)
    asked: Any = url
    if begin:
        asked = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"})
    try:
        answer = urllib.request.urlopen(asked, timeout=20, context=context)
    except urllib.error.HTTPError as error:
        if not begin or error.code != 416:
            raise
        return  # there is nothing after what is here: the hash will tell whether it is the file
    with answer:
        if begin and getattr(answer, "status", None) != 206:
            part.truncate(0)
            begin = 0
        promised = answer.headers.get("Content-Length")
        with contextlib.suppress(http.client.IncompleteRead):  # what is missing shows below
            shutil.copyfileobj(answer, part, 1 << 20)
    part.flush()
    if promised is not None and os.path.getsize(part.name) < begin + int(promised):
        raise ConnectionError(f"it broke off after {os.path.getsize(part.name)} of {begin + int(promised)} bytes")
