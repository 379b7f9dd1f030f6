"""Every operator under its name in MXNet's registry: ``mx.sym._internal._plus_scalar``."""

from __future__ import annotations

from typing import Any

from ..errors import no_name
from ..nd._internal import NP, row
from .compose import function
from .symbol import Symbol, _Symbol


def __getattr__(name: str) -> Any:
    op = row(name)
    if op is None:
        raise no_name(__name__, name)
    made = function(op, name, _Symbol if name.startswith(NP) else Symbol, __name__)
    globals()[name] = made
    return made
