"""The profiler's state: configured, running, paused, stopped; one for the process."""

from __future__ import annotations

import atexit
import contextlib
import operator
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from mxjax import core, settings
from mxjax.errors import MXNetError, MXNetKeyError, MXNetValueError, did_you_mean

from . import _chrome
from ._aggregate import Aggregate
from ._recorder import Mark, Recorder, Span
from ._recording import GROUPINGS, Recording, Wanted
from ._session import XlaSession, session_folder, users_frame
from ._steps import steps
from ._xplane import enrich

_PROCESSES = ("worker", "server")

# Option: (kind, default), as MXNet's profiler has them; `log_dir` is mxjax's own.
OPTIONS: dict[str, tuple[type, Any]] = {
    "filename": (str, "profile.json"),
    "gpu_memory_profile_filename_prefix": (str, ""),
    "profile_all": (bool, False),
    "profile_symbolic": (bool, True),
    "profile_imperative": (bool, True),
    "profile_memory": (bool, True),
    "profile_api": (bool, True),
    "continuous_dump": (bool, True),
    "dump_period": (float, 1.0),
    "aggregate_stats": (bool, False),
    "profile_process": (str, "worker"),
    "log_dir": (str, ""),
    "timing": (str, "device"),
    "rotate_events": (int, 2_000_000),
    "rotate_files": (int, 8),
}
# What ProfilingConfig's switches leave out when they are off.
_LEFT_OUT = {"training_trace": "step", "hccl": "collective", "aicpu": "Custom Operator"}
TIMINGS = ("device", "dispatch", "sync")
# The bits of the setting profiler.events.
_KINDS = ("profile_symbolic", "profile_imperative", "profile_api", "profile_memory")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _path(value: Any) -> str:
    path = os.fspath(value)
    return os.fsdecode(path)


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return int(value) if isinstance(value, str) else operator.index(value)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if seconds > threading.TIMEOUT_MAX or isinstance(value, bool):
        raise ValueError
    return seconds


# How the values of each kind are read; names of files are the only texts that may be paths.
_READ: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: _TRUTH[str(value).lower()],
    str: _path,
    float: _seconds,
    int: _whole,
}
_EXPECTED = {
    bool: "True or False",
    str: "a text",
    float: "a number of seconds",
    int: "a whole number",
}


def parse_options(given: dict[str, Any]) -> dict[str, Any]:
    """Check and convert the arguments of `set_config`; those not given have their defaults.

    Raises:
      MXNetError: an unknown option, or a value of the wrong kind.
    """
    options = {name: default for name, (_, default) in OPTIONS.items()}
    events = settings.get("profiler.events")
    options |= {name: bool(events >> bit & 1) for bit, name in enumerate(_KINDS)}
    for name, value in given.items():
        if name not in OPTIONS:
            raise MXNetError(
                f"profiler.set_config got an unknown option {name!r}{did_you_mean(name, OPTIONS)}; "
                f"the options are {', '.join(OPTIONS)}"
            )
        kind = OPTIONS[name][0]
        try:
            options[name] = _READ[kind](value)
        except (KeyError, OverflowError, TypeError, ValueError):
            raise MXNetValueError(
                f"profiler.set_config expects {_EXPECTED[kind]} for {name}, got {value!r}"
            ) from None
    if options["profile_process"] not in _PROCESSES:
        raise MXNetValueError(
            f"profile_process is 'worker' or 'server', got {options['profile_process']!r}"
        )
    if options["timing"] not in TIMINGS:
        raise MXNetValueError(
            f"timing is one of {', '.join(map(repr, TIMINGS))}, got {options['timing']!r}"
        )
    if not options["filename"]:
        raise MXNetValueError(
            "filename is where the trace is written, got ''; leave it out for 'profile.json'"
        )
    if not (
        options["dump_period"] > 0 or not options["continuous_dump"] and options["dump_period"] == 0
    ):
        raise MXNetValueError(
            f"dump_period is a number of seconds above 0, got {options['dump_period']}"
        )
    for name in ("rotate_events", "rotate_files"):
        if options[name] < 1:
            raise MXNetValueError(f"{name} is a number from 1 on, got {options[name]}")
    return options


