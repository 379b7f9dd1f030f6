"""What the host does while the profiler runs, as an observer of the engine."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from mxjax import core
from mxjax.core import Step

from ._holdings import Holdings

# The engine's waits under the names that MXNet's C API has for them.
SYNC_NAMES = {
    "waitall": "MXNDArrayWaitAll",
    "wait_to_read": "MXNDArrayWaitToRead",
    "asnumpy": "MXNDArraySyncCopyToCPU",
}

# What the rows with XLA's own names of a device's events are called after its name.
RAW = " (XLA)"


@dataclass(slots=True)
class Span:
    """A stretch of time on one row; `start` and `stop` are nanoseconds of `time.time_ns`.

    `leaves` and `arrives` are the numbers of the arrows that begin and end here.
    """

    process: str
    thread: str
    category: str
    name: str
    start: int
    stop: int
    args: dict[str, Any] | None = None
    leaves: list[int] | None = None
    arrives: list[int] | None = None


@dataclass(slots=True)
class Mark:
    """A value of a counter at a time, or (with `scope`) an instant."""

    process: str
    category: str
    name: str
    time: int
    value: float = 0.0
    unit: str = "value"
    scope: str = ""
    thread: str = ""


def this_thread() -> str:
    """The name of this thread, which is that of its row."""
    return threading.current_thread().name


# A recorded call: when it was begun and done, and by which thread.
Record = tuple[Step, int, int, str]
_new = tuple.__new__
# A call began when the one before was done, at most so long ago (nanoseconds): a longer gap is the user's.
_LONGEST = 10_000
# Between two looks at the memory of the devices (nanoseconds); whose results are alive is known at any time.
_SAMPLE = 5_000_000


class Run(NamedTuple):
    """A program handed to the device; `program` is None for those that a wing made itself."""

    name: str
    steps: Sequence[Step]
    program: Any
    start: int
    stop: int
    thread: str


@dataclass
class Recorder:
    """Collects what happens between the start and the stop of the profiler.

    Implements `mxjax.core.hooks.SegmentObserver`.  Lists are only ever added to, which no
    lock is needed for; the rows of the trace are made from them afterwards.  Kept are the steps of
    programs, which live as long as those, and never values: a profiler must not keep arrays alive.

    `synchronised`: each call is waited for, and its time is that of the wait as well.
    """

    sample_memory: bool = True
    synchronised: bool = False
    # The calls of each segment: the step they lead to, their times, the thread.
    calls: list[tuple[Step, list[int], str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    compiles: list[tuple[str, str, int, int, str]] = field(default_factory=list)
    syncs: list[tuple[str, int, int, str]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    customs: list[tuple[str, int, int, str]] = field(default_factory=list)
    interpreted: list[Record] = field(default_factory=list)  # calls that NumPy computed
    holdings: Holdings = field(default_factory=Holdings)
    _next_sample: int = 0
    _used: set[str] = field(default_factory=set)
    _collecting: int = 0

    def __post_init__(self) -> None:
        self._records: list[Record] = []
        self._known = 0

    @property
    def records(self) -> list[Record]:
        """The recorded calls in the order in which they began."""
        if len(self.calls) != self._known:
            calls = list(self.calls)
            self._known = len(calls)
            path = functools.cache(Step.path)
            self._records = [r for step, times, by in calls for r in _read(path(step), times, by)]
            self._records.sort(key=_begin)
        return self._records

    @property
    def size(self) -> int:
        """About how many events of the trace this will be."""
        host = (
            sum(len(times) for _, times, _ in list(self.calls))
            + len(self.spans)
            + len(self.marks)
            + len(self.syncs)
            + len(self.interpreted)
        )
        return host + sum(len(run.steps) for run in list(self.runs))

    def copy(self) -> Recorder:
        """What was collected so far; this one goes on."""
        made = Recorder()
        for name in (
            "calls",
            "runs",
            "compiles",
            "syncs",
            "spans",
            "marks",
            "customs",
            "interpreted",
        ):
            setattr(made, name, list(getattr(self, name)))
        made.holdings = self.holdings.copy()
        return made

    def begin(self) -> None:
        """Look at what has no observer's call: the garbage collector."""
        gc.callbacks.append(self._on_gc)
        if self.synchronised:
            core.note_calls(self._wait)

    def end(self) -> None:
        """Stop looking."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)
            core.end_note(self._wait)
        self.holdings.end()

    def on_calls(self, step: Step, times: list[int], thread: str) -> None:
        self.calls.append((step, times, thread))

    def _wait(self, *_: Any) -> None:
        """The call is over when its result is there."""
        if not core.is_recording():
            core.flush_thread()
            core.wait_all()
            if self.calls:
                self.calls[-1][1][-1] = time.time_ns()

    def on_program(self, program: Any, results: Sequence[Any], start: int, stop: int) -> None:
        run = program.name, program.steps, program, start, stop, core.local.st.thread
        self.runs.append(_new(Run, run))
        if self.sample_memory:
            self.holdings.add(program, results, stop)
            if stop >= self._next_sample:
                self.memory()

    def on_run(self, name: str, steps: Sequence[Step], start: int, stop: int) -> None:
        self.runs.append(Run(name, steps, None, start, stop, this_thread()))

    def on_interpreted(self, step: Step, start: int, stop: int) -> None:
        """NumPy computed a call (`engine.cold`)."""
        self.interpreted.append((step, start, stop, this_thread()))

    def on_compile(self, name: str, reason: str, start: int, stop: int) -> None:
        self.compiles.append((name, reason, start, stop, this_thread()))

    def on_sync(self, name: str, start: int, stop: int) -> None:
        self.syncs.append((name, start, stop, core.local.st.thread))

    def on_python(self, name: str, start: int, stop: int) -> None:
        """The Python code of a custom operator ran."""
        self.customs.append((name, start, stop, this_thread()))

    def on_span(
        self, category: str, name: str, start: int, stop: int, args: dict[str, Any]
    ) -> None:
        """A stretch of the host's time that a wing named."""
        thread = this_thread()
        self.spans.append(Span("host", thread, category, name, start, stop, args or None))

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.time_ns()
        elif self._collecting:
            start, self._collecting = self._collecting, 0
            stop = time.time_ns()
            if info["generation"] or stop - start > 100_000:  # thousands of small ones say nothing
                name = f"gc generation {info['generation']}"
                self.on_span("gc", name, start, stop, {"collected": info["collected"]})

    def memory(self) -> None:
        """Note the bytes in use on each device.

        Looking costs more the more arrays there are, so the next look waits three hundred times as
        long as this one took.
        """
        start = time.time_ns()
        for device, used in bytes_in_use().items():
            if used or device in self._used:  # a device that never held anything has no track
                self._used.add(device)
                name = f"Memory: {device}"
                self.marks.append(
                    Mark("Device Storage", "Device Storage", name, start, float(used), "bytes")
                )
        self._next_sample = start + max(_SAMPLE, 300 * (time.time_ns() - start))


