"""Worker processes that are forked from a fork server (`_fork_server.py`), which has imported what all of them need.

They are loky's in all but how they begin: its executor takes them from `context()`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from io import BytesIO
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import set_spawning_popen
from typing import Any

from loky.backend import popen_loky_posix, reduction, resource_tracker, spawn
from loky.backend.context import LokyContext
from loky.backend.process import LokyProcess

from mxjax.compat import modules
from mxjax.settings import child_environment

from ._fork_server import CHANGED, HEAVY, PRELOADED, TOLD, TRACKERS, Passed

_PATIENCE = 120.0  # seconds until a server that says nothing is given up
#: Variables that Python, mxjax and the libraries below it may have read when they were imported begin so.
_READ = (
    "ABSL", "GLIBC", "GOTO", "JAX", "KMP", "LD", "LOKY", "MALLOC", "MGE", "MKL", "MXJAX", "MXNET", "NUMPY", "NPY",
    "OMP", "OPENBLAS", "OPENCV", "PJRT", "PYTHON", "TF", "XLA",
)  # fmt: skip


class ServerGone(OSError):
    """The fork server has ended, or is not fit to fork."""


class _Server:
    """This process's end of a fork server."""

    def __init__(self, environment: Mapping[str, str], heavy: bool) -> None:
        self.environment = environment
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = [name or os.getcwd() for name in sys.path if isinstance(name, str)]
        names = (*(["mxnet"] if modules.stands_in() else []), *PRELOADED, *(HEAVY if heavy else ()))
        boot = os.path.join(os.path.dirname(__file__), "_worker_boot.py")
        light = (
            "" if heavy else f"import runpy; runpy.run_path({boot!r}, None, '__mxjax_worker__')\n"
        )
        code = (
            f"import sys; sys.path[:] = {path!r}\n{light}from {Passed.__module__} import serve\n"
            f"serve({there.fileno()}, {os.getpid()}, {names!r})"
        )
        # Ctrl-C reaches it, too, and must not end it before it has said that it does not listen.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with there:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", code], env=dict(environment), pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
        except BaseException:
            here.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self.connection = here

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self) -> None:
        self.connection.settimeout(_PATIENCE)
        try:
            threads = self.connection.recv(1)
        except OSError as error:
            raise ServerGone(f"the fork server does not answer: {error}") from error
        if threads != b"\1":
            raise ServerGone(f"the fork server has {threads!r} threads")

    def send(self, descriptors: list[int]) -> None:
        """Have a worker forked that holds copies of `descriptors`, and of this process's stdout and stderr."""
        standard = [number for number in (1, 2) if _is_open(number)]
        try:
            socket.send_fds(self.connection, [bytes(standard)], [*standard, *descriptors])
        except OSError as error:
            raise ServerGone(f"the fork server does not listen: {error}") from error

    def end(self) -> None:
        """Let it end, which it does as soon as its workers have ended."""
        self.connection.close()

    def end_now(self) -> None:
        self.end()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class _Known:
    """The fork server of this process for workers that need mxjax (`heavy`), or for the others."""

    def __init__(self, heavy: bool) -> None:
        self.heavy = heavy
        self.lock = threading.Lock()
        self.server: _Server | None = None
        self.retired: list[_Server] = []  # they end when their workers do, and somebody must see it
        self.unfit: list[Mapping[str, str]] = []

    def get(self, environment: Mapping[str, str]) -> _Server | None:
        """The server for workers with these variables, started now if need be; None where it is not fit."""
        with self.lock:
            self.retired = [server for server in self.retired if server.alive()]
            if self.server is not None:
                if self.server.alive() and _alike(self.server.environment, environment):
                    return self.server
                self._retire(self.server)
            if any(_alike(other, environment) for other in self.unfit):
                return None
            server = self.server = _Server(environment, self.heavy)
            try:
                server.wait_until_ready()
            except BaseException as error:
                self._retire(server)
                if not isinstance(error, ServerGone):
                    raise
                self.unfit.append(environment)
                return None
            return server

    def _retire(self, server: _Server) -> None:
        self.server = None
        server.end()
        self.retired.append(server)

    def end(self) -> None:
        with self.lock:
            if self.server is not None:
                self._retire(self.server)
            for server in self.retired:
                server.end_now()
            self.retired = []

    def forget(self) -> None:
        """In a process that was forked from this one: the servers are its parent's."""
        for server in (*([] if self.server is None else [self.server]), *self.retired):
            server.connection.close()
            server.process.returncode = 0  # or Python would wait for it, whose child it is not
        self.__init__(self.heavy)  # type: ignore[misc]


