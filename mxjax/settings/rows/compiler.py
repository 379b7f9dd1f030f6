"""What XLA is told."""

from __future__ import annotations

from ..kinds import Flags
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "compiler.options",
        Flags(prefix="xla_"),
        {},
        doc="XLA options that every program is compiled with.",
        effect="Added to the options mxjax chooses itself, and stronger; XLA refuses unknown ones.",
        applies="compile",
        legacy=(Legacy("experimental_config"),),
    ),
)