def _read(path: list[Step], times: list[int], thread: str) -> Iterator[Record]:
    """The calls of a segment whose times are known."""
    known = sum(at >= 0 for at in times)
    begin = end = 0
    steps = iter(path[max(len(path) - known, 0) :])
    for at in times:
        if at < 0:
            begin = -at
            continue
        step = next(steps, None)
        if step is None:  # recorded too late for this run
            return
        if at:
            yield step, begin or max(end, at - _LONGEST), at, thread
        begin, end = 0, at


def _begin(record: Record) -> int:
    return record[1]


def device_name(device: jax.Device) -> str:
    """MXNet's name of a device: `cpu/0`, `gpu/1`."""
    return f"{device.platform}/{device.id}"


def bytes_in_use() -> dict[str, int]:
    """The bytes in use on each local device, from the device itself where it counts them."""
    used: dict[str, int] = {}
    uncounted: set[jax.Device] = set()
    for device in jax.local_devices():
        stats = device.memory_stats()
        if stats is None:
            uncounted.add(device)
            used[device_name(device)] = 0
        else:
            used[device_name(device)] = stats["bytes_in_use"]
    if uncounted:
        for array in jax.live_arrays():
            devices = array.sharding.device_set
            if len(devices) == 1:
                (device,) = devices
                if device in uncounted:
                    used[device_name(device)] += array.nbytes
            else:
                for shard in array.addressable_shards:
                    if shard.device in uncounted:
                        used[device_name(shard.device)] += shard.data.nbytes
    return used
