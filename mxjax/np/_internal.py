"""The operators behind mx.np under their names in MXNet's registry, as MXNet's own tests and extensions call them."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.frontend import function
from ..errors import no_name
from ..ops.table import by_internal


def boolean_mask(data: Any, index: Any, axis: int = 0, **kwargs: Any) -> Any:
    """The rows whose number in ``index`` is not zero."""
    from ..nd.contrib import boolean_mask as rows

    return rows(data.as_nd_ndarray(), index.as_nd_ndarray(), axis=axis, **kwargs).as_np_ndarray()


def __getattr__(name: str) -> Any:
    op = None
    if not name.startswith("__"):
        plain = name.removeprefix("_npi_").removeprefix("_np_")
        op = by_internal(f"_npi_{plain}") or by_internal(f"_np_{plain}")
    if op is None:
        raise no_name(__name__, name)
    made = function(op, name, ndarray, __name__)
    globals()[name] = made
    return made