class Profiler:
    """Everything behind the functions of `mxjax.profiler`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.options = parse_options({})
        self.kvstore: Any = None
        # What the settings said when the recording began.
        self._ascend: Mapping[str, Any] = {}
        self._only_waits = False
        self.recorder: Recorder | None = None  # while running and not paused: where to record
        self._current: Recorder | None = None  # while running
        self._session: XlaSession | None = None
        self._deferred = False
        self._paused = False
        self._pauses: list[tuple[int, int]] = []
        self._pause_began = 0
        self._output = False
        self._began_in = 0  # the process
        self._dirty = False
        self._recordings: list[Recording] = []
        self._dumped: list[Recording] = []  # finished, but the file holds them on
        self._uncounted: list[Recording] = []
        self._aggregates = {grouping: Aggregate() for grouping in GROUPINGS}
        self._rotated: list[str] = []
        self._chunks = 0
        self._writer: _Writer | None = None
        self._at_exit = False

    # ---- what the public functions call

    @property
    def running(self) -> bool:
        return self._current is not None

    def configure(self, given: dict[str, Any]) -> None:
        options = parse_options(given)
        with self._lock:
            self.options = options

    def check_process(self, process: str) -> None:
        """Refuse to profile a server where there is none."""
        if process not in _PROCESSES:
            # MXNet looks the name up in a dict; code that catches its error catches this one.
            raise MXNetKeyError(f"profile_process is 'worker' or 'server', got {process!r}")
        if process == "server" and self.kvstore is None:
            raise MXNetError(
                "profile_process='server' profiles the servers of a distributed kvstore, and none "
                "is known here: pass it to profiler.set_kvstore_handle first"
            )

    def run(self, *, defer: bool = False) -> None:
        with self._lock:
            self.resume()  # as in MXNet, which forgets a pause at the next run
            if not defer:
                self._check_filename()
            self._output = True
            if self.running:
                return
            self._began_in = os.getpid()
            if not defer:
                _run_what_waits()
            self._begin(defer)
            if not self._at_exit:
                self._at_exit = True
                atexit.register(self._finish)
            if self.options["continuous_dump"] and self.options["dump_period"] > 0:
                self._writer = _Writer(self)
                self._writer.start()

    def _check_filename(self) -> None:
        """Refuse a file that cannot be written before anything is recorded for it."""
        path = os.path.abspath(self.filename)
        folder = os.path.dirname(path)
        try:
            os.makedirs(folder, exist_ok=True)
            if os.path.isdir(path):
                raise IsADirectoryError(f"{path!r} is a folder")
            if not os.access(folder, os.W_OK):
                raise PermissionError(f"no right to write into {folder!r}")
        except OSError as error:
            raise MXNetError(
                f"profiler.set_state('run') cannot write the trace {self.filename!r}: {error}. Name another "
                "with profiler.set_config(filename=...)."
            ) from None

    def stop(self) -> None:
        with self._lock:
            if not self.running:
                return
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.stop()
            _run_what_waits()
            self._end()
            if self.options["continuous_dump"] and self._output:
                self.write()

    def pause(self) -> None:
        with self._lock:
            if self._paused:
                return
            _run_what_waits()
            self._paused = True
            self._pause_began = time.time_ns()
            self._detach()

    def resume(self) -> None:
        with self._lock:
            if not self._paused:
                return
            _run_what_waits()
            self._paused = False
            self._pauses.append((self._pause_began, time.time_ns()))
            if self._current is not None:
                self._attach(self._current)

    def dump(self, finished: bool) -> None:
        with self._lock:
            if not self._output:
                raise MXNetError(
                    "profiler.dump has nothing to write: the profiler has not run since the start, "
                    "or since the last dump(finished=True). Call profiler.set_config(...) and "
                    "profiler.set_state('run') first."
                )
            self._rotate_if_running()
            self.write()
            self._write_storage()
            if finished:
                self._count()
                if self.options["continuous_dump"]:
                    self._dumped += self._recordings
                self._recordings.clear()
                self._output = False
                if sum(r.recorder.size for r in self._dumped) >= self.options["rotate_events"]:
                    self._put_aside()

    def dumps(
        self, reset: bool, as_json: bool, sort_by: str, ascending: bool, group_by: str
    ) -> str:
        with self._lock:
            if (
                self._output
            ):  # as in MXNet, what comes after the last dump is counted at the next run
                self._rotate_if_running()
                if self.options["aggregate_stats"]:
                    self._count()
                if reset:
                    self._uncounted.clear()
            text = ""
            if self.options["aggregate_stats"]:
                table = self._aggregates[group_by]
                text = (table.json if as_json else table.table)(sort_by, ascending)
            if reset:
                for aggregate in self._aggregates.values():
                    aggregate.clear()
            return text

    def recordings(self) -> list[Recording]:
        """Everything recorded and not yet dumped as finished, up to now."""
        with self._lock:
            self._rotate_if_running()
            return list(self._recordings)

    def attribution(self) -> dict[str, float]:
        """Shares of the device time of everything recorded, by how well its operator is known."""
        return shares_of(self.recordings())

    # ---- beginning and ending a recording

    def _begin(self, defer: bool = False) -> None:
        self._pauses = []
        config = settings.get("profiler.config")
        self._ascend = config.get("profiling_options", {}) if config.get("enable_profiling") else {}
        self._only_waits = settings.get("profiler.only_wait")
        if self._paused:
            self._pause_began = time.time_ns()
        timing = self.options["timing"]
        recorder = Recorder(sample_memory=self._wanted().memory, synchronised=timing == "sync")
        self._current = recorder
        # Where the host's times are asked for, XLA's profiler would only add to them.
        self._session = (
            XlaSession(self._log_dir(), self._ascend.get("task_trace", 1))
            if timing == "device"
            else None
        )
        self._deferred = defer
        if not defer:
            self._start_session()
        if not self._paused:
            self._attach(recorder)
        if defer:
            _FirstUse(self).watch()

    def _start_session(self) -> None:
        with self._lock:
            self._deferred = False
            if self._session is not None:
                self._session.start()

    def _log_dir(self) -> str:
        given = self.options["log_dir"]
        return given or os.path.splitext(os.path.abspath(self.options["filename"]))[0] + "_xplane"

    def _attach(self, recorder: Recorder) -> None:
        if self.recorder is None:
            self.recorder = recorder
            recorder.begin()
            core.observe(recorder)
            if recorder.sample_memory and not self._deferred:
                recorder.memory()

    def _detach(self) -> None:
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            core.unobserve(recorder)
            recorder.end()

    def _end(self) -> None:
        recorder, session = self._current, self._session
        assert recorder is not None
        if self.recorder is not None and recorder.sample_memory and not self._deferred:
            recorder.memory()
        self._detach()
        self._current = self._session = None
        pauses = list(self._pauses)
        if self._paused:
            pauses.append((self._pause_began, time.time_ns()))
        xplane = session.stop() if session is not None else None
        recording = Recording(recorder, self._wanted(), xplane, pauses)
        self._recordings.append(recording)
        if self.options["aggregate_stats"]:
            self._uncounted.append(recording)
        self._dirty = True

    def _rotate_if_running(self) -> None:
        if self.running:
            _run_what_waits()
            self._rotate()

    def _rotate(self) -> None:
        """End the recording and begin the next, so that what the device did so far can be read."""
        self._end()
        self._begin()

    def _wanted(self) -> Wanted:
        o = self.options
        every = o["profile_all"]
        return Wanted(
            symbolic=every or o["profile_symbolic"],
            imperative=every or o["profile_imperative"],
            memory=every or o["profile_memory"],
            api=every or o["profile_api"],
            only_waits=self._only_waits,
            without=frozenset(
                _LEFT_OUT[name] for name, on in self._ascend.items() if name in _LEFT_OUT and not on
            ),
        )

    def _count(self) -> None:
        for recording in self._uncounted:
            recording.add_to(self._aggregates)
        self._uncounted.clear()

    # ---- writing

    def write(self) -> None:
        """Write the trace file, where something happened since it was last written."""
        with self._lock:
            if self._dirty:
                path = self.filename
                self._write(self._of_file(path), path)
                for recording in self._recordings:
                    recording.file = recording.file or path
                self._dirty = False

    def _of_file(self, path: str) -> list[Recording]:
        """What a file holds: all that was dumped into it, and what no file has yet."""
        self._dumped = [r for r in self._dumped if r.file == path]
        return [r for r in (*self._dumped, *self._recordings) if r.file in (None, path)]

    def _write_storage(self) -> None:
        """MXNet's storage profile: where a name for it was given, and memory is profiled."""
        prefix = self.options["gpu_memory_profile_filename_prefix"]
        if prefix and self._wanted().memory:
            from ._memory import write_storage

            recorders = [r.recorder for r in self._recordings]
            write_storage(f"{prefix}-pid_{os.getpid()}.csv", recorders)

    def write_so_far(self) -> None:
        """Write the trace file in the middle of a run, with what the host knows so far."""
        with self._lock:
            if self._current is not None and self._output:
                copy = Recording(self._current.copy(), self._wanted())
                self._write([*self._of_file(self.filename), copy], self.filename)
                self._dirty = True

    def rotate_when_full(self) -> bool:
        """In a long run, put what was recorded into a file of its own and begin anew.

        So neither the memory nor the disk fills: of the `rotate_files` last ones each holds about
        `rotate_events` events.
        """
        with self._lock:
            if self._current is None or self._current.size < self.options["rotate_events"]:
                return False
            if not self._output:  # after the last dump nobody asked for more
                self.stop()
                return True
            self._rotate()
            self._put_aside()
            self._count()
            self._recordings.clear()
            return True

    def _put_aside(self) -> None:
        """Write what the file holds into a file of its own, and let the next one begin without it."""
        stem, ending = os.path.splitext(self.filename)
        self._chunks += 1
        path = f"{stem}.{self._chunks}{ending}"
        self._write(self._of_file(self.filename), path)
        self._dumped.clear()
        self._rotated.append(path)
        while len(self._rotated) > self.options["rotate_files"]:
            _remove(self._rotated.pop(0))

    @property
    def filename(self) -> str:
        """Where the trace goes; in a job of several processes each rank has a file of its own."""
        rank, count = self.rank
        if count < 2:
            return str(self.options["filename"])
        folder, name = os.path.split(self.options["filename"])
        return os.path.join(folder, f"rank{rank}_{name}")

    @property
    def rank(self) -> tuple[int, int]:
        """The number of this process in its job, and how many there are."""
        if not jax.distributed.is_initialized():
            return 0, 1
        return jax.process_index(), jax.process_count()

    def _write(self, recordings: list[Recording], path: str) -> None:
        spans: list[Span] = []
        marks: list[Mark] = []
        for recording in recordings:
            its_spans, its_marks = list(recording.spans()), list(recording.marks())
            if recording.xplane and not recording.enriched:
                recording.enriched = True
                try:
                    enrich(recording.xplane, its_spans, its_marks, steps([recording]))
                except (OSError, ValueError) as error:  # the trace itself is worth more
                    warnings.warn(
                        f"XLA's own trace stays without the operators, which TensorBoard would show: {error}",
                        stacklevel=users_frame(),
                    )
            spans += its_spans
            marks += its_marks
        about = {
            "jax": jax.__version__,
            "pid": os.getpid(),
            "rank": self.rank[0],
            "operators": all(r.wanted.symbolic and r.wanted.imperative for r in recordings),
            "device_time_attributed": {
                how: round(share, 4) for how, share in shares_of(recordings).items()
            },
            "xplane": [r.xplane for r in recordings if r.xplane],
            "paused_ns": [[str(a), str(b)] for r in recordings for a, b in r.paused],
        }
        _chrome.write(path, spans, marks, about)

    def _finish(self) -> None:
        """At the end of the process, save what nobody dumped; not in a process that was forked off since."""
        if os.getpid() != self._began_in:
            return
        self.stop()
        if self._output:
            self.write()


