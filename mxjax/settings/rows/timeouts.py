"""How long something may take."""

from __future__ import annotations

from ..option import Legacy, Option


class Seconds:
    """A time of more than nothing."""

    expected = "a number of seconds > 0"

    def convert(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        seconds = float(raw)
        if not 0 < seconds < float("inf"):
            raise ValueError
        return seconds


OPTIONS: tuple[Option, ...] = (
    Option(
        "timeout.collective",
        Seconds(),
        1836.0,
        doc="The seconds that a process waits for the others at a collective of the kvstore.",
        effect="After them every process of the job raises an error that names the rank that did not come "
        "and what it was waited for with. The default is Ascend's.",
        legacy=(Legacy("hccl_timeout"), Legacy("HCCL_EXEC_TIMEOUT")),
    ),
    Option(
        "timeout.heartbeat",
        Seconds(),
        10.0,
        doc="The seconds within which the members of a job hear that one of them is missing.",
        effect="Signs of life are sent every tenth of it; silence of four fifths ends the job with an error "
        "that names the rank. A process that ends is noticed at once. Read by the launcher.",
        legacy=(Legacy("PS_HEARTBEAT_TIMEOUT"),),
    ),
    Option(
        "timeout.join",
        Seconds(),
        300.0,
        doc="The seconds within which all members of a job must have joined it.",
        effect="After them the launcher and every member end with an error that names a missing rank.",
    ),
)
