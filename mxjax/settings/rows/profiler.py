"""What is traced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..kinds import Boolean, Bytes, Choice, Fields, Integer, Kind, KindError, Path, Text
from ..option import Legacy, Option


class _Switches:
    """The profiling_options of Ascend's ProfilingConfig: a dict, or JSON text."""

    _on = Choice(("on", "off"))
    _levels = {"off": 0, "on": 1, "l0": 1, "l1": 2}
    _kinds: Mapping[str, Kind] = {
        "output": Path(), "storage_limit": Bytes(), "fp_point": Text(), "bp_point": Text(), "aic_metrics": Text(),
    }  # fmt: skip
    _switches = ("training_trace", "hccl", "aicpu", "runtime_api", "l2", "msproftx")
    _traces = Choice(tuple(_levels))

    expected = (
        "a dict or JSON with output: a path; storage_limit: bytes; task_trace: on, off, l0 or l1; "
        "training_trace, hccl, aicpu, runtime_api, l2, msproftx: on or off"
    )

    def convert(self, raw: object) -> Mapping[str, Any]:
        if isinstance(raw, str):
            import json

            raw = json.loads(raw)
        if not isinstance(raw, Mapping):
            raise ValueError
        found: dict[str, Any] = {}
        for name, value in raw.items():
            if name in self._kinds:
                found[name] = self._kinds[name].convert(value)
            elif name in ("task_trace", "task_time"):
                level = value if value in (0, 1, 2) and not isinstance(value, bool) else None
                found["task_trace"] = (
                    self._levels[self._traces.convert(value)] if level is None else level
                )
            elif name in self._switches:
                found[name] = value if isinstance(value, bool) else self._on.convert(value) == "on"
            else:
                raise KindError(f"{name!r} is none of its options")
        return MappingProxyType(found)


OPTIONS: tuple[Option, ...] = (
    Option(
        "profiler.autostart",
        Boolean(),
        False,
        doc="Profile from the import on.",
        effect="The profiler runs when mxjax is imported, and its file is written at exit.",
        legacy=(Legacy("MXNET_PROFILER_AUTOSTART"),),
    ),
    Option(
        "profiler.events",
        Integer(0, 15),
        15,
        doc="Which events a profile holds: 1 symbolic + 2 imperative + 4 API + 8 memory.",
        effect="The kinds recorded where profiler.set_config does not say. MXNet's default of 13 "
        "leaves imperative calls out; here they are what programs are made of.",
        legacy=(Legacy("MXNET_PROFILER_MODE"),),
    ),
    Option(
        "profiler.only_wait",
        Boolean(),
        False,
        doc="Let a profile hold only what the host waited for.",
        effect="1: reading values, waitall, batches that were not ready, exchanges between devices; the device's "
        "events, calls and counters are left out.",
        legacy=(Legacy("MGB_PROFILE_ONLY_WAIT"),),
        mechanism="a filter on the trace's events and the table's rows",
    ),
    Option(
        "profiler.config",
        Fields(enable_profiling=Boolean(), profiling_options=_Switches()),
        MappingProxyType({}),
        doc="Ascend's ProfilingConfig: whether to profile, and what.",
        effect="enable_profiling: the profiler runs from then on and writes profile.json to output, at the latest at "
        "exit. task_trace off: no events of devices; l1: XLA's work on the host, too. training_trace, hccl, aicpu and "
        "runtime_api off: no steps, exchanges, custom operators, waits. storage_limit: the oldest traces in output go. "
        "aic_metrics, l2, msproftx, fp_point and bp_point are for Ascend's hardware and its tools: they are "
        "taken, and said once to do nothing.",
        legacy=(Legacy("profiling_config"),),
        mechanism="jax.profiler.ProfileOptions, and profiler.set_config and set_state",
    ),
)