def _run_what_waits() -> None:
    """Calls that were recorded belong to this side of a boundary, as those of MXNet, which runs them at once."""
    if not core.is_recording():
        core.flush_all()


def shares_of(recordings: Iterable[Recording]) -> dict[str, float]:
    """Shares of the device time by how well its operator is known; empty where there is none."""
    total: dict[str, float] = {}
    for recording in recordings:
        for how, spent in recording.attribution().items():
            total[how] = total.get(how, 0.0) + spent
    everything = sum(total.values())
    return {how: spent / everything for how, spent in total.items()} if everything else {}


def _remove(path: str) -> None:
    """Remove a trace and the folders of XLA's traces that it names."""
    with contextlib.suppress(OSError, ValueError):
        for xplane in _chrome.read(path).get("otherData", {}).get("xplane", []):
            shutil.rmtree(session_folder(xplane), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(path)


class _FirstUse:
    """Starts XLA's profiler at the first thing the engine does: until then no backend is needed."""

    def __init__(self, profiler: Profiler):
        self._profiler = profiler

    def watch(self) -> None:
        core.observe(self)
        core.note_calls(self._now)

    def _now(self, *_: Any) -> None:
        core.unobserve(self)
        core.end_note(self._now)
        if self._profiler._deferred:
            self._profiler._start_session()

    on_run = on_compile = on_sync = on_python = on_interpreted = _now


class _Writer(threading.Thread):
    """Writes the trace file every `dump_period` seconds while the profiler runs.

    The longer the file takes to write, the longer the waits: at most a twentieth of the time goes
    into writing.
    """

    def __init__(self, profiler: Profiler):
        super().__init__(name="profiler dump", daemon=True)
        self._profiler = profiler
        self._stopped = threading.Event()
        self._told = False

    def stop(self) -> None:
        self._stopped.set()

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            warnings.warn(
                f"the profiler cannot write {self._profiler.filename!r}: {error}. It goes on recording, and "
                "tries again.",
                stacklevel=2,
            )

    def run(self) -> None:
        wait = self._profiler.options["dump_period"]
        while not self._stopped.wait(wait):
            start = time.perf_counter()
            with self._profiler._lock:
                if self._stopped.is_set():
                    return
                try:
                    if not self._profiler.rotate_when_full():
                        self._profiler.write_so_far()
                except OSError as error:  # a full disk may have room again
                    self._tell(error)
            spent = time.perf_counter() - start
            wait = max(self._profiler.options["dump_period"], 20 * spent)


profiler = Profiler()
