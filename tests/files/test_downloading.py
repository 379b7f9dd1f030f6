"""Downloads over a network: broken off and continued, checked, and made once for everybody who waits."""

from __future__ import annotations

import hashlib
import http.client
import http.server
import sys
import threading
import types
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mxjax.errors import FormatError, MXNetError, MXNetOSError
from mxjax.files import downloading
from mxjax.gluon import utils

CONTENT = bytes(range(256)) * 400
SHA1, SHA256 = (hashlib.new(kind, CONTENT).hexdigest() for kind in ("sha1", "sha256"))


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; says what was asked, and breaks off, or knows no ranges, as the server's options say."""

    def do_GET(self):
        server = self.server
        begin = 0
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if asked and server.ranges:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(server.content):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        rest = server.content[begin:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if server.breaks:
            rest = rest[: server.breaks.pop(0)]
        self.wfile.write(rest)
        self.close_connection = True

    def log_message(self, *args):
        pass


class Response:
    """What requests.get answers, as far as a download reads it."""

    def __init__(self, answer, url, history=()):
        self.answer, self.url, self.history = answer, url, list(history)
        self.status_code, self.headers, self.reason = answer.status, answer.headers, "reason"
        self.closed = False

    def iter_content(self, size):
        try:
            while block := self.answer.read(size):
                yield block
        except http.client.IncompleteRead as error:
            yield error.partial
            raise ConnectionResetError("it broke off") from None

    def close(self):
        self.closed = True
        self.answer.close()


class Requests:
    """Stands for the library: it follows redirections and raises for no status."""

    def __init__(self):
        self.responses, self.given = [], []

    def get(self, url, **given):
        self.given.append(given)
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url, headers=given["headers"]))
        except urllib.error.HTTPError as error:
            answer = error
        self.responses.append(Response(answer, answer.url))
        return self.responses[-1]


@pytest.fixture(params=["urllib", "requests"])
def library(request, monkeypatch):
    """Which library a program has: without requests it is urllib."""
    made = Requests() if request.param == "requests" else None
    monkeypatch.setitem(sys.modules, "requests", made)
    yield made
    if made is not None:
        assert all(response.closed for response in made.responses)
        assert all(given["stream"] and given["verify"] and given["timeout"] for given in made.given)


@pytest.fixture
def server(library):
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.ranges, made.breaks, made.content = [], True, [], CONTENT
    made.url = f"http://127.0.0.1:{made.server_port}/data.bin"
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_transfer_that_breaks_off_goes_on(server, tmp_path):
    server.breaks = [30_000, 20_000]
    target = tmp_path / "data.bin"
    assert utils.download(server.url, path=str(target)) == str(target)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=30000-", "bytes=50000-"]
    assert names(tmp_path) == ["data.bin"]


def test_a_later_call_goes_on_where_there_is_a_hash(server, tmp_path):
    target = tmp_path / "data.bin"
    for sha1, kept in ((None, []), (SHA1, ["data.bin.part"])):
        server.breaks = [1000]
        with pytest.raises(MXNetOSError, match="broke off after 1000 of 102400 bytes"):
            utils.download(server.url, path=str(target), sha1_hash=sha1, retries=0)
        assert names(tmp_path) == kept
    utils.download(server.url, path=str(target), sha1_hash=SHA256)
    assert server.asked[-1] == "bytes=1000-" and target.read_bytes() == CONTENT


def test_a_server_without_ranges_gives_it_anew(server, tmp_path):
    server.ranges, server.breaks = False, [1000]
    target = tmp_path / "data.bin"
    utils.download(server.url, path=str(target))
    assert target.read_bytes() == CONTENT and server.asked == [None, "bytes=1000-"]


@pytest.mark.parametrize("left", [b"of another file", CONTENT, CONTENT + b"more"])
def test_what_an_earlier_call_left_is_checked(server, tmp_path, left):
    (tmp_path / "data.bin.part").write_bytes(left)
    utils.download(server.url, path=str(tmp_path / "data.bin"), sha1_hash=SHA1)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and names(tmp_path) == ["data.bin"]


def test_another_file_than_was_promised(server, tmp_path):
    for wrong, kind in ((SHA1[::-1], "SHA-1"), (SHA256[::-1], "SHA-256")):
        with pytest.raises(MXNetError, match=f"its {kind} is not {wrong}"):
            utils.download(server.url, path=str(tmp_path / "data.bin"), sha1_hash=wrong)
        assert names(tmp_path) == []


