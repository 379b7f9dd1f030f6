"""Downloads over a network: broken off and continued, checked, and made once for everybody who waits."""

from __future__ import annotations

import hashlib
import http.server
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mxjax.errors import MXNetError, MXNetOSError
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


@pytest.fixture
def server():
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
    with ThreadPoolExecutor(8) as pool:  # a lock is of an open file, so threads exclude each other like processes
        found = list(pool.map(lambda _: utils.download(server.url, path=target, sha1_hash=SHA1), range(8)))
    assert found == [target] * 8 and server.asked == [None, "bytes=500-", "bytes=1000-"]
    assert names(tmp_path) == ["data.bin"] and (tmp_path / "data.bin").read_bytes() == CONTENT
