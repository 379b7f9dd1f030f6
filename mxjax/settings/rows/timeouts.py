"""How long something may take."""

from __future__ import annotations

from collections.abc import Iterable

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


class Milliseconds:
    """The same in thousandths, as Ascend has it: -1 is no limit."""

    expected = "a number of milliseconds > 0, or -1"

    def convert(self, raw: object) -> float | None:
        if isinstance(raw, int | float | str) and not isinstance(raw, bool) and float(raw) == -1:
            return None
        return Seconds().convert(raw) / 1000


def _shortest(times: Iterable[float | None]) -> float | None:
    return min((t for t in times if t is not None), default=None)


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
    Option(
        "timeout.read",
        Seconds(),
        None,
        doc="The seconds that asnumpy() and wait_to_read() wait for a value; unset: until it is there.",
        effect="After them MXNetTimeoutError is raised. What computes the value goes on, because XLA cannot "
        "stop a program; so it counts for op_execute_timeout too. Of several names the shortest time counts.",
        legacy=(
            Legacy("op_wait_timeout"),
            Legacy("op_execute_timeout"),
            Legacy("event_sync_timeout", Milliseconds()),
        ),
        combine=_shortest,
    ),
    Option(
        "timeout.waitall",
        Seconds(),
        None,
        doc="The seconds that waitall() waits for everything; unset: until it is done.",
        effect="After them MXNetTimeoutError is raised; what runs goes on.",
        legacy=(Legacy("stream_sync_timeout", Milliseconds()),),
    ),
)
