"""Files fetched from the network: written beside their place, checked, then moved there at once.

A transfer that broke off goes on where there is a hash to check it by. One process at a time
fetches a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from mxjax.errors import FormatError, MXNetError, MXNetOSError, MXNetValueError

__all__ = [
    "check_sha1",
    "copy_at_most",
    "download",
    "fetch",
    "is_plain_name",
    "name_in",
    "place_within",
    "replace_file",
]

_SCHEMES = ("http", "https", "file")
_LONGEST_NAME = 255
# Of every system: separators, characters that control, a drive's letter, devices of Windows,
# endings that it drops.
_SPECIAL = re.compile(
    r"[/\\\x00-\x1f\x7f]|^[A-Za-z]:|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|[. ]$",
    re.IGNORECASE | re.ASCII,
)


def is_plain_name(name: str) -> bool:
    """Whether a name is that of one file in one folder, on every system.

    >>> [is_plain_name(name) for name in ("net.params", "../net.params", "C:net", "nul.txt")]
    [True, False, False, False]
    """
    try:
        return bool(name) and len(name.encode()) <= _LONGEST_NAME and not _SPECIAL.search(name)
    except UnicodeEncodeError:  # half of a character
        return False


def place_within(folder: str, *parts: str) -> str:
    """The path of a file within a folder, by names that a stranger gave.

    Raises:
      MXNetValueError: a part is not a plain name, differs from what is there only in case, or the
        path leads out of the folder by a link.
    """
    path = folder
    for part in parts:
        if not is_plain_name(part):
            raise MXNetValueError(
                f"{part[:_LONGEST_NAME]!r} is not the name of a file or folder within {folder}: "
                "plain names are expected, without separators, '..' and drives"
            )
        if os.path.lexists(os.path.join(path, part)) and part not in os.listdir(path):
            raise MXNetValueError(
                f"{os.path.join(path, part)} is there under a name that differs in case, which "
                "this system takes for the same: it is something else"
            )
        path = os.path.join(path, part)
    real = os.path.realpath(folder)
    if os.path.commonpath((real, os.path.realpath(path))) != real:
        raise MXNetValueError(f"{path} leads out of {folder} by a link")
    return path


def name_in(url: str) -> str:
    """The name of a URL's file, as MXNet takes it: what is after the last slash.

    Raises:
      MXNetValueError: that is not the name of a file.
    """
    name = url.split("/")[-1]
    if not is_plain_name(name):
        raise MXNetValueError(f"no file name can be taken from {url!r}: give path=")
    return name


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether a file has this SHA-1 hash, or SHA-256 hash (64 digits), given in hexadecimal.

    Args:
      filename: the path of the file.
      sha1_hash: the digest that is expected.

    Returns:
      bool: whether the file has this digest.
    """
    digest = hashlib.sha256 if len(sha1_hash) == 64 else hashlib.sha1
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, digest).hexdigest() == sha1_hash.lower()


def replace_file(src: str, dst: str) -> None:
    """Move a file over another in one step.

    Args:
      src: the file that takes the other's place.
      dst: the path under which it lies then.

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

    What was fetched lies beside the file, as `<file>.part`, until it is whole: where the transfer
    breaks off it goes on from there, in a later call too if there is a hash to check it by; without
    one, nothing is left of what failed. Processes that want the same file wait for the one that
    fetches it. A redirection leads to http or https alone, and from https to https alone.

    Args:
      url: what to fetch.
      path: the file or an existing folder; the current folder if None.
      overwrite: fetch even if the file is there.
      sha1_hash: the file's SHA-1 (or, of 64 digits, SHA-256); a file that has another one is
        fetched again.
      retries: how often a failing transfer is tried once more.
      verify_ssl: False does not check the server's certificate, with a warning.

    Returns:
      The file's path.

    Raises:
      MXNetOSError: it could not be fetched; the message says what to do without a network.
      MXNetError: what came has another hash.
      MXNetValueError: no file name can be taken from the URL.
    """
    target = os.path.expanduser(path) if path else name_in(url if path is None else "")
    if os.path.isdir(target):
        target = os.path.join(target, name_in(url))
    return fetch(
        url,
        target,
        overwrite=overwrite,
        sha1_hash=sha1_hash,
        retries=retries,
        verify_ssl=verify_ssl,
    )


def fetch(
    url: str,
    target: str,
    *,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
    most: int | None = None,
    read: Callable[[str], Any] | None = None,
) -> str:
    """`download` into a file, with two more checks of what a stranger sends.

    Args:
      most: how many bytes the file may have.
      read: reads the file, and raises where it is not what it should be: it is moved to its place
        after that.

    Raises:
      FormatError: it has more bytes than `most`.
    """
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
        try:
            _fetched(url, part, target, sha1_hash, retries, verify_ssl, most)
            if read is not None:
                read(part.name)
        except BaseException as error:
            if sha1_hash is None or not isinstance(error, MXNetOSError | KeyboardInterrupt):
                part.truncate(0)  # nothing could tell whether it belongs to the same file
            raise
        replace_file(part.name, target)
    return target


