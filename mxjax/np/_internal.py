"""The operators behind mx.np under their names in MXNet's registry, as MXNet's own tests and extensions call them."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.frontend import function
from ..errors import no_name
from ..ops.table import Op, by_internal


def boolean_mask(data: Any, index: Any, axis: int = 0, **kwargs: Any) -> Any:
    """The rows whose number in ``index`` is not zero."""
    from ..nd.contrib import boolean_mask as rows

    return rows(data.as_nd_ndarray(), index.as_nd_ndarray(), axis=axis, **kwargs).as_np_ndarray()


def row_of(module: str, name: str) -> Op:
    """The operator that has a name, with ``_npi_`` or ``_np_`` before it or not.

    Raises:
      AttributeError: there is none.
    """
    op = None
    if not name.startswith("__"):
        plain = name.removeprefix("_npi_").removeprefix("_np_")
        op = by_internal(f"_npi_{plain}") or by_internal(f"_np_{plain}")
    if op is None:
        raise no_name(module, name)
    return op


def __getattr__(name: str) -> Any:
    made = function(row_of(__name__, name), name, ndarray, __name__)
    globals()[name] = made
    return made
