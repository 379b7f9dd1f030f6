"""XLA's own profiler: started and stopped through JAX, its trace read back."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from mxjax.hlo import Instruction, Program, parse

from ._attribution import Attribution, Attributor
from ._statements import Statements
from ._traced_programs import programs

# Lines of a device that XLA derives from its other lines would count time twice.
_DERIVED = ("XLA ", "Framework", "Steps", "Source", "TensorFlow")

# The events of XLA's thread pools and its bookkeeping are three quarters of a trace on the CPU.
_NOISE = ("ThreadpoolListener::", "end: ")


@dataclass(slots=True)
class DeviceEvent:
    """An instruction that ran: where, when, for which execution, and whose it is.

    `start` and `stop` are nanoseconds of `time.time_ns`; `own` is the time without the events
    inside this one (a loop contains its body). `launched` is when the host asked for it, where the
    device tells: a GPU numbers neither executions nor programs as the engine does.
    """

    device: str
    line: str
    name: str
    program: str
    run: int
    start: int
    stop: int
    own: int
    owner: Attribution
    instruction: Instruction | None = None
    statements: Statements | None = None
    launched: int | None = None

    @property
    def collective(self) -> bool:
        """Whether it exchanges data between devices."""
        opcode = self.instruction.opcode if self.instruction is not None else self.name
        return opcode.startswith(_COLLECTIVES)


_COLLECTIVES = (
    "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-", "send", "recv",
)  # fmt: skip


class XlaSession:
    """One run of XLA's profiler; its files lie in a new folder under `log_dir`.

    `level` 1 carries every event of the devices, 0 none, 2 also those of XLA's own work on the host.
    """

    _count = 0

    def __init__(self, log_dir: str, level: int = 1):
        self._level = level
        XlaSession._count += 1
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        self.folder = os.path.join(log_dir, f"{stamp}_{os.getpid()}_{XlaSession._count}")
        self._running = False

    def start(self) -> bool:
        """Start XLA's profiler; False, and a warning, where one is running already."""
        options = jax.profiler.ProfileOptions()
        # Level 2 and the Python tracer cost time per call.
        options.host_tracer_level = self._level
        if hasattr(options, "device_tracer_level"):  # not every JAX has it
            options.device_tracer_level = min(self._level, 1)
        options.python_tracer_level = 0
        try:
            # XLA's profiler would notice at its end only, and never let go of what it has.
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            warnings.warn(
                f"XLA's trace has no place, so only the host's side is recorded: {error}. Name a folder "
                "with profiler.set_config(log_dir=...).",
                stacklevel=users_frame(),
            )
            return False
        try:
            jax.profiler.start_trace(self.folder, profiler_options=options)
        except RuntimeError as error:
            warnings.warn(
                f"XLA's profiler is in use, so only the host's side is recorded: {error} Stop the "
                "other trace (jax.profiler.stop_trace) before profiler.set_state('run') to see "
                "the device's side.",
                stacklevel=users_frame(),
            )
            return False
        self._running = True
        return True

    def stop(self) -> str | None:
        """Stop, and give the path of the XSpace that was written; None where none was."""
        if not self._running:
            return None
        self._running = False
        try:
            jax.profiler.stop_trace()
        except RuntimeError as error:
            warnings.warn(
                f"XLA's trace is lost: another part of the program stopped it, or it could not be written: {error}",
                stacklevel=users_frame(),
            )
            return None
        pattern = os.path.join(glob.escape(self.folder), "**", "*.xplane.pb")
        found = glob.glob(pattern, recursive=True)
        return max(found, key=os.path.getmtime, default=None)


def users_frame() -> int:
    """The stacklevel with which a warning of the caller names the line that called the profiler."""
    level, frame = 1, sys._getframe(1)
    here = os.path.dirname(frame.f_code.co_filename)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == here:
        frame = frame.f_back
        level += 1
    return level


def session_folder(xplane: str) -> str:
    """The folder that a session made for itself: `<folder>/plugins/profile/<time>/x.xplane.pb`."""
    return os.path.abspath(os.path.join(xplane, "..", "..", "..", ".."))


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Around every use of `jax.profiler.ProfileData`.

    Its types raise a DeprecationWarning in Python 3.13 as they come to life, and one that is turned
    into an error there, inside C++, ends the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@reading()
