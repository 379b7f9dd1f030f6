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
        effect="GPU programs are compiled with deterministic operators only, which costs speed, and an "
        "operator that cannot be is an error; "
        "CPU and TPU programs are deterministic anyway. On CPUs programs alone compute, unless engine.cold is "
        "interpret.",
        applies="compile",
        legacy=(Legacy("MXNET_ENFORCE_DETERMINISM"), Legacy("deterministic")),
        compiler=lambda on, platform: (
            {"xla_gpu_deterministic_ops": True, "xla_gpu_exclude_nondeterministic_ops": True}
            if on and platform == "gpu"
            else {}
        ),
        dynamic=True,
    ),
)
