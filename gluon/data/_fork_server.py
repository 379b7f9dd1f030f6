"""The fork server: a process that has imported what workers need, computes nothing, and forks them.

It ends with the process that started it, at the end of their connection; its workers watch it as others watch that
process. `_forked.py` is the other side.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from mxjax.settings import set_variable

#: What is told of a worker: its number, or why there is none (below 0), and at its end the exit code.
TOLD = struct.Struct("q")
#: What workers need sooner or later, so that it is imported once.
PRELOADED = ("mxjax.gluon.data._worker", "loky.process_executor", "cloudpickle")
#: The same of those that need mxjax.
HEAVY = ("mxjax.gluon.data.vision.transforms", "mxjax.image")
#: Where loky's data say by which descriptors its trackers of resources are reached.
TRACKERS = ("tracker_fd", "mp_tracker_fd")
#: Among loky's data: environment variables that have other values than in the server; None where they are gone.
CHANGED = "changed variables"
_MOST = 250  # descriptors that a message may carry
_LOOK = 1.0  # how often, in seconds, it looks whether its parent lives

_received: list[int] = []  # the descriptors that this worker was given


class Passed:
    """In a pickle, a descriptor that the parent passes to a worker."""

    def __init__(self, place: int) -> None:
        self.place = place

    def detach(self) -> int:
        return _received[self.place]


def serve(number: int, parent: int, modules: Iterable[str]) -> None:
    """Import `modules`, say how many threads there are over the connection `number`, and fork workers for it."""
    # The parent started this with Ctrl-C blocked: it is the parent's affair.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    for name in modules:
        importlib.import_module(name)
    connection = socket.socket(fileno=number)
    threads = len(os.listdir("/proc/self/task"))
    connection.send(bytes([min(threads, 255)]))
    if threads == 1:  # a fork leaves the others behind, with the locks that they hold
        gc.freeze()  # or the collector of each worker would make the pages its own
        _Server(connection, parent).run()


class _Server:
    def __init__(self, connection: socket.socket, parent: int) -> None:
        self.connection: socket.socket | None = connection
        self.parent = parent
        self.told: dict[int, int] = {}  # worker -> where its end is told
        self.woken, self.waker = os.pipe()
        for descriptor in (self.woken, self.waker):
            os.set_blocking(descriptor, False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        while os.getppid() == self.parent and (self.connection is not None or self.told):
            heard: list[Any] = [self.woken]
            if self.connection is not None:
                heard.append(self.connection)
            ready, _, _ = select.select(heard, [], [], _LOOK)
            if self.woken in ready:
                os.read(self.woken, 4096)
            self._tell_ends()
            if self.connection is not None and self.connection in ready:
                self._answer(self.connection)
        os._exit(0)

    def _tell_ends(self) -> None:
        for pid, where in list(self.told.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self.told[pid]
                _tell(where, os.waitstatus_to_exitcode(status))
                os.close(where)

    def _answer(self, connection: socket.socket) -> None:
        """Fork a worker: the message says which of stdout and stderr come first, then come job, status and the rest."""
        try:
            message, descriptors, _, _ = socket.recv_fds(connection, 16, _MOST)
        except ConnectionError:
            message, descriptors = b"", []
        if not message:
            connection.close()
            self.connection = None  # the workers that there are go on
            return
        standard, (job, told, *rest) = descriptors[: len(message)], descriptors[len(message) :]
        try:
            pid = os.fork()
        except OSError as error:
            _tell(told, -(error.errno or 1))
            os.close(told)
        else:
            if not pid:
                self._work(dict(zip(message, standard, strict=True)), job, told, rest)
            self.told[pid] = told
            _tell(told, pid)
        for descriptor in (*standard, job, *rest):
            os.close(descriptor)

    def _work(self, standard: dict[int, int], job: int, told: int, rest: list[int]) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if self.connection is not None:
                self.connection.close()
            for descriptor in (self.woken, self.waker, told, *self.told.values()):
                os.close(descriptor)
            for number, descriptor in standard.items():
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
            np.random.seed()  # or all workers would draw the same until a batch seeds it
            _received[:] = rest
            code = _run(job)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)


def _tell(where: int, what: int) -> None:
    try:
        os.write(where, TOLD.pack(what))
    except OSError:
        pass  # nobody listens any more


def _run(job: int) -> int:
    """What a process that loky starts does; its exit code."""
    from multiprocessing import process

    from loky.backend import spawn

    current: Any = process.current_process()
    with open(job, "rb") as pipe:
        current._inheriting = True
        try:
            data = pickle.load(pipe)
            data.update({name: _received[data[name]] for name in TRACKERS if name in data})
            for name, value in data.pop(CHANGED).items():
                set_variable(name, value)
            spawn.prepare(data)
            worker = pickle.load(pipe)
        finally:
            del current._inheriting
    return int(worker._bootstrap())