def read_trace(
    path: str, statements_of: Callable[[str, int | None], Statements | None] = lambda *_: None
) -> list[DeviceEvent]:
    """The device events of an XSpace file.

    `statements_of` knows the engine's programs by `module(id)` and by when one of their events was launched.
    """
    with open(path, "rb") as file:
        space = file.read()
    serialized = programs(space)

    @functools.cache
    def attributor(program: str) -> Attributor:
        data = serialized.get(program)
        statements = statements_of(program, launched.get(program))
        return Attributor(Program("", [], {}) if data is None else parse(data), statements)

    @functools.cache
    def kernels(program: str) -> dict[str, str]:
        return kernels_of(attributor(program).program)

    data = jax.profiler.ProfileData.from_serialized_xspace(space)
    base = 0
    for plane in data.planes:
        if plane.name == "Task Environment":
            base = int(dict(plane.stats)["profile_start_time"])
    launches = _launches(data, base)
    launched: dict[str, int] = {}
    events: list[DeviceEvent] = []
    for plane in data.planes:
        on_device = plane.name.startswith("/device:")
        for number, line in enumerate(plane.lines, 1):
            if on_device and line.name.startswith(_DERIVED):
                continue
            first = len(events)
            line_name = line.name if on_device else f"XLA thread {number}"
            for event in line.events:
                if event.name.startswith(_NOISE):
                    continue
                stats = dict(event.stats)
                op = stats.get("hlo_op")
                if op is None:
                    continue
                program = f"{stats.get('hlo_module', '')}({stats.get('program_id', '')})"
                start = int(event.start_ns)
                stop = int(event.start_ns + event.duration_ns)
                device = (
                    _device_of(plane.name) if on_device else f"cpu/{stats.get('device_ordinal', 0)}"
                )
                launch = launches.get(stats.get("correlation_id", 0)) if on_device else None
                if launch is not None:
                    launched.setdefault(program, launch)
                attribute = attributor(program)
                op = instruction_of(attribute.program, kernels(program), op, event.name)
                events.append(
                    DeviceEvent(
                        device,
                        line_name,
                        op,
                        program,
                        stats.get("run_id", 0),
                        base + start,
                        base + stop,
                        stop - start,
                        attribute(op),
                        attribute.program.instructions.get(op),
                        attribute.statements,
                        launch,
                    )
                )
            _subtract_nested(events[first:])
    return events


def instruction_of(program: Program, kernels: Mapping[str, str], op: str, kernel: str) -> str:
    """The name of what a GPU ran; inside of a CUDA graph the trace tells the graph's name, and the kernel's."""
    if op in program.instructions and not op.startswith("command_buffer"):
        return op
    return kernels.get(kernel, op)


def kernels_of(program: Program) -> dict[str, str]:
    """The instructions by the names of their kernels, which are theirs in letters, digits and underscores."""
    return {re.sub(r"\W", "_", name): name for name in program.instructions}


def _launches(data: Any, base: int) -> dict[int, int]:
    """When the host launched what a GPU ran, by the number that both sides give it."""
    found: dict[int, int] = {}
    for plane in data.planes:
        if plane.name.startswith("/host:CPU"):
            for line in plane.lines:
                for event in line.events:
                    number = dict(event.stats).get("correlation_id")
                    if number is not None:
                        found[number] = base + int(event.start_ns)
    return found


def _device_of(plane: str) -> str:
    """`/device:GPU:1` as MXNet writes it, `gpu/1`."""
    kind, _, number = plane.removeprefix("/device:").partition(":")
    return f"{kind.split(' ')[0].lower()}/{number.split(' ')[0]}"


def _subtract_nested(events: list[DeviceEvent]) -> None:
    """Take from each event's own time what the events inside it took."""
    open_: list[DeviceEvent] = []
    for event in sorted(events, key=lambda e: (e.start, -e.stop)):
        while open_ and open_[-1].stop <= event.start:
            open_.pop()
        if open_ and event.stop <= open_[-1].stop:
            open_[-1].own -= event.stop - event.start
        open_.append(event)
