"""Every operator under its name in MXNet's registry: ``mx.nd._internal._plus_scalar``."""

from __future__ import annotations

from typing import Any

from ..array.classes import NDArray, ndarray
from ..array.frontend import function
from ..errors import no_name
from ..ops.table import by_internal


def __getattr__(name: str) -> Any:
    op = None if name.startswith("__") else by_internal(name)
    if op is None:
        raise no_name(__name__, name)
    made = function(
        op, name, ndarray if name.startswith(("_npi_", "_npx_", "_np_")) else NDArray, __name__
    )
    globals()[name] = made
    return made
