"""Which MXNet code was written for; and options that did nothing where they come from, and do nothing here."""

from __future__ import annotations

import re

from ..kinds import Choice
from ..option import Legacy, Option

_DEAD = "has no effect upstream either"


class Anything:
    """What nobody reads."""

    expected = "anything"

    def convert(self, raw: object) -> str:
        return str(raw)


class Generation(Choice):
    """Which MXNet: a release, such as 1.7.0 or 2.0.0b1, stands for the last one of its generation."""

    def convert(self, raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(r"[12](\.\d+){0,2}((a|b|rc)\d+)?", raw.strip()):
            raw = next(word for word in self.words if word[0] == raw.strip()[0])
        return super().convert(raw)


OPTIONS: tuple[Option, ...] = (
    Option(
        "compat.version",
        Generation(("2.0", "1.9")),
        "2.0",
        doc="The MXNet whose defaults hold where 1.x and 2.x contradict each other (`python -m mxjax --as 1.9`).",
        effect="1.9: arrays of mx.nd unless npx.set_np() asks for others, and Gluon's parameters by their long names.",
    ),
    *(
        Option(
            f"compat.{name}",
            Anything(),
            None,
            doc=f"Ascend's {name}.",
            effect="None: it is taken, and said once that it does nothing.",
            legacy=(Legacy(name, fidelity="none", difference=_DEAD),),
        )
        for name in ("enable_reduce_precision", "graph_memory_max_size", "variable_memory_max_size")
    ),
)