@contextlib.contextmanager
def _turn(path: str) -> Iterator[BinaryIO]:
    """A file that is written by one process at a time; it stays only if something is in it."""
    while True:
        file = open(path, "ab", opener=_no_link)
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


def _no_link(path: str, flags: int) -> int:
    """A file itself, not what a link of this name leads to: somebody else may have put it there."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _fetched(
    url: str,
    part: BinaryIO,
    target: str,
    sha1_hash: str | None,
    retries: int,
    verify_ssl: bool,
    most: int | None,
) -> None:
    """Fill `part` with the file, or with more of it where it broke off."""
    if sha1_hash is None:
        part.truncate(0)
    old = os.path.getsize(part.name)
    while True:
        _tried(url, part, target, retries, verify_ssl, most)
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


def _tried(
    url: str, part: BinaryIO, target: str, retries: int, verify_ssl: bool, most: int | None
) -> None:
    for attempt in range(retries + 1):
        try:
            return _transfer(url, part, verify_ssl, most)
        except FormatError:
            raise
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


def _check_redirection(here: str, there: str) -> None:
    kind = _scheme(there)
    if kind != "https" and (kind != "http" or _scheme(here) == "https"):
        raise ValueError(f"it leads to {there[:_LONGEST_NAME]}, which is not https")


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follows to http and https, and from https to https alone."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        try:
            _check_redirection(req.full_url, newurl)
        except ValueError:
            if fp is not None:
                fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


class _Answer(contextlib.closing[Any]):
    """What requests.get gave, as urllib's answers are read."""

    def __init__(self, response: Any):
        super().__init__(response)
        self.status, self.headers = response.status_code, response.headers
        self._blocks = response.iter_content(1 << 16)  # what breaks off is lost by blocks

    def __enter__(self) -> _Answer:
        return self

    def read(self, size: int) -> bytes:
        """The next bytes; they may be more than that many."""
        return next(self._blocks, b"")


def _by_requests(requests: Any, url: str, headers: dict[str, str], verify_ssl: bool) -> _Answer:
    """MXNet's way, where the program imports requests: with its proxies, certificates and stand-ins of tests."""
    headers = {"Accept-Encoding": "identity", **headers}  # as many bytes as the file has
    response = requests.get(url, stream=True, verify=verify_ssl, headers=headers, timeout=20)
    try:
        here = url
        for there in [*response.history[1:], response] if response.history else ():
            _check_redirection(here, there.url)
            here = there.url
        if response.status_code >= 300:
            reason = response.reason or "refused"
            raise urllib.error.HTTPError(url, response.status_code, reason, response.headers, None)
    except BaseException:
        response.close()
        raise
    return _Answer(response)


def copy_at_most(
    source: Any, target: Any, most: int | None, where: str, seen: Callable[[bytes], Any] = len
) -> None:
    """Copy a stream to its end.

    Args:
      most: how many bytes it may have; None: any number.
      where: what it is, for people.
      seen: called with each block.

    Raises:
      FormatError: it has more.
    """
    left = most
    while block := source.read(1 << 20 if left is None else min(1 << 20, left + 1)):
        if left is not None:
            left -= len(block)
            if left < 0:
                raise FormatError(f"{where} has more than the {most} bytes that it may have here")
        seen(block)
        target.write(block)


def _transfer(url: str, part: BinaryIO, verify_ssl: bool, most: int | None) -> None:
    """Append to `part` what it lacks of the file; from the beginning where the server gives only all of it."""
    if _scheme(url) not in _SCHEMES:
        raise ValueError(f"a URL of {', '.join(_SCHEMES)} is expected")
    context = None
    if not verify_ssl:
        import ssl

        warnings.warn(f"the certificate of {url} is not checked", stacklevel=4)
        context = ssl._create_unverified_context()
    part.flush()
    begin = os.path.getsize(part.name)
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    requests = sys.modules.get("requests")
    try:
        if requests is not None and _scheme(url) != "file":
            answer = _by_requests(requests, url, headers, verify_ssl)
        else:
            opener = urllib.request.build_opener(
                _Redirections, urllib.request.HTTPSHandler(context=context)
            )
            answer = opener.open(urllib.request.Request(url, headers=headers), timeout=20)
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
            copy_at_most(answer, part, None if most is None else most - begin, url)
    part.flush()
    if promised is not None and os.path.getsize(part.name) < begin + int(promised):
        raise ConnectionError(
            f"it broke off after {os.path.getsize(part.name)} of {begin + int(promised)} bytes"
        )
