"""Symbol modules whose functions come from the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array.invoke import symbolic
from ..ops.table import FRONT_ENDS, Op
from .compose import compose, function
from .symbol import Symbol


def _composed(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The symbol that a function of mx.np, mx.npx or mx.nd gives for symbols; None where it was given none."""
    for a in (*args, *kwargs.values()):
        for one in a if isinstance(a, (list, tuple)) else (a,):
            if isinstance(one, Symbol):
                return compose(op, type(one), op.display, args, kwargs)
    return None


symbolic.append(_composed)


def fill(namespace: dict[str, Any], front: str, cls: type[Symbol]) -> list[str]:
    """Put the functions of a front end into a module's namespace; what is there already stays."""
    module = namespace["__name__"]
    made = []
    for name, op in FRONT_ENDS.get(front, {}).items():
        if name not in namespace:
            namespace[name] = function(op, name, cls, module)
            made.append(name)
    return made
