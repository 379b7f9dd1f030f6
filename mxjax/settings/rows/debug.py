"""What is logged."""

from __future__ import annotations

from ..kinds import Choice
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "debug.log_level",
        Choice(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
        None,
        doc="The level of the logger 'mxjax'; unset: as Python's logging is configured.",
        effect="logging.getLogger('mxjax').setLevel(...).",
        legacy=(Legacy("MEGENGINE_LOGGING_LEVEL"),),
    ),
)
