"""mx.np's operators under their names in MXNet's registry, without its ``_npi_``: ``mx.nd.numpy._internal.add``."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.invoke import function
from ..errors import no_name
from ..ops.table import by_internal


def __getattr__(name: str) -> Any:
    op = None if name.startswith("__") else by_internal("_npi_" + name)
    if op is None:
        raise no_name(__name__, name)
    made = function(op, name, ndarray, __name__)
    globals()[name] = made
    return made
