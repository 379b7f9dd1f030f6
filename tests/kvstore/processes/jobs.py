"""Starting jobs for tests, and making sure that nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: Seconds after which a test gives a job up: for a machine that is busy with other things.
LONG = 300.0


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, **changes}


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def running(pid: int) -> bool:
    """Whether a process runs: not a zombie, which nobody may have waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Jobs:
    """The jobs of one test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self._workers: list[int] = []

    def start(self, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """A launcher with these arguments; its stdin is closed."""
        return self.start_python("-m", "mxjax.launch", *arguments, **variables)

    def start_python(self, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """A Python with these arguments; its stdin is closed."""
        return self.start_program(sys.executable, *arguments, **variables)

    def start_program(self, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """A program with its arguments; its stdin is closed."""
        process = subprocess.Popen(
            [*map(str, arguments)], cwd=ROOT, env=environment(**variables),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def run(self, *arguments: object, **variables: str) -> tuple[int, str]:
        """Its status and all output, once it has ended."""
        process = self.start(*arguments, **variables)
        output, _ = process.communicate(timeout=LONG)
        return process.returncode, output

    def workers(self, process: subprocess.Popen[str]) -> list[int]:
        """The processes that a launcher has started."""
        found = children_of(process.pid)
        self._workers += found
        return found

    def wait_until_gone(self, pids: list[int]) -> None:
        """Wait until none of these processes runs; fails after a long time."""
        end = time.monotonic() + LONG
        while any(map(running, pids)):
            assert time.monotonic() < end, "a process has stayed"
            time.sleep(0.05)

    def end(self) -> None:
        for process in self._started:
            workers = children_of(process.pid) if process.poll() is None else []
            left = [pid for pid in self._workers if running(pid)]
            for pid in {*workers, *left, process.pid}:
                try:
                    os.killpg(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
