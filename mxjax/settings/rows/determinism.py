"""The same numbers on every run."""

from __future__ import annotations

from ..kinds import Boolean
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "determinism.enabled",
        Boolean(),
        False,
        doc="The same numbers on every run.",
        effect="GPU programs are compiled with deterministic operators only, which costs speed; "
        "CPU and TPU programs are deterministic anyway.",
        applies="compile",
        legacy=(Legacy("MXNET_ENFORCE_DETERMINISM"), Legacy("deterministic")),
        dynamic=True,
    ),
)
