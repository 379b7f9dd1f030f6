"""What is traced."""

from __future__ import annotations

from ..kinds import Boolean, Integer
from ..option import Legacy, Option

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
)
