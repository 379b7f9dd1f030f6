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

import warnings
from typing import Any

from mxjax import settings
from mxjax.errors import MXNetAssertionError

from ._aggregate import SORT_KEYS
from ._objects import Counter, Domain, Event, Frame, Marker, Task, custom_op, scope
from ._recording import GROUPINGS
from ._state import profiler as _profiler

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "attribution",
    "custom_op",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_kvstore_handle",
    "set_state",
    "state",
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
    _profiler.configure(kwargs)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start (``run``) or stop (``stop``) the profiler.

    Raises:
      KeyError: another state or process.
    """
    action = {"stop": _profiler.stop, "run": _profiler.run}[state]
    _profiler.check_process(profile_process)
    action()


def state() -> str:
    """``run`` or ``stop``."""
    return "run" if _profiler.running else "stop"


def pause(profile_process: str = "worker") -> None:
    """Record nothing until `resume`."""
    _profiler.check_process(profile_process)
    _profiler.pause()


def resume(profile_process: str = "worker") -> None:
    """Record again after `pause`."""
    _profiler.check_process(profile_process)
    _profiler.resume()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace file; unless `finished` is False, stop the profiler too.

    Raises:
      MXNetError: the profiler has not run.
    """
    _profiler.check_process(profile_process)
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
    between the operators in it; see `attribution`.

    Args:
      reset: forget them afterwards.
      format: ``table`` or ``json``.
      sort_by: ``total``, ``avg``, ``min``, ``max`` or ``count``.
      ascending: the smallest first.
      group_by: what a row is: ``operator``, ``block``, ``source`` (the user's line) or ``shape``
        (an operator with the shapes and dtypes of its operands and results).

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
    """
    return _profiler.attribution()


def set_kvstore_handle(handle: Any) -> None:
    """Name the distributed kvstore whose servers ``profile_process='server'`` means."""
    _profiler.kvstore = handle


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Deprecated: `set_config` with ``profile_<mode>=True``."""
    _deprecated("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated: `set_state`."""
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


if settings.get("profiler.autostart"):
    # XLA's side starts with the first program: importing must not start a backend.
    _profiler.run(defer=True)