_known = {heavy: _Known(heavy) for heavy in (False, True)}
for _each in _known.values():
    os.register_at_fork(after_in_child=_each.forget)


def end_server() -> None:
    """End the fork servers of this process: its workers have ended."""
    for known in _known.values():
        known.end()


def context(variables: Mapping[str, str], heavy: bool) -> _Context | None:
    """What loky's executor makes its processes with, which have these variables besides ours; None: nothing may."""
    environment = child_environment(**variables)
    server = _known[heavy].get(environment)
    return None if server is None else _Context(server, environment)


def _alike(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether what was imported with these environments is the same."""
    return not any(name.startswith(_READ) for name in _changed(one, other))


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    return {
        name: after.get(name)
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


class _Context(LokyContext):  # type: ignore[misc]
    def __init__(self, server: _Server, environment: Mapping[str, str]) -> None:
        self.server = server
        self.changed = _changed(server.environment, environment)

    def Process(self, *arguments: Any, **given: Any) -> _Process:  # type: ignore[override]  # noqa: N802
        started = _Process(*arguments, **given)
        started.context = self
        return started


class _Process(LokyProcess):  # type: ignore[misc]
    context: Any  # until it is started

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:  # noqa: N802
        return _Popen(process_obj)


class _Popen(popen_loky_posix.Popen):  # type: ignore[misc]
    """A worker that was forked: its end is told by the server."""

    DupFd = Passed
    returncode: int | None

    def duplicate_for_child(self, descriptor: int) -> int:
        self._fds.append(descriptor)
        return len(self._fds) - 1

    def _launch(self, process_obj: Any) -> None:
        how: _Context = vars(process_obj).pop("context")
        self._reading = threading.Lock()
        tracker = resource_tracker._resource_tracker.getfd()
        assert tracker is not None
        text = BytesIO()
        set_spawning_popen(self)
        try:
            data = spawn.get_preparation_data(process_obj._name, False)
            for name in TRACKERS:
                if name in data:
                    data[name] = self.duplicate_for_child(data[name])
            data[CHANGED] = how.changed
            reduction.dump(data, text)
            reduction.dump(process_obj, text)
        finally:
            set_spawning_popen(None)
        job, write = os.pipe()
        self.sentinel, told = os.pipe()
        self.finalizer = util.Finalize(self, os.close, (self.sentinel,))
        try:
            how.server.send([job, told, *self._fds])
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(job)
            os.close(told)
        with open(write, "wb") as pipe:
            self.pid = self._heard()
            if self.pid is None or self.pid < 0:
                why = "it has ended" if self.pid is None else os.strerror(-self.pid)
                raise ServerGone(f"the fork server forked no worker: {why}")
            pipe.write(text.getbuffer())

    def _heard(self) -> int | None:
        """What the server tells; None where it has ended, and so have its workers."""
        answer = os.read(self.sentinel, TOLD.size)
        return TOLD.unpack(answer)[0] if answer else None

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None and wait([self.sentinel], 0 if flag == os.WNOHANG else None):
            with self._reading:  # of two threads one hears it
                if self.returncode is None:
                    code = self._heard()
                    self.returncode = 255 if code is None else code
        return self.returncode
