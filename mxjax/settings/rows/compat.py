"""Options that did nothing where they come from, and do nothing here."""

from __future__ import annotations

from ..kinds import Text
from ..option import Legacy, Option

_DEAD = "has no effect upstream either"

OPTIONS: tuple[Option, ...] = tuple(
    Option(
        f"compat.{name}",
        Text(),
        None,
        doc=f"Ascend's {name}.",
        effect="None: it is taken, and said once that it does nothing.",
        legacy=(Legacy(name, fidelity="none", difference=_DEAD),),
    )
    for name in ("enable_reduce_precision", "graph_memory_max_size", "variable_memory_max_size")
)
