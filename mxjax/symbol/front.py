"""Symbol modules whose functions come from the table."""

from __future__ import annotations

from typing import Any

from ..ops.table import FRONT_ENDS
from .compose import function
from .symbol import Symbol


def fill(namespace: dict[str, Any], front: str, cls: type[Symbol]) -> list[str]:
    """Put the functions of a front end into a module's namespace; what is there already stays."""
    module = namespace["__name__"]
    made = []
    for name, op in FRONT_ENDS.get(front, {}).items():
        if name not in namespace:
            namespace[name] = function(op, name, cls, module)
            made.append(name)
    return made
