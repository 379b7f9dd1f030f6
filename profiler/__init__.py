"""The profiler: where the time of a program goes, in the user's own words.

One trace holds the device's events under the names of operators and blocks, XLA's own names beside
them, what the host dispatched, and the user's marks, on one time base.  ``dumps`` gives the same as
MXNet's table.

>>> from mxjax import profiler
>>> profiler.set_config(profile_all=True, aggregate_stats=True, filename="profile.json")
>>> profiler.set_state("run")  # doctest: +SKIP
>>> profiler.set_state("stop")
>>> print(profiler.dumps())  # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mxjax import core, settings
from mxjax.errors import MXNetAssertionError, MXNetError, MXNetKeyError
from mxjax.errors import explain_names as _explain_names
from mxjax.files.atomic import write_whole

from . import _configured
from ._aggregate import SORT_KEYS
from ._objects import Counter, Domain, Event, Frame, Marker, Task, custom_op, named, scope
from ._recording import GROUPINGS, Recording
from ._state import parse_options, shares_of
from ._state import profiler as _profiler

if TYPE_CHECKING:
    from ._memory import LeakCheck

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "attribution",
    "custom_op",
    "diff",
    "dump",
    "dump_profile",
    "dumps",
    "holders",
    "leak_check",
    "merge",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "report",
    "resume",
    "scope",
    "server_command",
    "set_config",
    "set_kvstore_handle",
    "set_state",
    "show",
    "start",
    "state",
    "step",
    "stop",
]


def set_config(**kwargs: Any) -> None:
    """Configure the profiler; options that are not given have their defaults.

    Args:
      filename: the trace that is written (``profile.json``).
      profile_all: everything below.
      profile_symbolic, profile_imperative: operators, on the device and as they are dispatched.
      profile_memory: bytes in use on each device.
      profile_api: the host's waits and calls.
      continuous_dump: write the trace every `dump_period` seconds (1.0) and at the stop.
      aggregate_stats: keep the statistics that `dumps` prints.
      profile_process: ``worker``, or ``server`` with a distributed kvstore.
      gpu_memory_profile_filename_prefix: with ``profile_memory``, `dump` writes what is in memory to
        ``<prefix>-pid_<pid>.csv``, where a prefix is given.
      timing: ``device`` (XLA's own times), ``dispatch`` (the host's time to record each call) or
        ``sync`` (each call is waited for, and nothing overlaps).
      rotate_events, rotate_files: with ``continuous_dump``, after so many events (2,000,000) the
        trace goes on in another file, and only so many such files (8) are kept.
      log_dir: where XLA's own traces (XPlane, for TensorBoard) are left; the default lies beside
        `filename` and ends in ``_xplane``.

    Raises:
      MXNetError: an unknown option, or a value of the wrong kind.
    """
    options = parse_options(kwargs)
    # A server may work in another folder.
    sent = {name: options[name] for name in kwargs} | {
        "filename": os.path.abspath(options["filename"])
    }
    if not _at_servers(options["profile_process"], "configure", options=sent):
        _profiler.configure(kwargs)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start (``run``) or stop (``stop``) the profiler.

    Args:
      state: "run" or "stop".
      profile_process: "worker" or "server": whose profiler is meant.

    Raises:
      KeyError: another state or process.
      MXNetError: the trace cannot be written where `set_config` says.
    """
    actions = {"stop": _profiler.stop, "run": _profiler.run}
    if not isinstance(state, str) or state not in actions:
        raise MXNetKeyError(f"the profiler's state is set to 'run' or 'stop', got {state!r}")
    action = actions[state]
    if not _at_servers(profile_process, state):
        action()


def start(profile_process: str = "worker") -> None:
    """``set_state("run")``.

    Args:
      profile_process: "worker" or "server": whose profiler is meant.
    """
    set_state("run", profile_process)


def stop(profile_process: str = "worker") -> None:
    """``set_state("stop")``.

    Args:
      profile_process: "worker" or "server": whose profiler is meant.
    """
    set_state("stop", profile_process)


def state() -> str:
    """``run`` or ``stop``.

    Returns:
      str: "run", "stop" or "pause".
    """
    return "run" if _profiler.running else "stop"


