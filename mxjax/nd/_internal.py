"""Every operator under its name in MXNet's registry: ``mx.nd._internal._plus_scalar``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array.classes import NDArray, ndarray
from ..array.frontend import function
from ..errors import no_name
from ..ops.table import TABLE, Op, by_internal

#: What names of mx.np's and mx.npx's operators begin with.
NP = ("_npi_", "_npx_", "_np_")

#: Operators that compute the stored elements of sparse arrays only, and what they are of dense ones.
STORED = {
    "_scatter_plus_scalar": "_plus_scalar",
    "_scatter_minus_scalar": "_minus_scalar",
    "_scatter_elemwise_div": "elemwise_div",
}


def _of_stored(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of sparse arrays that of what they store, in their storage type."""

    def of_stored(lhs: Any, *args: Any, **kwargs: Any) -> Any:
        if lhs.stype == "default":
            return plain(lhs, *args, **kwargs)
        from . import sparse

        if args and lhs.stype == "row_sparse":
            args = (args[0].tostype("default").take(lhs.indices), *args[1:])
        stored = plain(lhs.data, *args, **kwargs)
        if lhs.stype == "csr":
            return sparse.csr_matrix((stored, lhs.indices, lhs.indptr), shape=lhs.shape)
        return sparse.row_sparse_array((stored, lhs.indices), shape=lhs.shape)

    return of_stored


def row(name: str) -> Op | None:
    """The operator of a name; where np and nd share it (`_maximum_scalar`), nd's, which keeps integers."""
    op = None if name.startswith("__") else by_internal(STORED.get(name, name))
    return op if op is None or name.startswith(NP) else TABLE.get(f"{op.name}@nd", op)


def __getattr__(name: str) -> Any:
    op = row(name)
    if op is None:
        raise no_name(__name__, name)
    made = function(op, name, ndarray if name.startswith(NP) else NDArray, __name__)
    if name in STORED:
        made = _of_stored(made)
    globals()[name] = made
    return made