def test_who_waits_for_the_same_file_finds_it(server, tmp_path):
    server.breaks = [500, 500]
    target = str(tmp_path / "data.bin")
    with ThreadPoolExecutor(
        8
    ) as pool:  # a lock is of an open file, so threads exclude each other like processes
        found = list(
            pool.map(lambda _: utils.download(server.url, path=target, sha1_hash=SHA1), range(8))
        )
    assert found == [target] * 8 and server.asked == [None, "bytes=500-", "bytes=1000-"]
    assert names(tmp_path) == ["data.bin"] and (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "to", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "gopher://x", "jar:file:///x"]
)
def test_no_redirection_leads_to_files_of_this_machine(server, tmp_path, monkeypatch, to):
    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.end_headers()

    monkeypatch.setattr(Handler, "do_GET", redirect)
    with pytest.raises(MXNetOSError, match="cannot download"):
        utils.download(server.url, path=str(tmp_path / "data.bin"), retries=0)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("begin", "to", "follows"),
    [
        ("https://a/x", "http://a/x", False), ("https://a/x", "HTTP://a/x", False),
        ("https://a/x", "https://b/x", True), ("http://a/x", "https://a/x", True),
        ("http://a/x", "http://b/x", True), ("http://a/x", "ftp://a/x", False),
    ],
)  # fmt: skip
def test_redirections_keep_the_protection_of_https(begin, to, follows):
    handler = downloading._Redirections()
    asked = urllib.request.Request(begin)
    if follows:
        assert handler.redirect_request(asked, None, 302, "Found", {}, to).full_url == to
    else:
        with pytest.raises(ValueError, match="it leads to .*, which is not https"):
            handler.redirect_request(asked, None, 302, "Found", {}, to)

    answer = types.SimpleNamespace(
        status=200, headers={}, read=lambda size: b"", close=lambda: None
    )
    response = Response(answer, to, [Response(answer, begin)])
    requests = types.SimpleNamespace(get=lambda url, **given: response)
    if follows:
        assert downloading._by_requests(requests, begin, {}, True).status == 200
    else:
        with pytest.raises(ValueError, match="it leads to .*, which is not https"):
            downloading._by_requests(requests, begin, {}, True)
    assert response.closed != follows


def test_what_a_server_refuses_is_asked_once(server, library, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Handler, "do_GET", lambda self: (self.server.asked.append(None), self.send_error(404))
    )
    with pytest.raises(MXNetOSError, match="cannot download .* Without a network"):
        utils.download(server.url, path=str(tmp_path / "data.bin"))
    assert server.asked == [None] and names(tmp_path) == []


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/x", "data:text/plain,x", "/etc/hostname", "x", "javascript:x"]
)
def test_other_kinds_of_urls_are_refused(tmp_path, url):
    with pytest.raises(MXNetOSError, match="http, https, file is expected"):
        utils.download(url, path=str(tmp_path / "data.bin"))
    assert names(tmp_path) == []


@pytest.mark.parametrize("promised", [True, False])
def test_a_file_has_a_largest_size(server, tmp_path, monkeypatch, promised):
    target = str(tmp_path / "data.bin")
    if not promised:
        send = Handler.send_header
        monkeypatch.setattr(
            Handler,
            "send_header",
            lambda self, name, value: name == "Content-Length" or send(self, name, value),
        )
    with pytest.raises(FormatError, match="more than the 102399 bytes"):
        downloading.fetch(server.url, target, most=len(CONTENT) - 1)
    assert names(tmp_path) == []
    assert downloading.fetch(server.url, target, most=len(CONTENT)) == target


def test_a_file_is_moved_to_its_place_after_it_was_read(server, tmp_path):
    target = tmp_path / "data.bin"
    target.write_bytes(b"old")

    def read(path):
        assert target.read_bytes() == b"old" and Path(path).read_bytes() == CONTENT
        raise FormatError("not what it should be")

    for sha1 in (None, SHA1):
        with pytest.raises(FormatError, match="should be"):
            downloading.fetch(server.url, str(target), overwrite=True, sha1_hash=sha1, read=read)
        assert names(tmp_path) == ["data.bin"] and target.read_bytes() == b"old"


def test_a_link_beside_the_target_is_not_written_through(server, tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "data.bin.part").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError):
        utils.download(server.url, path=str(tmp_path / "data.bin"))
    assert (tmp_path / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "end", ["", "..", ".", "a\\b", "C:x", "nul", "x.", "x" * 256, "a\0b", "a\nb"]
)
def test_names_that_a_url_may_not_end_in(tmp_path, monkeypatch, end):
    monkeypatch.chdir(tmp_path)
    for path in (None, str(tmp_path)):
        with pytest.raises(ValueError, match="no file name can be taken from"):
            utils.download(f"file:///nowhere/{end}", path=path)


@pytest.mark.parametrize(
    "parts",
    [
        ("..",),
        ("a", "..", "b"),
        ("/etc", "x"),
        ("a/b",),
        ("",),
        (".",),
        ("link", "x"),
        ("a", "link out"),
    ],
)
def test_places_are_within_their_folder(tmp_path, parts):
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    (root / "a" / "link out").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="not the name of a file|by a link"):
        downloading.place_within(str(root), *parts)
    assert downloading.place_within(str(root), "a", "b.c") == str(root / "a" / "b.c")