def pause(profile_process: str = "worker") -> None:
    """Record nothing until `resume`, or the next ``set_state("run")``.

    Args:
      profile_process: "worker" or "server": whose profiler is meant.
    """
    if not _at_servers(profile_process, "pause"):
        _profiler.pause()


def resume(profile_process: str = "worker") -> None:
    """Record again after `pause`.

    Args:
      profile_process: "worker" or "server": whose profiler is meant.
    """
    if not _at_servers(profile_process, "resume"):
        _profiler.resume()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace file; unless `finished` is False, for the last time until the next ``set_state("run")``.

    As in MXNet, a profiler that runs goes on: what it records belongs to the next run. With ``continuous_dump`` a file
    holds all that was ever dumped into it; without, a run after a finished dump begins it anew.

    Args:
      finished: whether it is at its end.
      profile_process: "worker" or "server": whose profiler is meant.

    Raises:
      MXNetError: the profiler has not run since the start or the last finished dump.
    """
    if not _at_servers(profile_process, "dump", finished=finished is True):
        _profiler.dump(finished is True)


def dumps(
    reset: bool = False,
    format: str = "table",
    sort_by: str = "total",
    ascending: bool = False,
    group_by: str = "operator",
) -> str:
    """The statistics as MXNet's table or JSON; empty without ``aggregate_stats``.

    The category ``operator`` holds the time on the device.  The time of a fused program is divided
    between the operators in it; see `attribution`.  Every call counts, as in MXNet; how many of them were not
    computed, because nobody read their results or an equal call gave them, is said at the end.

    Args:
      reset: forget them afterwards.
      format: ``table`` or ``json``.
      sort_by: ``total``, ``avg``, ``min``, ``max`` or ``count``.
      ascending: the smallest first.
      group_by: what a row is: ``operator``, ``block``, ``source`` (the user's line) or ``shape``
        (an operator with the shapes and dtypes of its operands and results).

    Returns:
      str: the table, or its JSON.

    Raises:
      AssertionError: an argument outside these.
    """
    for name, value, allowed in (
        ("format", format, ("table", "json")),
        ("sort_by", sort_by, SORT_KEYS),
        ("ascending", ascending, (False, True)),
        ("reset", reset, (False, True)),
        ("group_by", group_by, GROUPINGS),
    ):
        if value not in allowed:
            expected = ", ".join(map(repr, allowed))
            raise MXNetAssertionError(f"profiler.dumps: {name} is one of {expected}; got {value!r}")
    return _profiler.dumps(bool(reset), format == "json", sort_by, bool(ascending), group_by)


def attribution() -> dict[str, float]:
    """How well device time is attributed to operators, as shares of it.

    ``exact``: by XLA's own metadata; ``shared``: fusions of several operators, divided by the work
    in them; ``inherited``: XLA's nameless instructions, charged to the operator they serve;
    ``none``: the rest.  Empty where no device event was recorded.

    Returns:
      Report or list: what it shows when it is printed.
    """
    return _profiler.attribution()


def report(filename: str | None = None) -> str:
    """Where the time of each step went, as a table: device, collective, compile, input, dispatch, idle.

    A step ends with ``Trainer.step``, or where `step` is called. An instant counts once: as the
    device's while one is busy, else as the first of the others that has it.

    Args:
      filename: also write a page there with pictures and tables, which needs nothing else to be read.

    Returns:
      Report or list: what it shows when it is printed.

    Raises:
      MXNetError: nothing was recorded.

    >>> print(profiler.report("report.html"))  # doctest: +SKIP
    """
    from . import _report, _steps

    recordings = _recorded("report")
    shares = shares_of(recordings)
    text = _steps.table(_steps.steps(recordings))
    if shares:
        known = ", ".join(f"{how} {100 * share:.1f} %" for how, share in shares.items())
        text += f"Device time by how its operator is known: {known}\n"
    if filename is not None:
        page = _report.page(recordings, shares, "Profile")
        write_whole(filename, lambda file: file.write(page.encode(errors="backslashreplace")))
    return text


def show() -> Any:
    """What was recorded, as a notebook's output: steps, operators, timeline and memory in pictures.

    Returns:
      str: the path of the page.

    Raises:
      MXNetError: nothing was recorded.
    """
    from ._report import Shown

    recordings = _recorded("show")
    return Shown(recordings, shares_of(recordings))


def _recorded(what: str) -> list[Recording]:
    recordings = _profiler.recordings()
    if not recordings:
        raise MXNetError(
            f"profiler.{what} has nothing to show: the profiler has not run since the start, or since "
            "the last dump(finished=True). Call profiler.set_state('run') before the code in question."
        )
    return recordings


def step(name: str = "step") -> None:
    """Mark the end of a step, for loops without a ``Trainer``.

    Args:
      name: what the step is called in the trace.
    """
    named(name, "step")
    recorder = _profiler.recorder
    if recorder is not None:
        now = time.time_ns()
        recorder.on_span("step", name, now, now, {})


def diff(a: str, b: str) -> str:
    """Two profiles side by side, the operators with the largest change first.

    Args:
      a, b: what ``dumps(format="json")`` gave, or the paths of trace files.

    Returns:
      Report: what has changed.

    Raises:
      MXNetError: one is neither.

    >>> before = profiler.dumps(format="json")  # doctest: +SKIP
    >>> print(profiler.diff(before, profiler.dumps(format="json")))  # doctest: +SKIP
    """
    from ._diff import difference

    return difference(a, b)


def merge(paths: Sequence[str], out: str) -> None:
    """Write the traces of several processes as one, on one time base, a group of rows per rank.

    Args:
      paths: the paths of the traces.
      out: the path of the trace that is written.

    Raises:
      MXNetError: a file is no trace of this profiler.
      OSError: there is no such file.

    >>> profiler.merge(["rank0_profile.json", "rank1_profile.json"], "all.json")  # doctest: +SKIP
    """
    from ._merge import merge as merge_traces

    merge_traces(paths, out)


def holders(most: int = 10) -> list[core.holders.Holder]:
    """The largest groups of arrays alive on the devices: parameter or operator, block, line, bytes.

    Works whether or not the profiler runs, and looks at every object of the process.

    Args:
      most: the largest number.

    Returns:
      Report or list: what it shows when it is printed.

    >>> for holder in profiler.holders():  # doctest: +SKIP
    ...     print(holder)
    """
    return core.holders.holders()[:most]


def leak_check() -> LeakCheck:
    """A scope that tells which arrays are alive at its end and were not at its beginning.

    Afterwards ``grown`` lists them, ``nbytes`` is their sum, and printing it names lines; it is
    false where nothing grew.

    Returns:
      context manager: it raises where memory stays.

    >>> with profiler.leak_check() as leaks:  # doctest: +SKIP
    ...     step()
    >>> assert not leaks, leaks  # doctest: +SKIP
    """
    from ._memory import LeakCheck

    return LeakCheck()


def set_kvstore_handle(handle: Any) -> None:
    """Name the distributed kvstore whose servers ``profile_process='server'`` means.

    Args:
      handle: the kvstore; `None` for none.
    """
    _profiler.kvstore = handle


def server_command(body: str, rank: int = 0) -> None:
    """In a server of a distributed kvstore: obey what a worker's ``profile_process='server'`` sent.

    Args:
      body: what happens in one round: a function of the values.
      rank: the number of the process.

    Raises:
      MXNetError: `body` is no command of the profiler.
    """
    from ._server import obey

    obey(_profiler, body, rank)


def _at_servers(process: str, action: str, **arguments: Any) -> bool:
    """Whether a call is for the servers; it is sent to them then."""
    if process == "worker":
        return False
    _profiler.check_process(process)
    from ._server import send

    send(_profiler.kvstore, action, **arguments)
    return True


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Deprecated: `set_config` with ``profile_<mode>=True``.

    Args:
      mode: what is recorded: "symbolic", "imperative", "api", "memory" or "all".
      filename: the path of the file.
    """
    _deprecated("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated: `set_state`.

    Args:
      state: "run" or "stop".
    """
    _deprecated("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """Deprecated: `dump`."""
    _deprecated("dump_profile", "dump")
    dump(True)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", stacklevel=3
    )


settings.on_change("profiler.config", _configured.apply)
if settings.is_given("profiler.config"):
    _configured.apply()
if settings.get("profiler.autostart"):
    # XLA's side starts with the first program: importing must not start a backend.
    _profiler.run(defer=True)


_explain_names(__name__)
